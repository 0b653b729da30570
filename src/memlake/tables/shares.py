"""Shares of a whole, as text."""

from __future__ import annotations

__all__ = ["share"]


def share(part: int, whole: int) -> str:
    """Returns a share such as ``"12.5 %"``; ``"-"`` of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
