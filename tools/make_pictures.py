"""Makes the pictures of the documents: a report of a shipped example in Chromium, in light and dark and on a phone."""

import sys
import tempfile
from pathlib import Path

import memlake
from browser import Browser, missing_programs
from memlake.trace import load_example

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"
TRACE, CAPACITY = "train_opt-13b_lora_offload", "64GiB"
# The name of a picture: its width and height, its theme, the section that it begins with, and what to do before it.
PICTURES = {
    "report.png": (1280, 1560, "light", "verdict", ""),
    "report_map.png": (1280, 660, "light", "map", ""),
    "report_dark.png": (1280, 1330, "dark", "timeline", ""),
    "report_phone.png": (390, 1180, "light", "timeline", ""),
}


def main() -> int:
    """Makes all pictures."""
    if missing := missing_programs():
        print(
            f"{' and '.join(missing)} not installed; on Debian: apt-get install chromium chromium-driver",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        trace = load_example(TRACE)
        # The title of the page is the name of the file.
        trace.save(Path(folder) / f"{TRACE}.npz")
        memlake.report(Path(folder) / f"{TRACE}.npz", CAPACITY).save(page)
        with Browser() as browser:
            for name, (width, height, theme, section, script) in PICTURES.items():
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
                browser.open(page)
                browser.wait_for("document.documentElement.dataset.ready")
                browser.run(f"{script}; document.getElementById('{section}').scrollIntoView({{behavior: 'instant'}})")
                browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                browser.picture(IMAGES / name)
                print(f"docs/images/{name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
