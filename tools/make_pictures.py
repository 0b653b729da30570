"""Makes the pictures of the documents: drawings, and reports of a shipped example in Chromium, in light and dark."""

import os
import sys
import tempfile
from pathlib import Path

import memlake
from browser import Browser, missing_programs
from draw_gather import draw_gather
from draw_layers import draw_layers
from memlake.html_report import report_of_sweep
from memlake.trace import load_example

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"
DRAWINGS = {"how_lake_decides.svg": draw_gather, "life_of_an_allocation.svg": draw_layers}
TRACE, CAPACITY = "train_opt-13b_lora_offload", "64GiB"
# The sweep of docs/guides/sweep_many_files.md, on two more devices: steps of the example as ranks.
RANKS = [(1, 2), (3, 4), (5, 6), (6, 6)]
SWEEP = (["56GiB", "60GiB", "64GiB", "80GiB"], ["lake", "caching", "expandable"])
# The name of a picture: its page, its width and height, its theme, and the section that it begins with.
PICTURES = {
    "report.png": ("report", 1280, 1560, "light", "verdict"),
    "report_map.png": ("report", 1280, 660, "light", "map"),
    "report_dark.png": ("report", 1280, 1330, "dark", "timeline"),
    "report_phone.png": ("report", 390, 1180, "light", "timeline"),
    "sweep.png": ("sweep", 1280, 990, "light", "answer"),
}


def main() -> int:
    """Makes all pictures."""
    for name, draw in DRAWINGS.items():
        draw().save(IMAGES / name)
        print(f"docs/images/{name}")
    if missing := missing_programs():
        print(
            f"{' and '.join(missing)} not installed; on Debian: apt-get install chromium chromium-driver",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        trace = load_example(TRACE)
        # The title of the page is the name of the file.
        trace.save(pages / f"{TRACE}.npz")
        memlake.report(pages / f"{TRACE}.npz", CAPACITY).save(pages / "report.html")
        save_sweep(trace, pages / "sweep.html")
        with Browser() as browser:
            for name, (page, width, height, theme, section) in PICTURES.items():
                browser.command(
                    "Emulation.setDeviceMetricsOverride",
                    width=width,
                    height=height,
                    deviceScaleFactor=1.5 if width < 600 else 1,
                    mobile=width < 600,
                )
                wishes = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
                features = [{"name": wish, "value": value} for wish, value in wishes.items()]
                browser.command("Emulation.setEmulatedMedia", features=features)
                browser.open(pages / f"{page}.html")
                browser.wait_for("document.documentElement.dataset.ready")
                browser.run(f"document.getElementById('{section}').scrollIntoView({{behavior: 'instant'}})")
                browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                browser.picture(IMAGES / name)
                print(f"docs/images/{name}")
    return 0


def save_sweep(trace: memlake.Trace, page: Path) -> None:
    """Makes the page of a sweep over parts of a trace. The page names its files, so they are in the working folder."""
    run = page.parent / "run"
    run.mkdir()
    for rank, (first, last) in enumerate(RANKS):
        trace.in_steps(first, last).save(run / f"rank_{rank}.npz")
    before = Path.cwd()
    os.chdir(page.parent)
    try:
        report_of_sweep(memlake.sweep("run", *SWEEP), "memlake_sweep.jsonl").save(page)
    finally:
        os.chdir(before)


if __name__ == "__main__":
    raise SystemExit(main())
