"""The library that draws the charts of `memlake report`: checks that it is the one of npm, or writes it.

The files are committed, so that a package can be built where npm is missing. Without an argument this compares them
with their hashes. `--npm` also gets the package from npm, checks it against the integrity that npm states, and compares
each file; `--write` writes the files from it.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from npm_package import files_of

ASSETS = Path(__file__).resolve().parent.parent / "src/memlake/html_report/assets"
PACKAGE = "uplot@1.6.32"
# npm view uplot@1.6.32 dist.integrity
INTEGRITY = "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
# The file in the project, its place in npm's package, and its SHA-256.
FILES = {
    "uPlot.iife.min.js": (
        "package/dist/uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    "uPlot.min.css": (
        "package/dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    "uPlot.LICENSE.txt": (
        "package/LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
}


def differing(assets: Path) -> list[str]:
    """Returns the names of files that are missing, or not those of the package."""
    wrong = []
    for name, (_, wanted) in FILES.items():
        path = assets / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            wrong.append(name)
    return wrong


def from_npm() -> dict[str, bytes]:
    """Returns the files of npm's package."""
    contents = files_of(PACKAGE, INTEGRITY, [inside for inside, _ in FILES.values()])
    return dict(zip(FILES, contents, strict=True))


def main() -> int:
    """Compares or writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npm", action="store_true", help="compare with npm's package, too")
    parser.add_argument("--write", action="store_true", help="write the files of npm's package")
    parser.add_argument("--assets", type=Path, default=ASSETS, help="the folder of the files")
    arguments = parser.parse_args()
    wrong = set()
    if arguments.npm or arguments.write:
        for name, content in from_npm().items():
            path = arguments.assets / name
            if arguments.write:
                path.write_bytes(content)
            elif not path.exists() or path.read_bytes() != content:
                wrong.add(name)
    wrong |= set(differing(arguments.assets))
    for name in sorted(wrong):
        print(f"{name} is not the file of {PACKAGE}; run: make report-assets", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
