# What nanobind's stubgen leaves out: a name between double underscores.
memlake._native.__prefix__:
    __version__: str

# Methods that CPython calls directly have no signature of nanobind's.
memlake._native.Pool.allocate:
    \from memlake.device.stream import StreamLike
    \from memlake.pool.buffer import Buffer
    \from memlake.units import Size
    def allocate(self, nbytes: Size, *, stream: StreamLike = None, shareable: bool | None = None, single_handle: bool = False) -> Buffer:
        \doc

memlake._native.Lease.close:
    def close(self, *, stream: StreamLike = None) -> None:
        \doc

memlake._native.allocating_from:
    \from collections.abc import Callable
    \from typing import TypeVar
    _Function = TypeVar("_Function", bound=Callable[..., Any])

    def allocating_from(state: tuple[KnownPools, Callable[[], object], _Function]) -> _Function:
        \doc
