"""Loggers: memlake logs under ``memlake.NAME`` with Python's `logging`, and prints nothing by itself.

::

    logging.basicConfig()
    logging.getLogger("memlake").setLevel(logging.DEBUG)
"""

from __future__ import annotations

import logging

__all__ = ["logger"]

# Without a handler of its own, `logging` would print warnings of a program that has configured nothing.
logging.getLogger("memlake").addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    """Returns the logger ``memlake.NAME``. docs/reference/api.md lists the names and what they log."""
    return logging.getLogger(f"memlake.{name}")
