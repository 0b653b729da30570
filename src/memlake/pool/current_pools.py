"""Default and current pools: the pools that `memlake.allocate` uses."""

from __future__ import annotations

import atexit
import inspect
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memlake import _native
from memlake.device.device import Device, open_core
from memlake.device.stream import Stream, StreamLike
from memlake.errors import ClosedError, ConfigError
from memlake.pool.chosen_device import chosen_device, current_device, device_of_stream, driver_in_use
from memlake.pool.pool import Pool

if TYPE_CHECKING:
    from types import TracebackType

    from memlake.pool.arguments import DeviceLike
    from memlake.pool.buffer import Buffer
    from memlake.units import Size

__all__ = ["allocate", "current_pool", "default_pool", "set_current_pool", "use_pool"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.Lock()  # guards both; a pool may be made while it is held
_defaults: dict[Device, Pool] = {}
_set: dict[Device, Pool] = {}

# What `allocate` found outside all `use_pool` blocks, so that it need not look again.
_known = _native.KnownPools()


class _Used(NamedTuple):
    """The pools of the `use_pool` blocks around the running code. Immutable, because contexts are copied."""

    pools: Mapping[Device, Pool]
    outer: _Used | None
    known: _native.KnownPools  # what `allocate` found inside the innermost block


_used: ContextVar[_Used | None] = ContextVar("memlake_used_pools", default=None)


def default_pool(device: DeviceLike | None = None) -> Pool:
    """Returns the default pool of a device. The first call makes it; it exists as long as the device is open.

    The default pool has the default policy and no limit, keeps freed memory, and cannot be closed. Its attributes can
    be set, for instance ``default_pool(device).release_threshold = 0`` for CUDA's own default.

    Args:
        device: the device, its ordinal or a ``cuda.core.Device``. None: the current device of the calling thread, as
            in CUDA.
    """
    target = current_device() if device is None else chosen_device(device)
    open_core(target)
    with _lock:
        pool = _defaults.get(target)
        if pool is None or not pool.is_open:
            _forget_what_is_closed()
            pool = _defaults[target] = Pool._default_of(target)
    return pool


def current_pool(device: DeviceLike | None = None) -> Pool:
    """Returns the pool that `memlake.allocate` uses for a device.

    That is the pool of the innermost `use_pool`, else the pool of `set_current_pool`, else the default pool of the
    device. Closed pools are skipped.

    Args:
        device: the device, its ordinal or a ``cuda.core.Device``. None: the current device of the calling thread, as
            in CUDA.
    """
    target = current_device() if device is None else chosen_device(device)
    open_core(target)
    used = _used.get()
    while used is not None:
        pool = used.pools.get(target)
        if pool is not None and pool.is_open:
            return pool
        used = used.outer
    pool = _set.get(target)
    return pool if pool is not None and pool.is_open else default_pool(target)


def set_current_pool(pool: Pool) -> None:
    """Makes a pool the current pool of its devices, in all threads, until another pool is set or this one is closed.

    ``set_current_pool(default_pool(device))`` restores the default. `use_pool` does the same for a part of a program.
    """
    _require_open(pool)
    with _lock:
        _forget_what_is_closed()
        for device in pool.devices:
            _set[device] = pool


class use_pool:  # noqa: N801  a function to its users
    """Makes a pool the current pool of its devices inside a ``with`` block, or inside a decorated function.

    ::

        with memlake.use_pool(pool):
            buffer = memlake.allocate("1GiB")

        @memlake.use_pool(pool)
        def step(): ...

    It applies to the thread or the asyncio task that enters it. Blocks may be nested; the innermost applies. A task or
    context that is created inside the block inherits the pool. A decorated coroutine function uses it in its body.
    """

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        _require_open(pool)
        self._pool = pool

    def __enter__(self) -> Pool:
        pool = self._pool
        _require_open(pool)
        outer = _used.get()
        pools = {} if outer is None else outer.pools
        _used.set(_Used({**pools, **dict.fromkeys(pool.devices, pool)}, outer, _native.KnownPools()))
        return pool

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        used = _used.get()
        _used.set(used and used.outer)

    def __call__(self, function: _Function) -> _Function:
        """Returns the function, wrapped so that the pool is current while it runs."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"{function!r} is a generator: its caller runs between its steps, so write "
                "`with memlake.use_pool(pool):` around the steps that need it"
            )
        pool = self._pool
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with use_pool(pool):
                    return await function(*args, **kwargs)

            return run_async  # type: ignore[return-value]  # the same signature

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with use_pool(pool):
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]  # the same signature


class CurrentPools(NamedTuple):
    """The state of `allocate`, which the core calls without Python code if the pool is known."""

    known: _native.KnownPools
    get_used: Callable[[], object]
    slow: Callable[..., Any]


def _from_known_pools(slow: _Function) -> _Function:
    return _native.allocating_from(CurrentPools(_known, _used.get, slow))  # type: ignore[return-value]


@_from_known_pools
def allocate(nbytes: Size, *, stream: StreamLike = None, device: DeviceLike | None = None) -> Buffer:
    """Allocates memory from the current pool of a device; see `Pool.allocate`.

    Args:
        nbytes: the size, an int or a string such as ``"10GiB"``.
        stream: the stream that uses the memory first. None: the default stream of the device.
        device: the device, its ordinal or a ``cuda.core.Device``. None: the device of the stream, else the current
            device of the calling thread; without a current context the first device.

    Raises:
        OutOfMemory: if there is no memory. The error says why and what to do.
        ConfigError: if device and stream do not match, or there is no device.
    """
    # Here are only calls whose pool is not known yet, or that need more than free memory of the pool.
    of_stream = stream.device if isinstance(stream, Stream) else None if stream is None else device_of_stream(stream)
    chosen = of_stream if device is None else chosen_device(device)
    if chosen is not None and of_stream is not None and chosen != of_stream:
        raise ConfigError(f"{stream!r} is no stream of {chosen!r}; leave device out")
    epoch = _native.KnownPools.epoch()
    pool = current_pool(chosen)
    buffer = pool.allocate(nbytes, stream=stream)
    used = _used.get()
    known = _known if used is None else used.known
    driver = driver_in_use()
    if chosen is not None:
        known.remember(chosen, pool, None if of_stream is None or type(stream) is int else stream, epoch)
    if driver is not None and (chosen is None or type(device) is int):
        known.remember_ordinal(driver, driver.current_device() if chosen is None else chosen.ordinal, pool, epoch)
    return buffer


def _require_open(pool: Pool) -> None:
    if not isinstance(pool, Pool):
        raise ConfigError(f"expected a memlake Pool, got {type(pool).__name__}")
    if not pool.is_open:
        raise ClosedError(f"{pool!r} is closed")


def _forget_what_is_closed() -> None:
    _native.KnownPools.note_change()
    _known.forget()
    for pools in (_defaults, _set):
        for device in [device for device, pool in pools.items() if not pool.is_open]:
            del pools[device]


def _let_go() -> None:
    """Drops the pools at the end of the program, while drivers still work."""
    _known.forget()
    _set.clear()
    _defaults.clear()


atexit.register(_let_go)
