"""Builds the documentation site into build/site/html/, from the documents of the repository. `make docs` runs it.

The builder is Zensical, the successor of Material for MkDocs by the same people; Material itself ends in May 2027. It
reads the same settings, so that a change of the builder is a change of one command. The site needs no server and loads
nothing from the network: open build/site/html/index.html. A warning of the builder is an error.

The search runs in a worker, which browsers do not start from a disk. The builder's pages load a script for that from a
network, so it is put into the site: iframe-worker, of npm.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from pages import PROJECT, pages

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from npm_package import files_of  # noqa: E402

SETTINGS = Path(__file__).with_name("site.yml")
SOURCE = ROOT / "build/site"
SITE = SOURCE / "html"
SHIM = "iframe-worker@1.0.4"
# npm view iframe-worker@1.0.4 dist.integrity
SHIM_INTEGRITY = "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q=="
SHIM_TAG = '<script src="https://unpkg.com/iframe-worker/shim" type="text/javascript"></script>'


def settings(text: str, names: list[str]) -> str:
    """Returns the settings of the builder with the parts of the menu that are lists of files."""
    parts = {
        "DOCSTRINGS": [name for name in names if name.startswith("reference/python/")],
        "DECISIONS": [name for name in names if name.startswith("design/")],
        "PROJECT": list(PROJECT.values()),
    }
    for word, part in parts.items():
        text = text.replace(f": {word}\n", f": [{', '.join(part)}]\n")
    return text


def write_source(root: Path, folder: Path) -> None:
    """Writes the pages, the other files of docs/ and the settings to a folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs", folder / "pages", ignore=shutil.ignore_patterns("*.md"))
    made = pages(root)
    for name, text in made.items():
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "mkdocs.yml").write_text(settings(SETTINGS.read_text(), sorted(made)))


def without_colons(html: str) -> str:
    """Returns a page without the two colons that begin an example in a docstring; Markdown has no meaning for them."""
    return re.sub(r"\s?::</p>", ":</p>", html.replace("<p>::</p>", ""))


def add_shim(site: Path) -> None:
    """Puts the script that starts workers from a disk into the site, and makes the pages load it from there."""
    try:
        script, licence = files_of(SHIM, SHIM_INTEGRITY, ["package/shim/index.js", "package/LICENSE"])
    except SystemExit as error:
        print(f"memlake: {error}; the search of the site will work only from a web server")
        script, licence = b"", b""
    folder = site / "assets/javascripts"
    (folder / "iframe-worker.js").write_bytes(script)
    (folder / "iframe-worker.LICENSE").write_bytes(licence)
    for page in site.rglob("*.html"):
        text = page.read_text()
        if SHIM_TAG not in text:
            sys.exit(f"{page.relative_to(site)} does not load {SHIM} as expected, so the search cannot be made to work")
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(text.replace(SHIM_TAG, f'<script src="{up}assets/javascripts/iframe-worker.js"></script>'))


def loaded_from_a_network(html: str) -> list[str]:
    """Returns the addresses of other machines that a browser loads with a page. A link to click is none."""
    found: list[str] = re.findall(r'<(?:script|img|iframe|link)\b[^>]*\s(?:src|href)="(https?://[^"]+)"', html)
    return found


def main() -> None:
    """Writes the source of the site and builds it."""
    write_source(ROOT, SOURCE)
    builder = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [builder, "build", "--strict", "--clean"], cwd=SOURCE, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    if done.returncode != 0 or "warning" in said.lower() or not (SITE / "index.html").exists():
        sys.exit(f"the site was not built:\n{said}")
    for page in SITE.glob("reference/python/*.html"):
        page.write_text(without_colons(page.read_text()))
    add_shim(SITE)
    for page in SITE.rglob("*.html"):
        if addresses := loaded_from_a_network(page.read_text()):
            sys.exit(f"{page.relative_to(SITE)} loads {', '.join(addresses)}, but the site must work without a network")
    print(f"memlake: {sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
