"""`memlake report` for a trace of a million rows under three policies: how long it takes, and how its page opens."""

import sys
import tempfile
import time
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal, SkippedError
from benchmarks.million_rows import ROWS, repeated
from memlake.trace import load_example

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from browser import Browser, missing_programs

PASSES = 5


def measure() -> Figures:
    """Seconds to make the page, its size, and the seconds from the begin of loading until everything is drawn."""
    if missing := missing_programs():
        raise SkippedError(f"{' and '.join(missing)} not installed")
    trace = repeated(load_example("train_opt-13b_lora_offload"), ROWS)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        start = time.perf_counter()
        memlake.report(trace, "64GiB", ["caching", "expandable", "lake"]).save(page)
        made = time.perf_counter() - start
        opened = []
        with Browser() as browser:
            for _ in range(PASSES):
                browser.open(page)
                browser.wait_for("document.documentElement.dataset.ready")
                opened.append(float(browser.run("return Number(document.documentElement.dataset.ready)")) / 1000)
        size = page.stat().st_size / 1e6
    figures = {"make": Figure(made, "s"), "size": Figure(size, "MB"), "open": Figure.median(opened, "s")}
    return Figures("report_page", figures, Goal("open", 2))
