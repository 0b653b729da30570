"""Pools: a `Pool` allocates buffers from the memory of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn
from weakref import WeakValueDictionary

from memlake import _native
from memlake.device.device import Device, open_core
from memlake.device.features import log_refusals
from memlake.device.stream import StreamLike, stream_arguments
from memlake.errors import BrokenInvariant, ClosedError, ConfigError, InvalidFree, MemlakeError
from memlake.logs import logger
from memlake.ownership.closable import Closable
from memlake.pool.arguments import (
    DeviceLike,
    HandleType,
    Location,
    Placement,
    Spill,
    device_list,
    high_mark,
    require_pinned,
    total_memory,
)
from memlake.pool.attributes import NEVER_RELEASE, PoolAttributes, parse_threshold
from memlake.pool.buffer import Buffer
from memlake.pool.decay import decay_thread, parse_decay
from memlake.pool.fallback import chosen_policy, usable_handle_type, warn_once
from memlake.pool.handle_type import is_shareable, require_exportable, require_handles
from memlake.pool.object_state import FailureCallback, ObjectState
from memlake.pool.peer_devices import PeerDevices
from memlake.pool.pool_hardware import PoolHardware
from memlake.pool.publish_switch import publish_if_asked
from memlake.pool.refusals import until_there_is_memory
from memlake.pool.stats import PoolStats
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    import os

    from typing_extensions import Self

    from memlake.policies import Options
    from memlake.pool.graph_pool import GraphPool
    from memlake.pool.pool_snapshot import PoolSnapshot
    from memlake.pool.recording import Recording
    from memlake.sharing import Share

__all__ = ["FailureCallback", "Pool"]

_log = logger("pool")


class Pool(_native.Pool, PoolAttributes, PoolHardware, Closable):
    """Allocates buffers from the memory of one or more devices, under a policy. Pools are thread-safe.

    ::

        pool = memlake.Pool(device, limit="90%")
        with pool.allocate("1GiB") as buffer:
            ...

    Freed memory stays in the pool for later requests; `trim` releases it. A dropped `Pool` keeps its memory until its
    last buffer is closed. After a fork, a pool raises an error in the child process.

    Args:
        devices: one device, or several devices of one driver that can access each other's memory: a `Device`, its
            ordinal, or a ``cuda.core.Device``. A buffer of a pool over several devices is one range of addresses; its
            memory may be on all of them. Several devices need the policy ``"lake"``.
        policy: how a request is served: a name, PyTorch's configuration string, or options (see `memlake.policies`).
            None: ``"lake"``, or ``"caching"`` if a device has no virtual memory management; a warning says so.
        limit: the most that the pool may hold, in bytes or as a share of the device such as ``"90%"``. None: no limit.
            The limit may be changed later. "Held" is what PyTorch calls reserved.
        max_size: a limit that cannot be changed later.
        release_threshold: how many bytes the pool keeps when the program waits for a stream, an event or a device. Free
            memory above the threshold is released then. ``"max"``: freed memory stays until `trim`. CUDA has 0.
        initial_size: memory to take from the driver at once, for the default stream.
        location: where the memory is: ``"device"``, ``"host"``, or ``"host_numa"`` for the NUMA node of the host that
            is nearest to the first device. All devices of the pool and the CPU can access host memory. Host memory
            needs the policy ``"lake"``. A share such as ``"50%"`` is then a share of the memory of the machine.
        handle_type: ``"posix_fd"``: every buffer can be exported to other processes (`Buffer.export`), unless it is
            allocated with ``shareable=False``. ``"fabric"``: the handles of such buffers can be exported as fabric
            handles, too (`Buffer.handles`). If a device cannot do that, a warning says so, and the pool's handle
            type is ``"posix_fd"``, or None. None, ``"none"``: only buffers allocated with ``shareable=True``.
        placement: on which of several devices new memory is created: ``"fill"``: the first device with room;
            ``"balance"``: the devices evenly, buffer by buffer: a buffer for which one device has enough free memory
            and room is on that device alone; ``"near"``: the device of the request's stream first.
        spill: ``"host"``: memory for which the devices or the limit have no room is created on the host, in the same
            contiguous range. It is slower to access, is counted separately, and does not count against `limit`. None:
            such a request is refused. Spilling needs the policy ``"lake"``.
        allocation_type: ``"pinned"``, CUDA's word for memory that the driver does not migrate, which is what memory of
            a device is. ``"managed"`` is refused: a pool cannot map managed memory.
        lasting_streams: whether streams of other libraries that the program names exist as long as the pool. True: the
            pool asks about them at any time. False: only in calls that name them; else it waits for their context.
        decay: a background thread releases memory that was not needed for this many seconds. None: never.
        on_failure: one or more functions, called in order before a request is refused. The pool calls each with the
            size of the request and without holding a lock. If one returns a true value, for instance because it freed
            memory, the pool tries again. The pool refuses the request if two retries in a row changed nothing, or
            after 100 retries.
        on_high: ``(bytes, function)``: the pool calls the function with itself when the memory it holds rises to so
            many bytes, and again after it was below. An exception in the function does not fail the request: it goes to
            `sys.unraisablehook` and to the logger ``memlake.pool``.

    Raises:
        ConfigError: if an argument is invalid or not supported.
        OutOfMemory: if there is no memory for `initial_size`.
    """

    __slots__ = ("__weakref__", "_all", "_policy", "_state", "_total")

    # By their native pools, so that a pool that was given to PyTorch is found again.
    _known: ClassVar[WeakValueDictionary[int, Pool]] = WeakValueDictionary()

    _all: tuple[Device, ...]
    _policy: Options
    _total: int
    _state: ObjectState

    def __init__(
        self,
        devices: DeviceLike | Sequence[DeviceLike],
        policy: str | Options | None = None,
        *,
        limit: Size | None = None,
        max_size: Size | None = None,
        release_threshold: Size = "max",
        initial_size: Size = 0,
        location: Location = "device",
        handle_type: HandleType | None = None,
        placement: Placement = "fill",
        spill: Spill | None = None,
        allocation_type: Literal["pinned"] = "pinned",
        lasting_streams: bool = False,
        decay: float | None = None,
        on_failure: FailureCallback | Iterable[FailureCallback] = (),
        on_high: tuple[Size, Callable[[Pool], object]] | None = None,
    ) -> None:
        given = device_list(devices)
        cores = [open_core(device) for device in given]
        require_pinned(allocation_type)
        if handle_type == "none":
            handle_type = None
        state = ObjectState()
        options, state.fallback_reason = chosen_policy(
            policy, given, placement=placement, location=location, spill=spill, handle_type=handle_type
        )
        total = total_memory(given, location)
        threshold = parse_threshold(release_threshold, total)
        state.decay = parse_decay(decay)
        handle_type, why_another_type = usable_handle_type(handle_type, given)
        own_limit = None if limit is None else parse_bytes(limit, of=total, what="limit")
        largest = None if max_size is None else parse_bytes(max_size, of=total, what="max_size")
        state.on_failure = tuple(on_failure if isinstance(on_failure, Iterable) else (on_failure,))
        if not all(callable(function) for function in state.on_failure):
            raise ConfigError("on_failure must be a function or several: f(nbytes) -> whether to try again")
        if on_high is not None:
            state.high_mark, state.on_high = high_mark(on_high, total)
        first = parse_bytes(initial_size, of=total, what="initial_size")
        super().__init__(
            cores,
            options.configuration,
            own_limit,
            Buffer,
            shareable=is_shareable(handle_type, location, options),
            placement=placement,
            location=location,
            may_spill=spill is not None,
            max_size=largest,
            memory_fraction=options.limit_on(total),
            fabric=handle_type == "fabric",
            lasting_streams=lasting_streams,
        )
        warn_once(given, state.fallback_reason, why_another_type)
        self._complete(options, state)
        Pool._known[self._identity] = self
        _native.publication_changed()
        self._set_release_threshold(threshold)
        if first:
            try:
                self.reserve(first)
            except BaseException:
                self.close()
                raise
        decay_thread.look_after(self)
        publish_if_asked()
        _log.debug("%r was made", self)

    @classmethod
    def _default_of(cls, device: Device) -> Self:
        """Makes the default pool of a device; see `memlake.default_pool`."""
        pool = cls(device)
        pool._state.is_default = True
        return pool

    def _complete(self, policy: Options, state: ObjectState) -> None:
        """Completes the object of a core pool, which Python or C functions have made."""
        self._all = tuple(Device._of(core) for core in self._devices)
        self._policy = policy
        self._total = total_memory(self._all, self._location)
        self._state = state
        self._follow_waits()

    @property
    def device(self) -> Device:
        """The device of the pool, or the first of several."""
        return self._all[0]

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of the pool."""
        return self._all

    @property
    def policy(self) -> Options:
        """The policy of the pool with its options."""
        return self._policy

    @property
    def location(self) -> Location:
        """Where the memory of the pool is: ``"device"``, ``"host"`` or ``"host_numa"``."""
        return self._location

    @property
    def handle_type(self) -> HandleType | None:
        """``"posix_fd"`` or ``"fabric"`` if buffers are exportable by default, else None."""
        is_shareable, has_fabric = self._handle_types
        if not is_shareable:
            return None
        return "fabric" if has_fabric else "posix_fd"

    @property
    def is_open(self) -> bool:
        """False after the pool or its device was closed."""
        return self._is_open

    @property
    def limit(self) -> int | None:
        """The most that the pool may hold in bytes; None: no limit. Settable: bytes, a size or a share as ``"90%"``.

        Setting a limit below the held memory releases nothing. The pool then refuses requests that need more memory
        from the driver; `trim` releases cached memory.
        """
        return self._limits()[0]

    @limit.setter
    def limit(self, limit: Size | None) -> None:
        self._set_limit(None if limit is None else parse_bytes(limit, of=self._total, what="limit"))

    @property
    def max_size(self) -> int | None:
        """The most that the pool may ever hold, in bytes; None: no such limit. It cannot be changed."""
        return self._limits()[1]

    @property
    def decay(self) -> float | None:
        """After how many seconds unneeded memory is released; None: never. It cannot be changed."""
        return self._state.decay

    @property
    def on_failure(self) -> tuple[FailureCallback, ...]:
        """The functions that the pool calls before it refuses a request. Settable."""
        return self._state.on_failure

    @on_failure.setter
    def on_failure(self, functions: tuple[FailureCallback, ...]) -> None:
        self._state.on_failure = functions

    @property
    def is_default(self) -> bool:
        """True for the default pool of a device (`memlake.default_pool`), which cannot be closed."""
        return self._state.is_default

    @property
    def peer_accessible_by(self) -> PeerDevices:
        """The other devices that can access the memory of the pool. Changing this set changes the access."""
        return PeerDevices(self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Device]) -> None:
        PeerDevices(self).replace(devices)

    def reserve(self, nbytes: Size, *, stream: StreamLike = None) -> None:
        """Takes memory from the driver in advance.

        Afterwards the stream has one contiguous free block of at least this size. Existing free memory counts.

        Args:
            nbytes: the size of the block. A share such as ``"50%"`` is a share of the device.
            stream: the stream whose requests the block is for. None: the default stream.

        Raises:
            OutOfMemory: if there is no memory for the block.
            ConfigError: with a policy that keeps no free memory, such as ``"direct"``.
        """
        size = parse_bytes(nbytes, of=self._total, what="nbytes")
        if not self._policy.capabilities.preallocation:
            raise ConfigError(f'the policy "{self._policy.name}" keeps no memory, so nothing can be taken in advance')
        arguments = stream_arguments(stream, self._all)
        until_there_is_memory(self, size, lambda: self._preallocate(size, *arguments))
        self._report_high_mark()

    def trim(self, keep: Size = 0) -> int:
        """Releases cached memory to the driver.

        This does not wait for streams. Live and pending memory stays, and so does freed memory that its stream may
        still use. Memory of cuMemAlloc (the policy ``"caching"``, small requests of ``"stitch"``) stays while a stream
        that the pool has seen has work to do, because cuMemFree waits for the whole device. To release all of it, wait
        first (`Device.synchronize`).

        Args:
            keep: how many bytes the pool keeps.

        Returns:
            How many bytes were released.
        """
        released = self._trim(parse_bytes(keep, of=self._total, what="keep"))
        _log.debug("%r: trim released %d bytes", self, released)
        return released

    def stats(self) -> PoolStats:
        """Returns all counters of the pool, read at one moment."""
        log_refusals()
        return PoolStats.of(self._stats(), self._notes())

    def reset_peaks(self) -> None:
        """Resets the peaks in `stats` to the current values."""
        self._reset_peaks()

    def snapshot(self) -> PoolSnapshot:
        """Returns all segments and blocks of the pool, read at one moment."""
        from memlake.pool.pool_snapshot import PoolSnapshot

        return PoolSnapshot(*self._snapshot(), self._all)

    def check(self) -> None:
        """Checks the invariants of the pool (I1 to I8 in docs/design/).

        Raises:
            BrokenInvariant: if one does not hold. The message begins with the name of the invariant.
        """
        broken = self._find_broken_invariant()
        if broken is not None:
            raise BrokenInvariant(broken)

    def record(self, path: str | os.PathLike[str]) -> Recording:
        """Starts to record a trace of the pool; see `Recording`.

        Args:
            path: the file to write, ending in ``.npz``, ``.txt`` or ``.parquet``.

        Raises:
            ConfigError: if the file cannot be written, or the pool is already recording.
        """
        from memlake.pool.recording import Recording

        metadata = {
            "source": "memlake.Pool.record",
            "policy": self._policy.label,
            "capacity": self._total,
            "limit": self._limits()[2],
            "device": self.device.name,
            "events": "recorded",
        }
        recording = Recording(self, path, metadata)
        self._state.recording = recording
        return recording

    def graph_pool(self, *, stream: StreamLike = None) -> GraphPool:
        """Makes a graph pool: memory of this pool for captured CUDA graphs; see `GraphPool`.

        Inside its ``with`` block, requests go there.

        Args:
            stream: only requests for this stream go there, from any thread. None: all requests of the thread that
                enters the block.

        Raises:
            ConfigError: if the stream is none.
        """
        from memlake.pool.graph_pool import GraphPool

        handle = None if stream is None else stream_arguments(stream, self._all)[0]
        return GraphPool(self, stream, handle)

    def export(self) -> tuple[Share, ...]:
        """Exports all live buffers in the order of their allocation, or none of them; see `Buffer.export`.

        `Share.address` is the `ptr` of the exported buffer.

        Raises:
            ConfigError: if a live buffer is not shareable.
        """
        from memlake.sharing.share import export_pool

        return export_pool(self, self._all)

    def close(self) -> None:
        """Releases all memory of the pool, then stops its recording.

        Raises:
            InvalidFree: while buffers are live or the block of a graph pool runs (nothing was changed), if the pool is
                already closed, if it is the default pool of its device, or if PyTorch's allocator made it.
            OSError: if the recording cannot be written. The pool is closed nevertheless.
        """
        if self._state.is_default and self.is_open:
            raise InvalidFree(f"{self!r} is the default pool of its device and lives as long; trim() empties it")
        if self._state.is_borrowed and self.is_open:
            raise InvalidFree(f"{self!r} serves PyTorch, which goes on to use it; trim() empties it")
        self._close()
        _log.debug("%r was closed", self)
        if self._state.recording is not None:
            self._state.recording.stop()

    def _allocate_slowly(
        self, nbytes: Size, stream: StreamLike, shareable: bool | None, single_handle: bool = False
    ) -> Buffer:
        """Serves a call of allocate() that the fast path in the core does not handle."""
        size = parse_bytes(nbytes, of=self._total, what="nbytes")
        if not (shareable is None or isinstance(shareable, bool)) or not isinstance(single_handle, bool):
            raise ConfigError(f"not True or False: {shareable=}, {single_handle=}; shareable may be None, too")
        if shareable:
            require_exportable(self._location, self._policy)
        if single_handle:
            require_handles(self._location, self._policy)
        arguments = stream_arguments(stream, self._all)
        buffer = until_there_is_memory(self, size, lambda: self._allocate(size, *arguments, shareable, single_handle))
        log_refusals()
        self._report_high_mark()
        if type(nbytes) is str:
            self._remember_size(nbytes, size)
        if stream is not None:
            self._remember_stream(stream, *arguments)
        return buffer  # type: ignore[no-any-return]

    def _set_release_threshold(self, threshold: int) -> None:
        self._set_threshold(threshold)
        self._follow_waits()

    def _follow_waits(self) -> None:
        """Has the devices tell the pool of waits if it must release memory then. With some policies the driver does."""
        is_told = self._threshold != NEVER_RELEASE and not self._policy.capabilities.driver_release
        for device in self._all:
            device._set_told_of_waits(self, is_told)

    def _release_above_threshold(self) -> None:
        """Releases free memory above the threshold, after the program has waited for a device of this pool."""
        try:
            threshold = self._threshold
            if self._held > threshold:
                self._trim(threshold)
        except ClosedError:
            pass  # another thread closed the pool

    def _release_unused(self) -> None:
        """Releases the memory that was not needed in the last `decay` period, down to the release threshold."""
        threshold = self._threshold
        self._trim(max(self._take_recent_peak(), 0 if threshold == NEVER_RELEASE else threshold))

    def _report_high_mark(self) -> None:
        state = self._state
        if state.high_mark is not None and self._has_risen_to(state.high_mark):
            state.on_high(self)

    def _end_block(self, error: BaseException | None) -> None:
        if not self.is_open or self._state.is_default or self._state.is_borrowed:
            return
        try:
            self.close()
        except (MemlakeError, OSError):
            # The error that ends the block is the one to raise. Buffers may still be live; the last one ends the pool.
            if error is None:
                raise

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pool is memory of this process; it can be neither copied nor pickled")

    def __repr__(self) -> str:
        if not hasattr(self, "_state"):  # a debugger shows an object whose constructor failed
            return "Pool(not made)"
        if not self.is_open:
            return f"Pool({self.device!r}, closed)"
        why = "" if self.fallback_reason is None else " without virtual memory management"
        return f"Pool({self.device!r}, policy={self._policy.label!r}{why}, held={format_bytes(self._held)})"
