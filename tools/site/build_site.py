"""Builds the documentation site into build/site/html/, from the documents of the repository. `make docs` runs it.

The builder is Zensical, the successor of Material for MkDocs by the same people; Material itself ends in May 2027. It
reads the same settings, so that a change of the builder is a change of one command. The site needs no server and loads
nothing from the network: open build/site/html/index.html. A warning of the builder is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from pages import PROJECT, pages

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).with_name("site.yml")
SOURCE = ROOT / "build/site"
SITE = SOURCE / "html"


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
    print(f"memlake: {sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
