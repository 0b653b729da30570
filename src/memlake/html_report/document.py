"""The HTML document of a report: template, styles, scripts, data and blobs in one text.

Nothing from a file becomes markup or code. The data is JSON in a script element that is not run, with every character
escaped that could end the element; the scripts of the page write it as text only. The policy of the page lets a browser
run these scripts and no others, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from memlake._native import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlake.html_report.blobs import Blobs

__all__ = ["document_of", "sweep_document_of"]

_SWEEP_SCRIPTS = ("format.js", "data.js", "theme.js", "heat.js", "sweep.js")
_SCRIPTS = ("format.js", "data.js", "theme.js", "chart.js", "timeline.js", "map.js", "flame.js", "tables.js", "main.js")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def document_of(title: str, data: dict[str, Any], blobs: Blobs, plain: Sequence[tuple[str, str]]) -> str:
    """Returns the document.

    Args:
        title: the title of the page.
        data: the figures, as JSON values.
        blobs: the large columns of the figures.
        plain: for each file its name and its tables as HTML, for readers without scripts.
    """
    styles = [_asset("uPlot.min.css"), _asset("page.css")]
    scripts = [_asset("uPlot.iife.min.js"), _joined(_SCRIPTS)]
    parts = {"licence": escape(_asset("uPlot.LICENSE.txt"))}
    return _filled("page.html", parts | _parts(title, styles, scripts, data, blobs, plain))


def sweep_document_of(title: str, data: dict[str, Any], blobs: Blobs, plain: str) -> str:
    """Returns the document of a sweep; `plain` is its tables as HTML. The other arguments are as in `document_of`."""
    scripts = [_joined(_SWEEP_SCRIPTS)]
    return _filled("sweep.html", _parts(title, [_asset("page.css")], scripts, data, blobs, [(title, plain)]))


def _parts(
    title: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: dict[str, Any],
    blobs: Blobs,
    plain: Sequence[tuple[str, str]],
) -> dict[str, str]:
    """Returns what every template contains, by its name in the template."""
    head = {
        "policy": _content_policy(styles, scripts),
        "title": escape(title),
        "styles": "".join(f"<style>{style}</style>" for style in styles),
    }
    return {
        "head": _filled("head.html", head),
        "plain": "".join(f"<h2>{escape(name)}</h2>{tables}" for name, tables in plain),
        "version": escape(__version__),
        "data": _json(data),
        "blobs": "".join(
            f'<script type="application/octet-stream" id="blob-{number}">{text}</script>\n'
            for number, text in enumerate(blobs.texts)
        ),
        "scripts": "".join(f"<script>{script}</script>" for script in scripts),
    }


def _filled(template: str, parts: Mapping[str, str]) -> str:
    pieces = _asset(template).split("{{")
    text = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        text += [parts[name], rest]
    return "".join(text)


def _joined(names: Sequence[str]) -> str:
    own = "\n".join(_asset(name) for name in names)
    return f'(() => {{\n"use strict";\n{own}\n}})();'


def _json(data: dict[str, Any]) -> str:
    """Returns JSON without any character that means something to HTML."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def _content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Returns a content security policy that allows these styles and scripts, and nothing else."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _asset(name: str) -> str:
    return files("memlake.html_report").joinpath(f"assets/{name}").read_text("utf-8")
