"""How much memory the demo has resident at its largest: two 8 GiB devices must fit a small laptop."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figure, Figures, Goal

DEMO = Path(__file__).resolve().parent.parent / "examples" / "stitch_by_hand.py"


def measure() -> Figures:
    """The peak resident memory of the demo's process, in MB (10^6 bytes)."""
    process = subprocess.Popen([sys.executable, str(DEMO)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("the demo failed; run: make demo")
    peak = Figure(usage.ru_maxrss * 1024 / 1e6, "MB")
    return Figures("demo_memory", {"peak_resident": peak}, Goal("peak_resident", 300))
