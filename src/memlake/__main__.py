"""python -m memlake"""

import sys

from memlake.cli import main

if __name__ == "__main__":
    sys.exit(main())
