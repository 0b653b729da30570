"""Example traces that ship with memlake. src/memlake/examples/README.md describes them."""

from __future__ import annotations

from pathlib import Path

from memlake.errors import ConfigError
from memlake.trace.trace import Trace

__all__ = ["example_traces", "load_example"]

FOLDER = Path(__file__).parent.parent / "examples"
ENDINGS = (".npz", ".txt.gz")


def example_traces() -> dict[str, Path]:
    """Returns the names of the examples and their files."""
    return {
        path.name.removesuffix(ending): path
        for path in sorted(FOLDER.iterdir())
        for ending in ENDINGS
        if path.name.endswith(ending)
    }


def load_example(name: str) -> Trace:
    """Loads an example.

    Raises:
        ConfigError: if no example has this name. The message lists the names.
    """
    paths = example_traces()
    if name not in paths:
        raise ConfigError(f"no example is named {name!r}; there are: {', '.join(paths)}")
    return Trace.load(paths[name])
