"""A picture in SVG, drawn by calls. The texts are escaped; numbers are written without needless digits."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

INK, SOFT, GREEN, BLUE = "#111", "#444", "#1d7a35", "#1f5fa8"


class Drawing:
    """Elements in the order in which they are drawn."""

    def __init__(self, width: int, height: int) -> None:
        """Begins a white picture."""
        self._size = width, height
        self._elements: list[str] = []
        self.rect(0, 0, width, height, fill="#ffffff")

    def add(self, tag: str, content: str = "", **settings: Any) -> None:
        """Adds an element. The underscores of names are hyphens; a setting that is None is left out."""
        given = {name.rstrip("_").replace("_", "-"): value for name, value in settings.items() if value is not None}
        text = "".join(f' {name}="{escape(_shown(value))}"' for name, value in given.items())
        self._elements.append(f"  <{tag}{text}>{content}</{tag}>" if content else f"  <{tag}{text}/>")

    def rect(self, x: float, y: float, width: float, height: float, **settings: Any) -> None:
        """Draws a rectangle."""
        self.add("rect", x=x, y=y, width=width, height=height, **settings)

    def text(self, x: float, y: float, content: str, **settings: Any) -> None:
        """Writes one line; x is its left end, or what `text_anchor` says."""
        self.add("text", escape(content, quote=False), x=x, y=y, **settings)

    def arrow(self, path: str, colour: str) -> None:
        """Draws a path with a head at its end."""
        self.add("path", d=path, fill="none", stroke=colour, stroke_width=2.2, marker_end=f"url(#{_head(colour)})")

    def to_text(self) -> str:
        """Returns the file."""
        width, height = self._size
        heads = "".join(
            f'<marker markerUnits="userSpaceOnUse" id="{_head(colour)}" markerWidth="11" markerHeight="11" refX="7" '
            f'refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
            for colour in (BLUE, GREEN, "#2c7a3f")
        )
        hole = (
            '<pattern id="hole" width="8" height="8" patternUnits="userSpaceOnUse">'
            '<path d="M0,8 L8,0" stroke="#c4c4c4" stroke-width="1"/></pattern>'
        )
        begin = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="DejaVu Sans, Arial, sans-serif" font-size="13">'
        )
        note = "  <!-- Made by `make pictures`; edit tools/, not this file. -->"
        return "\n".join([begin, note, f"  <defs>{heads}{hole}</defs>", *self._elements, "</svg>", ""])

    def save(self, path: Path) -> None:
        """Writes the file."""
        path.write_text(self.to_text(), encoding="utf-8")


def _head(colour: str) -> str:
    return f"head-{colour[1:]}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
