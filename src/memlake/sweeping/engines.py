"""Engines: what does the tasks of a sweep. The cores of this machine, or a cluster of Dask or Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from memlake.errors import ConfigError
from memlake.sweeping.cluster_engine import ClusterEngine
from memlake.sweeping.local_engine import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from memlake.sweeping.task import Answer, Task

__all__ = ["ENGINES", "Engine", "engine_of"]

ENGINES = ("local", "dask", "ray")
"""The names of the engines."""


class Engine(Protocol):
    """Does tasks. A context manager: it holds its workers, or its connection, until its end."""

    def __enter__(self) -> Engine: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def num_workers(self) -> int:
        """How many tasks are done at the same time."""

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Answer], None, None]:
        """Does all tasks and yields each once, with its answer, in the order in which they are done."""


def engine_of(name: str, address: str | None, paths: Sequence[str]) -> Engine:
    """Returns an engine by its name.

    Args:
        name: one of `ENGINES`.
        address: the address of the cluster; None for the local engine.
        paths: the files of the sweep.

    Raises:
        ConfigError: if there is no such engine, or if the address does not belong to it.
    """
    if name not in ENGINES:
        raise ConfigError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}")
    if address is not None and (not isinstance(address, str) or not address.strip() or not address.isprintable()):
        raise ConfigError(f"address must be the address of a cluster, got {str(address)[:60]!r}")
    if name == "local":
        if address is not None:
            raise ConfigError(
                f"the local engine has no address, got {address[:60]!r}; hint: name the cluster's kind with engine "
                "(on the command line --engine dask or --engine ray)"
            )
        return LocalEngine(paths)
    if name == "dask" and address is None:
        raise ConfigError(
            "the engine dask needs the address of its scheduler; hint: name it with address (on the command line "
            "--address), for instance tcp://host:8786, or the path of a scheduler file that ends with .json"
        )
    return ClusterEngine(name, address)
