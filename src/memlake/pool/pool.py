"""Pools: memory of a device, handed out under a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from memlake import _native
from memlake.device.device import Device, open_core
from memlake.device.stream import StreamLike, stream_arguments
from memlake.errors import BrokenInvariant, ClosedError, ConfigError, InvalidFree, MemlakeError, OutOfMemory
from memlake.ownership.closable import Closable
from memlake.policies import DriverOptions, Options, resolve_policy
from memlake.pool.arguments import (
    device_list,
    high_mark,
    native_options,
    require_pinned,
    total_memory,
)
from memlake.pool.attributes import NEVER_RELEASE, PoolAttributes, parse_threshold
from memlake.pool.buffer import Buffer
from memlake.pool.decay import decay_thread, parse_decay
from memlake.pool.handle_type import is_shareable, require_exportable
from memlake.pool.peer_devices import PeerDevices
from memlake.pool.shortage import Shortage
from memlake.pool.stats import PoolStats
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    import os

    from typing_extensions import Self

    from memlake.pool.recording import Recording
    from memlake.pool.snapshot import PoolSnapshot
    from memlake.sharing import Share

__all__ = ["FailureCallback", "Pool"]

FailureCallback = Callable[[int], object]
"""Is asked before a pool gives up, with the size of the request; a true answer means: try again."""


# What a function of on_failure may have changed so that another try makes sense, and how often one is made.
_WHAT_A_CALLBACK_CHANGES = ("limit", "held", "live", "pending", "free", "device_free")
_MOST_IN_VAIN = 2
_MOST_TRIES = 100


class Pool(_native.Pool, PoolAttributes, Closable):
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
        release_threshold: how many bytes stay held when the program waits for a stream, an event or a device; what is
            free above that goes back to the driver then. ``"max"``: freed memory stays until `trim`. CUDA's default
            is 0.
        initial_size: memory that is taken from the driver at once, for the default stream.
        location: where its memory lies: on the ``"device"``, or on the ``"host"`` (``"host_numa"``: on the host's NUMA
            node nearest to the first device), where all devices of the pool and the CPU reach it. Needs the policy
            ``"lake"``. A share such as ``"50%"`` is then one of the machine's memory.
        handle_type: ``"posix_fd"``: every buffer can be given to other processes (`Buffer.export`), unless it is
            allocated with ``shareable=False``. None: only those that are allocated with ``shareable=True``.
        placement: on which of several devices new memory is made: ``"fill"`` the first that has room, ``"balance"``
            them, or ``"near"``: the device of the request's stream first.
        spill: ``"host"``: what the devices, or the limit, have no room for lies on the host, in the same contiguous
            range; it is slower to reach, counted apart, and `limit` does not count it. None: such a request is refused.
            Needs the policy ``"lake"``.
        allocation_type: ``"pinned"``, CUDA's word for memory that stays where it is. ``"managed"`` is refused: memory
            that the driver migrates cannot be mapped by a pool.
        decay: give back what was not needed for so many seconds; None: never. A thread looks after it, so it also
            happens while the program does something else.
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
        "_decay",
        "_handle_type",
        "_high_callback",
        "_high_mark",
        "_is_default",
        "_is_made",
        "_limit",
        "_location",
        "_max_size",
        "_on",
        "_peers",
        "_policy",
        "_recording",
        "_release_threshold",
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
        allocation_type: str = "pinned",
        decay: float | None = None,
        on_failure: FailureCallback | Iterable[FailureCallback] = (),
        on_high: tuple[Size, Callable[[Pool], object]] | None = None,
    ) -> None:
        self._all = device_list(devices)
        self._on = self._all[0]
        cores = [open_core(device) for device in self._all]
        require_pinned(allocation_type)
        self._policy = resolve_policy(policy)
        native = native_options(
            self._policy, self._all, placement=placement, location=location, spill=spill, handle_type=handle_type
        )
        self._location = location
        self._total = total = total_memory(self._all, location)
        threshold = parse_threshold(release_threshold, total)
        self._decay = parse_decay(decay)
        self._handle_type = handle_type
        self._limit = None if limit is None else parse_bytes(limit, of=total, what="limit")
        self._max_size = None if max_size is None else parse_bytes(max_size, of=total, what="max_size")
        if isinstance(native, _native.DriverOptions) and self._max_size is not None:
            native.max_size = min(self._max_size, native.max_size or self._max_size)
        functions = on_failure if isinstance(on_failure, Iterable) else (on_failure,)
        self.on_failure = tuple(functions)
        if not all(callable(function) for function in self.on_failure):
            raise ConfigError("on_failure must be a function or several: f(nbytes) -> whether to try again")
        self._high_mark, self._high_callback = high_mark(on_high, total)
        self._recording = None
        self._is_default = False
        self._peers: frozenset[Device] = frozenset()
        self._release_threshold = NEVER_RELEASE
        first = parse_bytes(initial_size, of=total, what="initial_size")
        shares = is_shareable(handle_type, location, self._policy.name)
        super().__init__(cores, native, self._effective_limit(), Buffer, shares, placement)
        self._is_made = True
        self._set_release_threshold(threshold)
        if first:
            try:
                self.reserve(first)
            except BaseException:
                self.close()
                raise
        decay_thread.look_after(self)

    @classmethod
    def _default_of(cls, device: Device) -> Self:
        """The pool that a device has from the start; see `memlake.default_pool`."""
        pool = cls(device)
        pool._is_default = True
        return pool

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
    def location(self) -> str:
        """Where its memory lies: ``"device"``, ``"host"`` or ``"host_numa"``."""
        return self._location

    @property
    def handle_type(self) -> str | None:
        """``"posix_fd"`` if its buffers can be given to other processes without saying so one by one."""
        return self._handle_type

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

    @property
    def decay(self) -> float | None:
        """After how many seconds memory that was not needed is given back; None: never. Fixed when it was made."""
        return self._decay

    @property
    def is_default(self) -> bool:
        """True for the pool that its device has from the start (`memlake.default_pool`). It cannot be closed."""
        return self._is_default

    @property
    def peer_accessible_by(self) -> PeerDevices:
        """The devices beside its own that reach its memory: a live set, to be changed or replaced."""
        return PeerDevices(self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Device]) -> None:
        PeerDevices(self).replace(devices)

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
        self._tell_ifhigh_mark()

    def trim(self, keep: Size = 0) -> int:
        """Gives cached memory back to the driver. Waits for no stream: what is live or pending stays, and so does freed
        memory on which its stream may still work. So wait first (`Stream.sync`), then trim.

        Args:
            keep: bytes that stay held, if so many are: what to keep, not what to give back.

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
        from memlake.pool.snapshot import PoolSnapshot

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
        from memlake.pool.recording import Recording

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

    def export(self) -> tuple[Share, ...]:
        """Exports every buffer that is live, in the order of the allocations; see `Buffer.export`. All or none.

        Which is which: `Share.address` is the `ptr` of the buffer.

        Raises:
            ConfigError: if a buffer is live that was not allocated to be shared.
        """
        from memlake.sharing.share import export_pool

        return export_pool(self, self._all)

    def close(self) -> None:
        """Gives all its memory back, then stops its recording.

        Raises:
            InvalidFree: while buffers are live (nothing was changed), if it was closed before, or if it is the default
                pool of its device.
            OSError: if the recording cannot be written; the pool is closed then.
        """
        if self._is_default and self.is_open:
            raise InvalidFree(f"{self!r} is the default pool of its device and lives as long; trim() empties it")
        self._close()
        if self._recording is not None:
            self._recording.stop()

    def _allocate_slowly(self, nbytes: Size, stream: StreamLike, shareable: bool | None) -> Buffer:
        """allocate() where the fast path in the core has no answer."""
        size = parse_bytes(nbytes, of=self._total, what="nbytes")
        if shareable is not None and not isinstance(shareable, bool):
            raise ConfigError(f"shareable must be True, False or None, got {shareable!r}")
        if shareable:
            require_exportable(self._location, self._policy.name)
        arguments = stream_arguments(stream, self._all)
        buffer = self._until_there_is_memory(size, lambda: self._allocate(size, *arguments, shareable))
        self._tell_ifhigh_mark()
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
                shortage = Shortage.of(refusal, self._policy, self._location)
                raise OutOfMemory(shortage.to_text(), shortage)
            tries += 1
            answer = attempt()
            has_helped = isinstance(answer, dict) and any(
                answer[key] != refusal[key] for key in _WHAT_A_CALLBACK_CHANGES
            )
            in_vain = 0 if has_helped else in_vain + 1
        return answer

    def _set_release_threshold(self, threshold: int) -> None:
        if isinstance(self._policy, DriverOptions):
            self._set_driver_threshold(threshold)  # the driver sees every wait by itself
        else:
            for device in self._all:
                device._set_told_of_waits(self, threshold != NEVER_RELEASE)
        self._release_threshold = threshold

    def _release_above_threshold(self) -> None:
        """The program has waited for something on a device of this pool."""
        try:
            if self._held > self._release_threshold:
                self._trim(self._release_threshold)
        except ClosedError:
            pass  # meanwhile

    def _release_unused(self) -> None:
        """A period of `decay` is over: what was not needed in it goes, but for what the threshold keeps."""
        kept = 0 if self._release_threshold == NEVER_RELEASE else self._release_threshold
        self._trim(max(self._take_recent_peak(), kept))

    def _tell_ifhigh_mark(self) -> None:
        if self._high_mark is not None and self._has_risen_to(self._high_mark):
            self._high_callback(self)

    def _effective_limit(self) -> int | None:
        limits = (self._limit, self._max_size, self._policy.limit_on(self._total))
        return min((limit for limit in limits if limit is not None), default=None)

    def _end_block(self, error: BaseException | None) -> None:
        if not self.is_open or self._is_default:
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
