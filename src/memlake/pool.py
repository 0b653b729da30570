"""Pools: memory of a device, handed out under a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from memlake import _native
from memlake.buffer import Buffer
from memlake.device import Device, open_core
from memlake.errors import BrokenInvariant, ConfigError, MemlakeError, OutOfMemory
from memlake.policies import Options, resolve_policy
from memlake.pool_stats import PoolStats
from memlake.shortage import Shortage
from memlake.stream import StreamLike, stream_arguments
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from typing_extensions import Self

    from memlake.pool_snapshot import PoolSnapshot
    from memlake.recording import Recording

__all__ = ["FailureCallback", "Pool"]

FailureCallback = Callable[[int], object]
"""Is asked before a pool gives up, with the size of the request; a true answer means: try again."""


# What a function of on_failure may have changed so that another try makes sense, and how often one is made.
_WHAT_A_CALLBACK_CHANGES = ("limit", "held", "live", "pending", "free", "device_free")
_MOST_IN_VAIN = 2
_MOST_TRIES = 100


class Pool(_native.Pool):
    """Memory of a device, handed out in buffers under a policy. Any thread may use it.

    ::

        pool = memlake.Pool(device, limit="90%")
        with pool.allocate("1GiB") as buffer:
            ...

    Memory that is freed stays in the pool for the next request; `trim` gives it back. A pool that is dropped lives on
    until its last buffer is gone. In a forked child it refuses to work: devices do not survive a fork.

    Args:
        devices: the device, or several of one driver that reach each other's memory. Several make one pool: a buffer
            is one range of addresses whose memory may lie on all of them. That needs the policy ``"lake"``.
        policy: how memory is found: a name, PyTorch's configuration string, or options (see `memlake.policies`).
        limit: what the pool may hold, in bytes or as a share of the device such as ``"90%"``; None: no limit. It may
            be changed later.
        max_size: the same, fixed for the life of the pool.
        release_threshold: ``"max"``: freed memory stays in the pool until `trim`. Nothing else is offered yet.
        initial_size: memory that is taken from the driver at once, for the default stream.
        location: ``"device"``. Nothing else is offered yet.
        handle_type: None. Sharing between processes is not offered yet.
        placement: on which of several devices new memory is made: ``"fill"`` the first that has room, ``"balance"``
            them, or ``"near"``: the device of the request's stream first.
        spill: None. Spilling to the host is not offered yet.
        on_failure: one or more functions that are asked, in order, before a request is refused. Each is called with the
            size of the request and without any lock; if one returns something true (because it freed memory), the
            request is tried again. It is refused all the same when twice in a row nothing has changed, or after
            100 times.
        on_high: ``(bytes, function)``: the function is called with the pool when what it holds reaches so many bytes,
            and again when that happens after it was below.

    Raises:
        ConfigError: if an argument makes no sense, or names what is not offered yet.
        OutOfMemory: if there is no memory for `initial_size`.
    """

    __slots__ = (
        "__weakref__",
        "_all",
        "_high_callback",
        "_high_mark",
        "_is_made",
        "_limit",
        "_max_size",
        "_on",
        "_policy",
        "_recording",
        "_total",
        "on_failure",
    )

    _recording: Recording | None
    on_failure: tuple[FailureCallback, ...]
    """The functions that are asked before a request is refused."""

    def __init__(
        self,
        devices: Device | Sequence[Device],
        policy: str | Options = "lake",
        *,
        limit: Size | None = None,
        max_size: Size | None = None,
        release_threshold: Size = "max",
        initial_size: Size = 0,
        location: str = "device",
        handle_type: str | None = None,
        placement: str = "fill",
        spill: str | None = None,
        on_failure: FailureCallback | Iterable[FailureCallback] = (),
        on_high: tuple[Size, Callable[[Pool], object]] | None = None,
    ) -> None:
        self._all = _device_list(devices)
        self._on = self._all[0]
        cores = [open_core(device) for device in self._all]
        self._total = total = sum(device.total_memory for device in self._all)
        _refuse_what_is_not_there_yet(release_threshold, location, handle_type, spill)
        self._policy = resolve_policy(policy)
        native = _native_options(self._policy, self._all, placement)
        self._limit = None if limit is None else parse_bytes(limit, of=total, what="limit")
        self._max_size = None if max_size is None else parse_bytes(max_size, of=total, what="max_size")
        functions = on_failure if isinstance(on_failure, Iterable) else (on_failure,)
        self.on_failure = tuple(functions)
        if not all(callable(function) for function in self.on_failure):
            raise ConfigError("on_failure must be a function or several: f(nbytes) -> whether to try again")
        self._high_mark, self._high_callback = _high(on_high, total)
        self._recording = None
        first = parse_bytes(initial_size, of=total, what="initial_size")
        super().__init__(cores, native, self._effective_limit(), Buffer)
        self._is_made = True
        if first:
            try:
                self.reserve(first)
            except BaseException:
                self.close()
                raise

    @property
    def device(self) -> Device:
        """The device whose memory it is, or the first of several."""
        return self._on

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices whose memory it is."""
        return self._all

    @property
    def policy(self) -> Options:
        """How memory is found."""
        return self._policy

    @property
    def is_open(self) -> bool:
        """False once it, or its device, was closed."""
        return self._is_open

    @property
    def limit(self) -> int | None:
        """What it may hold, in bytes; None: no limit. Settable: bytes, a size or a share such as ``"90%"``.

        A limit below what is held takes nothing away: requests that need more memory are refused, and `trim` helps.
        """
        return self._limit

    @limit.setter
    def limit(self, limit: Size | None) -> None:
        new = None if limit is None else parse_bytes(limit, of=self._total, what="limit")
        old, self._limit = self._limit, new
        try:
            self._set_limit(self._effective_limit())
        except BaseException:
            self._limit = old
            raise

    @property
    def max_size(self) -> int | None:
        """What it may hold, fixed when it was made; None: no such cap."""
        return self._max_size

    def reserve(self, nbytes: Size, *, stream: StreamLike = None) -> None:
        """Takes memory from the driver now, so that later requests need not.

        Afterwards one free block of this size is there for the stream, in one piece. What is there already counts.

        Args:
            nbytes: how much; a share such as ``"50%"`` is of the device.
            stream: whose requests it is for; None: the default stream.

        Raises:
            OutOfMemory: if there is no memory for it.
            ConfigError: with the policy ``"direct"``, which keeps nothing.
        """
        size = parse_bytes(nbytes, of=self._total, what="nbytes")
        if self._policy.name == "direct":
            raise ConfigError('the policy "direct" keeps no memory, so nothing can be taken in advance')
        arguments = stream_arguments(stream, self._all)
        self._until_there_is_memory(size, lambda: self._preallocate(size, *arguments))
        self._tell_if_high()

    def trim(self, keep: Size = 0) -> int:
        """Gives cached memory back to the driver. What is live or pending stays.

        Args:
            keep: bytes that stay held, if so many are.

        Returns:
            How many bytes were given back.
        """
        return self._trim(parse_bytes(keep, of=self._total, what="keep"))

    def stats(self) -> PoolStats:
        """Everything it counts, from one moment."""
        return PoolStats.of(self._stats(), self._effective_limit())

    def reset_peaks(self) -> None:
        """Lets the peaks in `stats` begin again at what is now."""
        self._reset_peaks()

    def snapshot(self) -> PoolSnapshot:
        """All its segments and blocks, from one moment."""
        from memlake.pool_snapshot import PoolSnapshot

        return PoolSnapshot(self._snapshot())

    def check(self) -> None:
        """Verifies that everything is as it must be (I1 to I8 in docs/design/).

        Raises:
            BrokenInvariant: if it is not; the message begins with the name of the invariant.
        """
        broken = self._find_broken_invariant()
        if broken is not None:
            raise BrokenInvariant(broken)

    def record(self, path: str | os.PathLike[str]) -> Recording:
        """Writes a trace of what the pool does from now on; see `Recording`.

        Args:
            path: a file ending in ``.npz``, ``.txt`` or ``.parquet``.

        Raises:
            ConfigError: if the file cannot be written there, or the pool is recording already.
        """
        from memlake.recording import Recording

        metadata = {
            "source": "memlake.Pool.record",
            "policy": self._policy.label,
            "capacity": self._total,
            "limit": self._effective_limit(),
            "device": self._on.name,
            "events": "recorded",
        }
        recording = Recording(self, path, metadata)
        self._recording = recording
        return recording

    def close(self) -> None:
        """Gives all its memory back, then stops its recording.

        Raises:
            InvalidFree: while buffers are live (nothing was changed), or if it was closed before.
            OSError: if the recording cannot be written; the pool is closed then.
        """
        self._close()
        if self._recording is not None:
            self._recording.stop()

    def _allocate_slowly(self, nbytes: Size, stream: StreamLike) -> Buffer:
        """allocate() where the fast path in the core has no answer."""
        size = parse_bytes(nbytes, of=self._total, what="nbytes")
        arguments = stream_arguments(stream, self._all)
        buffer = self._until_there_is_memory(size, lambda: self._allocate(size, *arguments))
        self._tell_if_high()
        return buffer  # type: ignore[no-any-return]

    def _until_there_is_memory(self, size: int, attempt: Callable[[], Any]) -> Any:
        """Tries until it works or nobody wants to try again. `attempt` answers with a dict if there is no memory."""
        answer = attempt()
        tries = in_vain = 0
        while isinstance(answer, dict):
            refusal = answer
            # Whoever always answers "try again" must not keep the caller for ever.
            may_ask = tries < _MOST_TRIES and in_vain < _MOST_IN_VAIN
            if not may_ask or not any(function(size) for function in self.on_failure):
                shortage = Shortage.of(refusal, self._policy)
                raise OutOfMemory(shortage.to_text(), shortage)
            tries += 1
            answer = attempt()
            has_helped = isinstance(answer, dict) and any(
                answer[key] != refusal[key] for key in _WHAT_A_CALLBACK_CHANGES
            )
            in_vain = 0 if has_helped else in_vain + 1
        return answer

    def _tell_if_high(self) -> None:
        if self._high_mark is not None and self._has_risen_to(self._high_mark):
            self._high_callback(self)

    def _effective_limit(self) -> int | None:
        limits = (self._limit, self._max_size, self._policy.limit_on(self._total))
        return min((limit for limit in limits if limit is not None), default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        try:
            self.close()
        except (MemlakeError, OSError):
            # The error that ends the block is the one to see. Its buffers may be live; the pool goes with the last.
            if error is None:
                raise

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pool is memory of this process; it can be neither copied nor pickled")

    def __repr__(self) -> str:
        if not hasattr(self, "_is_made"):  # a debugger looks at a constructor that failed
            return "Pool(not made)"
        if not self.is_open:
            return f"Pool({self._on!r}, closed)"
        return f"Pool({self._on!r}, policy={self._policy.label!r}, held={format_bytes(self._held)})"


def _device_list(devices: Device | Sequence[Device]) -> tuple[Device, ...]:
    if isinstance(devices, Device):
        return (devices,)
    if not isinstance(devices, Sequence) or isinstance(devices, str | bytes):
        raise ConfigError(f"a pool needs a memlake Device, got {type(devices).__name__}; see memlake.devices()")
    if not devices:
        raise ConfigError("a pool needs a device; the list is empty")
    for device in devices:
        if not isinstance(device, Device):
            raise ConfigError(f"a pool needs memlake Devices, got a list with {type(device).__name__}")
    if len(set(devices)) < len(devices):
        raise ConfigError("a pool needs different devices; one is there twice")
    for device in devices:
        for other in devices:
            if not device.can_access(other):
                raise ConfigError(
                    f"{device!r} cannot reach the memory of {other!r}, so they cannot share a pool; make one pool each"
                )
    return tuple(devices)


def _native_options(
    policy: Options, devices: tuple[Device, ...], placement: str
) -> _native.TorchOptions | _native.LakeOptions | _native.StitchOptions | None:
    if placement not in ("fill", "balance", "near"):
        raise ConfigError(f"placement must be 'fill', 'balance' or 'near', got {placement!r}")
    native = policy.to_native()
    if isinstance(native, _native.LakeOptions):
        native.placement = placement
    elif len(devices) > 1:
        raise ConfigError(
            f'a pool over {len(devices)} devices needs the policy "lake"; {policy.name!r} knows one device'
        )
    elif placement != "fill":
        raise ConfigError('placement is about several devices, which need the policy "lake"')
    return native


def _refuse_what_is_not_there_yet(
    release_threshold: Size, location: str, handle_type: str | None, spill: str | None
) -> None:
    offered = {
        "release_threshold": (release_threshold, "max", "pools keep freed memory until trim()"),
        "location": (location, "device", "pools of host memory do not exist yet"),
        "handle_type": (handle_type, None, "sharing between processes does not exist yet"),
        "spill": (spill, None, "spilling to the host does not exist yet"),
    }
    for name, (given, only, reason) in offered.items():
        if given != only:
            raise ConfigError(f"{name} can only be {only!r} for now, got {given!r}: {reason}")


def _high(
    on_high: tuple[Size, Callable[[Pool], object]] | None, total: int
) -> tuple[int | None, Callable[[Pool], object]]:
    if on_high is None:
        return None, lambda pool: None
    try:
        mark, function = on_high
    except (TypeError, ValueError):
        raise ConfigError(f"on_high must be (bytes, function), got {on_high!r}") from None
    if not callable(function):
        raise ConfigError(f"on_high must be (bytes, function); {function!r} cannot be called")
    return parse_bytes(mark, of=total, what="the mark of on_high"), function
