"""What a probe is, and the list of all probes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = Path(__file__).parent.parent / "probes"


class UntrueError(Exception):
    """A statement that must hold under every allocator does not hold."""


@dataclass(frozen=True)
class Probe:
    """One question to PyTorch.

    Attributes:
        name: its group and its own name.
        ask: returns the answer, a JSON value.
        environment: variables of its process, for instance the number of devices.
        is_fresh: whether it needs a process of its own from the start. Its exit code and its standard error are then
            part of the outcome. The others run in a fork of a process that has imported PyTorch.
        is_installed: whether memlake is installed before the probe begins.
        keeps_books: whether the books are checked after the answer.
    """

    name: str
    ask: Callable[[], Any]
    environment: dict[str, str]
    is_fresh: bool
    is_installed: bool
    keeps_books: bool


_probes: dict[str, Probe] = {}


def probe(
    *, environment: dict[str, str] | None = None, fresh: bool = False, installed: bool = True, books: bool = True
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Makes a function a probe; see `Probe`."""

    def register(ask: Callable[[], Any]) -> Callable[[], Any]:
        name = f"{ask.__module__.rpartition('.')[2]}.{ask.__name__}"
        if name in _probes:
            raise ValueError(f"two probes are named {name}")
        _probes[name] = Probe(name, ask, environment or {}, fresh, installed, books)
        return ask

    return register


def all_probes() -> dict[str, Probe]:
    """Imports every group and returns its probes by name."""
    for file in sorted(GROUPS.glob("*.py")):
        importlib.import_module(f"probes.{file.stem}")
    return _probes


def check(is_true: bool, sentence: str) -> None:
    """Raises UntrueError with the sentence if something is not true."""
    if not is_true:
        raise UntrueError(sentence)
