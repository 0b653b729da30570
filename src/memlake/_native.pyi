"""
The native core. It knows no sizes like '8GiB', no defaults and no NumPy: it takes integers and native objects.
A driver failure raises memlake.errors.DriverError or its subclass ContractViolation, a library that cannot be
loaded memlake.errors.ConfigError, use after close memlake.errors.ClosedError, closing twice InvalidFree.
Once the interpreter has begun to exit (atexit), a dropped owner makes no driver call: work may be in flight, and
the system takes everything back anyway. An explicit close() still does what it says. A daemon thread that comes
back from the core while the interpreter is finalizing sleeps.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar, overload

import numpy
from numpy.typing import NDArray

from memlake.device.stream import StreamLike
from memlake.pool.buffer import Buffer
from memlake.units import Size


__version__: str

def _warn_of_leaks(value: bool) -> None:
    """
    Whether objects that still exist when the interpreter has ended are listed on stderr. For tests.
    """

def report_ignored(error: BaseException, where: object) -> None:
    """Passes an exception that cannot be raised to sys.unraisablehook."""

def noop() -> None:
    """
    Does nothing; its cost is the cost of a call from Python into the core.
    """

class Driver:
    """
    A loaded driver library. Loading the same file twice gives the same object.
    """

    @staticmethod
    def load(library: str) -> Driver:
        """dlopen; resolves the table; does not initialise."""

    def initialize(self) -> None:
        """cuInit(0)."""

    @property
    def library(self) -> str:
        """The file it was loaded from."""

    @property
    def is_initialized(self) -> bool:
        """
        True after initialize(), also in a forked child, where calls are refused.
        """

    @property
    def is_emulated(self) -> bool:
        """True if the library is memlake's emulator."""

    def version(self) -> int:
        """1000 * major + 10 * minor of the newest CUDA the driver supports."""

    def device_count(self) -> int:
        """How many devices this process sees."""

    def device(self, ordinal: int) -> Device:
        """The device with this ordinal; equal objects for the same ordinal."""

    def current_device(self) -> int | None:
        """
        The ordinal of the calling thread's current device; None if no context is current.
        """

    def stream_device(self, handle: int) -> int | None:
        """
        The ordinal of the device that a created stream works on; None if the driver cannot tell. ConfigError if it knows no such stream.
        """

    def call_counts(self) -> dict[str, int]:
        """
        Calls made since the last reset, by CUDA name; those never made are left out.
        """

    def modelled_us(self) -> float:
        """What these calls cost on a real device, by the cost table."""

    def reset_counts(self) -> None:
        """Counts and modelled time start at 0 again."""

    def fail(self, call: str, nth: int, code: int) -> None:
        """
        The nth call from now (1 = the next) of `call` ("" = of any) answers `code`; the library is not asked.
        """

    def clear_faults(self) -> None:
        """Forgets what fail() asked for."""

    def add_devices(self, config: str) -> tuple[int, int]:
        """
        (first ordinal, count) of new emulated devices. ConfigError for a config that cannot be understood.
        """

    def close_devices(self, first: int, count: int) -> None:
        """Removes emulated devices and everything that lives on them."""

    def ledger(self) -> str:
        """Everything that exists in the emulator, as JSON."""

    def reset_ledger(self) -> None:
        """Forgets counted calls, violations and warnings; what exists stays."""

    def open_gate(self, gate: int) -> None:
        """Opens a gate that Device.hold() made."""

def host_memory() -> int:
    """All memory of this machine, in bytes."""

class Device:
    """
    One device; retains its primary context on first need and makes it current around calls.
    """

    @property
    def driver(self) -> Driver:
        """The driver it belongs to."""

    @property
    def ordinal(self) -> int:
        """Its number in the driver."""

    @property
    def is_open(self) -> bool:
        """False once an emulated device was closed."""

    @property
    def is_host_backed(self) -> bool:
        """
        True on an emulated device whose memory the CPU can touch at its device address.
        """

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def name(self) -> str:
        """Its name."""

    def uuid(self) -> bytes:
        """16 bytes that identify it."""

    def total_memory(self) -> int:
        """All its memory, in bytes."""

    def free_memory(self) -> int:
        """Bytes free now, other processes included. Not a promise."""

    def granularity(self, recommended: bool) -> int:
        """The granule of physical memory, in bytes."""

    def attribute(self, attribute: int) -> int:
        """A device attribute by its number in cuda.h."""

    def can_access(self, peer: Device) -> bool:
        """Whether it can reach memory of `peer`; False for itself, as in CUDA."""

    def synchronize(self) -> None:
        """Waits until all work of the device is complete."""

    def copy(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """Queues a copy between device addresses."""

    def copy_from_host(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """
        Queues a copy from a host address; the caller keeps that memory alive until it is complete.
        """

    def copy_to_host(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """
        Queues a copy to a host address; the caller keeps that memory alive until it is complete.
        """

    def fill(self, destination: int, value: int, nbytes: int, stream: int) -> None:
        """Queues setting bytes to a value from 0 to 255."""

    def set_access(self, address: int, nbytes: int, devices: Sequence[Device], flags: int) -> None:
        """
        One driver call that sets the rights (0 none, 1 read, 3 read and write) of devices over whole mappings.
        """

    def get_access(self, address: int, device: Device) -> int:
        """The rights of `device` at a mapped address: 0, 1 or 3."""

    def stream_is_done(self, stream: int) -> bool:
        """Whether all work of the stream is complete."""

    def stream_synchronize(self, stream: int) -> None:
        """Waits until all work of the stream is complete."""

    def stream_wait(self, stream: int, event: int) -> None:
        """Later work of the stream waits, on the device, for the event."""

    def event_record(self, event: int, stream: int) -> None:
        """The event stands for all work queued on the stream so far."""

    def event_is_done(self, event: int) -> bool:
        """
        Whether the event's recording is complete; True if it was never recorded.
        """

    def event_synchronize(self, event: int) -> None:
        """Waits until the event's recording is complete."""

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two recordings of events made with timing."""

    def launch(self, stream: int, name: str, ranges: Sequence[tuple[int, int, bool]]) -> None:
        """
        Queues emulated work that declares its ranges: (address, nbytes, is_write).
        """

    def hold(self, stream: int) -> int:
        """
        Queues a gate: what comes behind it does not run until Driver.open_gate().
        """

    def step(self, stream: int, count: int) -> int:
        """
        Runs up to `count` pieces of queued work of a manual stream; returns how many ran.
        """

    def pending(self, stream: int) -> int:
        """How many pieces of work of the stream are not finished."""

class StreamOwner:
    """
    Owns a stream; dropping it destroys the stream. Queued work still runs.
    """

    def __init__(self, device: Device, nonblocking: bool, priority: int) -> None: ...

    @property
    def handle(self) -> int:
        """The CUstream, as an integer."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def close(self) -> None:
        """Destroys the stream."""

class EventOwner:
    """Owns an event; dropping it destroys the event."""

    def __init__(self, device: Device, timing: bool) -> None: ...

    @property
    def handle(self) -> int:
        """The CUevent, as an integer."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def close(self) -> None:
        """Destroys the event."""

def features() -> list[tuple[str, str, str]]:
    """
    Every feature of devices: its name, what it is, and what memlake does without it.
    """

def ask_feature(device: Device, name: str) -> dict[str, Any]:
    """
    Whether the device has a feature (True, False, or None if it could not be asked), how that was found, why not,
    and how often the driver refused it in use. The device is asked once.
    """

def turn_off_feature(device: Device, name: str, reason: str) -> None:
    """The driver has refused it in use."""

def refused_features(device: Device) -> list[str]:
    """The names of the features that the driver has refused in use."""

def take_feature_notices() -> list[str]:
    """Sentences about features that were turned off since the last call."""

def default_policy_on(devices: list[Device]) -> str:
    """The policy of a pool on these devices for which none was chosen."""

def cost_model() -> dict[str, float]:
    """The modelled cost of driver calls, in microseconds."""

def set_cost_model(costs: dict[str, float]) -> None:
    """
    Sets the model for replays and pools that are made from now on; what is left out has its default.
    """

def measure_calls(device: Device, size: int, count: int) -> dict[str, float]:
    """
    Microseconds per driver call for `count` handles of `size` bytes; set_access and unmap are one call for all.
    """

def measure_plain(device: Device, size: int) -> tuple[float, float]:
    """Microseconds of cuMemAlloc and cuMemFree."""

def measure_copy(device: Device, total: int, handle: int, repeats: int) -> float:
    """
    Bytes per second of copies between ranges of `total` bytes that are stitched of handles of `handle` bytes; 0:
    plain allocations.
    """

class PhysicalChunk:
    """Owns memory made by one create call. Mappings share its ownership."""

    def __init__(self, device: Device, nbytes: int, exportable: bool) -> None: ...

    @staticmethod
    def import_fd(device: Device, fd: int, nbytes: int) -> PhysicalChunk:
        """
        The memory behind a descriptor that another chunk exported. The descriptor stays the caller's.
        """

    def export_fd(self) -> int:
        """
        A new file descriptor, which the caller closes; it keeps the memory alive.
        """

    @property
    def handle(self) -> int:
        """The driver's handle, as an integer."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def device(self) -> Device:
        """Where the memory lies."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def close(self) -> None:
        """
        Gives up this reference. The memory returns when the last mapping is gone, too.
        """

class Reservation:
    """
    Owns a range of addresses; nothing is behind it until a Mapping is made.
    """

    def __init__(self, device: Device, nbytes: int, alignment: int, hint: int) -> None: ...

    @property
    def address(self) -> int:
        """Where it begins."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def mapping_count(self) -> int:
        """How many Mapping objects still live in it."""

    def close(self) -> None:
        """
        Gives the addresses back. Raises memlake.errors.InvalidFree while mappings live in it.
        """

class Mapping:
    """Owns one chunk shown at one place of a reservation; keeps both alive."""

    def __init__(self, reservation: Reservation, offset: int, chunk: PhysicalChunk, nbytes: int) -> None: ...

    @property
    def address(self) -> int:
        """Where it begins."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def close(self) -> None:
        """Unmaps. On failure (work in flight) raises and stays mapped."""

def stitch(device: Device, chunks: Sequence[PhysicalChunk], access: Sequence[Device]) -> tuple[Reservation, list[Mapping]]:
    """
    One contiguous range that shows all chunks in order, readable and writable by `access`. All or nothing.
    """

def unmap(mappings: Sequence[Mapping]) -> None:
    """
    Unmaps neighbours of one reservation (each begins where the one before it ends) with one driver call: all or
    nothing. On failure raises and all stay mapped. Mappings of a closed device are gone already and are passed over.
    """

def policies() -> list[dict[str, Any]]:
    """
    All policies in the order of tables, the default first: name, summary, capabilities, options (key, kind, value,
    default, help), and the keys that are ignored or refused, each with its reason.
    """

def capabilities() -> dict[str, str]:
    """What each capability means, by its name."""

def parse_policy(text: str) -> tuple[str, dict[str, str]]:
    """
    The name of the policy that a text means, and the options that it sets: their values as text, by key; sizes as
    plain numbers. ConfigError for a text that makes no sense.
    """

def torch_pool_identity(device: int) -> int | None:
    """
    `Pool._identity` of the pool that serves a device of PyTorch's; None if it has no pool.
    """

def forget_stream_objects() -> None:
    """
    Pools forget which stream an object is. To be called when a stream object comes to name another stream, or none.
    """

class Lease:
    """One allocation of a pool; dropping it frees it."""

    def close(self, *, stream: StreamLike = None) -> None:
        """
        Gives the memory back.

        Args:
            stream: in whose order it is freed: the memory is reused at once on that stream, elsewhere when that
                stream has passed. None: the stream that it was allocated for. Another stream must be behind all
                earlier work on the buffer, for instance by ``stream.wait(earlier)``.

        Raises:
            InvalidFree: if it was closed before.
            BufferError: while a NumPy view of it is alive; nothing was changed.
            ConfigError: if it is no stream of this driver. If the stream captures a graph, the memory is reused
                after the capture.
        """

    @property
    def ptr(self) -> int:
        """The device address of its first byte; 0 if it is empty."""

    @property
    def nbytes(self) -> int:
        """How many bytes were asked for."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    @property
    def is_shareable(self) -> bool:
        """True if it can be exported to other processes."""

    @property
    def _device(self) -> Device: ...

    @property
    def _devices(self) -> list[Device]:
        """Those of its pool. ClosedError if it is closed."""

    def _pieces(self) -> list[tuple[Device | None, int]]:
        """Where its bytes lie, in order; None: on the host."""

    def _handles(self) -> list[tuple[int, int, int, int, int, bool]]:
        """
        Its handles by address: handle, offset in the buffer, size, offset in the handle, export types as bits, and
        whether GPUDirect RDMA was granted. Empty for memory that has no handles.
        """

    def _is_one_handle(self) -> bool:
        """False if its ends are in different handles."""

    def _stream(self) -> tuple[int, Device]:
        """
        The stream that it was allocated for: its handle and its device. ClosedError if it is closed or that stream is gone.
        """

    @property
    def generation(self) -> int:
        """
        A number that changes when other memory comes to lie behind an address: two buffers with one `ptr` and one
        generation have the same memory. For registrations that are kept by address (NCCL, RDMA).
        """

    @property
    def is_pinned(self) -> bool:
        """True until it is unpinned as often as pinned."""

    def _pin(self) -> None:
        """pin() without questions."""

    def unpin(self) -> None:
        """
        Ends one pin(). The last one frees the memory if the buffer was closed meanwhile.

        Raises:
            InvalidFree: if it is not pinned.
        """

    @property
    def _ordinal(self) -> int | None:
        """
        The first device that has memory of it. None: all of it is on the host.
        """

    def _dlpack(self, device_id: int, is_versioned: bool) -> object:
        """A DLPack capsule over its memory on a device."""

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """
        Gives the bytes to another library without a copy: ``torch.from_dlpack(buffer)``.

        The tensor has the type uint8 and one dimension. It keeps the buffer alive, and while it is alive, `close`
        raises BufferError.

        Args:
            stream: the stream of the consumer, as DLPack names it. None and 1: the default stream. -1: no order.
                The consumer's stream waits for the work that the buffer's stream has queued so far, and the pool
                does not reuse the memory before the consumer's stream has passed. That stream must live until then.
            max_version: the newest version of DLPack that the consumer knows.
            dl_device: the device that the consumer wants. ``(1, 0)``, the CPU, works where the CPU can access the
                memory; the host then waits for the buffer's stream.
            copy: True is refused.

        Raises:
            BufferError: if a copy or another device is asked for.
            ClosedError: if the buffer is closed.
            ConfigError: if the stream is none.
        """

    @property
    def _num_exports(self) -> int:
        """How many tensors of it other libraries have."""

    def _watch(self) -> None:
        """From now on close() asks `_close_slowly`."""

    def _release(self) -> None:
        """close() without questions."""

    def _release_on(self, stream: object, handle: int, owner: StreamOwner | None, device: int) -> None:
        """close(stream=...) without questions."""

    def _record_use(self, handle: int, owner: StreamOwner | None, device: int) -> None: ...

class Pool:
    """A pool of one device; memlake.Pool is made of it."""

    @overload
    def __init__(self, devices: list[Device], policy: str, limit: int | None, buffer_type: type, shareable: bool = False, placement: str = 'fill', location: str = 'device', may_spill: bool = False, max_size: int | None = None, memory_fraction: int | None = None, fabric: bool = False, lasting_streams: bool = False) -> None:
        """
        policy: its name with its options, as parse_policy() takes them. buffer_type: a subclass of Lease.
        shareable: whether buffers that do not say otherwise can be exported. limit, max_size, memory_fraction: what
        it may hold, in bytes; the smallest one binds. fabric: whether shareable memory has fabric handles, too.
        lasting_streams: whether streams of other libraries exist as long as the pool.
        """

    @overload
    def __init__(self, torch_device: int, buffer_type: object) -> None:
        """The pool that serves a device of PyTorch's."""

    def allocate(self, nbytes: Size, *, stream: StreamLike = None, shareable: bool | None = None, single_handle: bool = False) -> Buffer:
        """
        Gives memory.

        Args:
            nbytes: how much; an int, or a string such as ``"10GiB"``. 0 gives an empty buffer.
            stream: the stream that uses it first; None: the device's default stream.
            shareable: True for a buffer that other processes may be given (`Buffer.export`): it owns its chunks
                whole, so its size is rounded up to granules. None: as the pool's `handle_type` says.
            single_handle: True for a buffer that is one handle of one device, which is never moved or mapped
                elsewhere: for registrations with NCCL, UCX or RDMA. Its size is rounded up to granules.

        Raises:
            OutOfMemory: if there is no memory; it says why and what to do.
            ConfigError: if the size or the stream makes no sense, or the stream is capturing a graph.
            ClosedError: if the pool or its device is closed.
        """

    @property
    def _identity(self) -> int:
        """A number of the pool; two objects of one pool have equal numbers."""

    @property
    def _policy_text(self) -> str:
        """The policy with its options, as parse_policy() takes it."""

    @property
    def _location(self) -> Literal['device', 'host', 'host_numa']: ...

    @property
    def _handle_types(self) -> tuple[bool, bool]:
        """
        Whether buffers that do not say otherwise can be exported, and whether fabric handles exist for them.
        """

    @property
    def _serves_torch(self) -> bool:
        """Whether a device of PyTorch's gets its memory from the pool now."""

    @property
    def _devices(self) -> list[Device]: ...

    def _peer_devices(self) -> list[Device]:
        """The devices beside its own that may use its memory."""

    def _limits(self) -> tuple[int | None, int | None, int | None]:
        """
        The limit that can be changed, max_size, and the smallest of all; None: there is none.
        """

    def _allocate(self, nbytes: int, handle: int, owner: StreamOwner | None, device: int, shareable: bool | None = None, single_handle: bool = False) -> Any:
        """A buffer, or a dict that says why there is no memory."""

    @property
    def _stream_count(self) -> int:
        """How many streams are in its tables."""

    def _remember_size(self, text: str, nbytes: int) -> None:
        """From now on allocate() knows what the text means."""

    def _remember_stream(self, stream: object, handle: int, owner: StreamOwner | None, device: int) -> None:
        """From now on allocate() and close() know which stream the object is."""

    def _preallocate(self, nbytes: int, handle: int, owner: StreamOwner | None, device: int) -> dict[str, Any] | None:
        """None, or a dict that says why there is no memory."""

    def _trim(self, keep: int) -> int: ...

    def _close(self) -> None: ...

    @property
    def native_handle(self) -> int:
        """
        The pool as ``memlake.h`` knows it: a ``memlake_pool *``, for the functions of `memlake.native_library`.

        It is the same pool, not a copy. It is good as long as this object is there; afterwards the functions answer
        that the pool was destroyed. ``memlake_torch_set_pool`` keeps the pool itself alive. ``memlake_pool_destroy``
        refuses it: close() ends it. What C functions allocated must be freed by them, before close().
        """

    @property
    def _is_open(self) -> bool: ...

    def _has_risen_to(self, mark: int) -> bool:
        """Whether as much is held and less was since this last answered yes."""

    @property
    def _held(self) -> int: ...

    def _reset_peaks(self) -> None: ...

    def _reset_held_peak(self) -> None: ...

    def _reset_active_peak(self) -> None: ...

    def _take_recent_peak(self) -> int:
        """The most that was live or pending since this was last asked."""

    def _set_limit(self, limit: object | None) -> None: ...

    def _reuse_rules(self) -> tuple[bool, bool, bool] | None:
        """
        By event, opportunistic, behind an internal wait; None where freed memory never reaches another stream.
        """

    def _set_reuse_rules(self, by_event: bool, opportunistic: bool, internal: bool) -> None: ...

    def _set_threshold(self, threshold: int) -> None:
        """The driver applies it where the policy leaves it to the driver."""

    @property
    def _threshold(self) -> int: ...

    def _set_peers(self, peers: list[Device]) -> None: ...

    def _add_peer(self, peer: Device) -> None: ...

    def _remove_peer(self, peer: Device) -> None: ...

    def _make_graph_pool_id(self) -> tuple[int, int]:
        """An id that no graph pool of the pool has."""

    def _begin_graph_requests(self, first: int, second: int, handle: int | None) -> int:
        """
        Requests go to the graph pool from now on: those for the stream with the handle, or, if it is None, those of
        the calling thread. Returns a number for _end_graph_requests().
        """

    def _end_graph_requests(self, number: int) -> None: ...

    def _release_graph_pool(self, first: int, second: int) -> None:
        """
        A graph gives it up. Behind the last one the host waits for the devices.
        """

    def _graph_pool_stats(self, first: int, second: int) -> tuple[int, int, int, int, int]:
        """
        How many graphs use it, how many calls of _begin_graph_requests() have not ended, and its bytes: held, live,
        and the peak of the live ones.
        """

    def _stats(self) -> dict[str, Any]: ...

    def _snapshot(self) -> tuple[bytes, bytes, bytes]:
        """
        Three tables of 64-bit numbers. Blocks: segment, its size, its page, block, its size, requested, stream, state,
        is small, id, how much of it was spilled to the host, the two numbers of its graph pool, its first piece, how many
        pieces. Pieces: the number of the device in the pool (the number of devices: the host), size. Idle
        addresses, least recently used first: address, size, stream.
        """

    def _find_broken_invariant(self) -> str | None: ...

    def _start_recording(self) -> None: ...

    def _stop_recording(self) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, list[tuple[int, int]]]:
        """
        The columns as bytes: operation u8, id u64, bytes u64, stream u32, time in microseconds i64, graph pool u32
        (empty if no row has one); and the graph pools, the first for none.
        """

class KnownPools:
    """
    The pools that `memlake.allocate` found, so that it need not look again. It keeps them.
    """

    def __init__(self) -> None: ...

    @staticmethod
    def epoch() -> int:
        """
        How often current pools have changed. What was found before a change must not be remembered.
        """

    @staticmethod
    def note_change() -> None:
        """
        Another pool is current somewhere, or one was closed. All objects forget what they know.
        """

    def remember_ordinal(self, driver: Driver, ordinal: int | None, pool: object, epoch: int) -> None:
        """
        The pool of a device by its ordinal; None: of threads that have no current device.
        """

    def remember(self, device: object, pool: object, stream: object | None, epoch: int) -> None:
        """
        The pool of a device; and of a stream object of it that is not a default stream.
        """

    def forget(self) -> None:
        """Forgets all pools."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

def allocating_from(state: tuple[KnownPools, Callable[[], object], _Function]) -> _Function:
    """
    `memlake.allocate`. It serves a call from free memory of a known pool, without Python code, or calls `slow`.

    Args:
        state: a KnownPools; a function that returns None, or an object whose `known` is another KnownPools; and
            `slow`, whose signature and docstring the result has.
    """

def publication_changed() -> None:
    """A pool was made that readers of figures shall see."""

def answer_reader(socket: int, look: Callable[[], tuple[str, Sequence[tuple[Pool, str]]]]) -> None:
    """
    Answers a reader until it or the socket ends. look() returns the beginning of a JSON object about the process,
    and each pool with the beginning of one about it, without their ends.
    """

def dlpack_of_view(view: object, address: int, nbytes: int, is_read_only: bool, is_pinned: bool, is_versioned: bool) -> object:
    """
    A DLPack capsule over bytes that the CPU can access. It keeps `view` alive.
    """

class TakenTensor:
    """A tensor that another library gave to memlake in a DLPack capsule."""

    def __init__(self, capsule: object) -> None: ...

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int | None:
        """None: the tensor is not compact."""

    @property
    def device(self) -> tuple[int, int]: ...

    @property
    def is_read_only(self) -> bool: ...

def export_lease(lease: Lease) -> tuple[int, int, list[int], list[int], list[int]]:
    """
    Its address and size, and of each chunk a new descriptor, the size, and the number of the device. The caller
    closes the descriptors.
    """

def export_pool(pool: Pool) -> list[tuple[int, int, list[int], list[int], list[int]]]:
    """
    The tuples of export_lease() for everything that is live, in the order of the allocations; all or nothing.
    """

class ImportedMemory:
    """Owns one range over chunks that another process exported."""

    def __init__(self, descriptors: list[int], sizes: list[int], homes: list[Device], users: list[Device], read_only: bool) -> None:
        """
        homes: whose memory each chunk is. users: who may read it, and write it unless read_only. The descriptors
        stay the caller's.
        """

    @property
    def address(self) -> int:
        """Where it begins."""

    @property
    def is_open(self) -> bool:
        """False after close()."""

    def close(self) -> None:
        """Waits for the devices, then gives the memory up."""

class ReplayReport:
    """What a replay gave. All sizes in bytes."""

    @property
    def rows(self) -> int:
        """How many rows were replayed."""

    @property
    def cpu_seconds(self) -> float:
        """Of the replaying thread: the policy and its driver calls."""

    @property
    def failure(self) -> dict[str, object] | None:
        """
        The pool when a request first found no memory, and why: row, requested, stream, reason, held, allocated, pending, free, largest_free, largest_usable.
        """

    @property
    def timeline(self) -> tuple[list[int], list[int], list[int], list[float]]:
        """
        Rows, the most bytes allocated and held from each row to the next one, and the driver time in microseconds before the row; the last is the end.
        """

    @property
    def moments(self) -> tuple[bytes, bytes, bytes]:
        """
        64-bit numbers: the row of each moment; where its blocks begin; ten for each block: segment, its size, its page, address, size, requested, stream, state, is small, id.
        """

    @property
    def calls(self) -> dict[str, int]:
        """Driver calls by CUDA name."""

    @property
    def modelled_us(self) -> float:
        """Driver time by the cost table."""

    @property
    def longest_us(self) -> float:
        """Driver time of the request that took the most, by the cost table."""

    @property
    def host_waits(self) -> int: ...

    @property
    def counters(self) -> dict[str, int | float | str]:
        """What only this policy counts."""

    @property
    def peak_requested(self) -> int: ...

    @property
    def peak_allocated(self) -> int: ...

    @property
    def peak_held(self) -> int: ...

    @property
    def end_held(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def ooms(self) -> int: ...

def replay(emulator: Driver, policy: str, op: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], id: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: int, limit: object | None, events: str, lag: int, goes_on: bool, rows_per_sample: int, first_sample: int = 0, pool: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, moments: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> ReplayReport:
    """
    Replays a trace on an emulated device of `capacity` bytes that exists for this call. policy: its name with its
    options, as parse_policy() takes them. limit: what may be held, None for no limit. pool: the graph pool of each
    row, 0 for none. moments: rows after which the blocks are noted, ascending. Runs without the GIL.
    """

class RecordedOutcome:
    """What a policy did with a record, in the record's addresses."""

    @property
    def addresses(self) -> list[int]:
        """For each row that allocates where it is; 0 for the others."""

    @property
    def events(self) -> list[tuple[int, str, int, int, int]]:
        """Segments that came and went: row, kind, address, nbytes, stream."""

    @property
    def last(self) -> list[tuple[int, int, int, bool, bool, list[tuple[int, int, str, int]]]]:
        """
        The segments at the end, by address: address, nbytes, stream, is_small, is_expandable, and blocks of nbytes,
        requested, state, id (-1: none).
        """

    @property
    def failed_row(self) -> int | None:
        """At which a request found no memory."""

def replay_record(emulator: Driver, policy: str, op: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], id: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, initial: Sequence[tuple[int, int, int, bool, bool, Sequence[tuple[int, int, str, int]]]], events: Sequence[tuple[int, str, int, int, int]], tie_break: str, capacity: int) -> RecordedOutcome:
    """
    Replays a trace from `first_row` on, beginning with the segments of a record, on an emulated device that exists
    for this call. policy: one of PyTorch's, as parse_policy() takes it. tie_break: 'age' or 'address'. Runs without the GIL.
    """

class PickleFault:
    """Why a pickle is refused."""

    @property
    def kind(self) -> str: ...

    @property
    def at(self) -> int:
        """The byte."""

    @property
    def number(self) -> int: ...

    @property
    def other(self) -> int: ...

    @property
    def words(self) -> list[bytes]: ...

class PickleNode:
    """A value inside a pickle, which it keeps alive."""

    @property
    def kind(self) -> str:
        """'dict', 'list', 'tuple' or 'scalar'."""

    def get(self, key: str) -> PickleNode | None:
        """The value of a key; None if there is none, or if this is no dict."""

    def keys(self) -> list[str]:
        """The keys of a dict."""

    def __len__(self) -> int: ...

    def item(self, place: int) -> PickleNode:
        """An item of a list or of a tuple."""

    def plain(self) -> object:
        """What Python would have unpickled. MemoryError if it is too much."""

    def shallow(self) -> object:
        """
        What Python would have unpickled, with every container inside it empty.
        """

def read_pickle(data: bytes, allowed: int, progress: object | None) -> PickleNode | PickleFault:
    """
    Reads a pickle of plain data; imports and calls nothing. allowed: the bytes that the values may take.
    progress: called with the bytes that are read, from time to time. Runs without the GIL.
    """

class SegmentColumns:
    """The segments of a snapshot and their blocks."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """
        One array for each column. Those of blocks begin with block_; first_block has one more than segments.
        States of blocks: 0 live, 1 pending, 2 free.
        """

class DeviceEvents:
    """The events of one device as rows of a trace."""

    def take_rows(self) -> dict[str, NDArray[Any]]:
        """
        One array for each column. Call it once: the arrays move to the caller.
        """

    def take_others(self) -> dict[str, NDArray[Any]]:
        """The events that are no rows. Call it once."""

    def take_labels(self) -> dict[str, tuple[NDArray[Any], list[str]]]:
        """
        For each label that a row has: a number for each row, and the text of each number. Call it once.
        """

    @property
    def ignored(self) -> list[tuple[str, int]]:
        """Unknown actions and how many there were."""

    @property
    def has_times(self) -> bool: ...

    @property
    def has_unknown_stream(self) -> bool: ...

    @property
    def num_carried(self) -> int: ...

    @property
    def num_allocation_events(self) -> int: ...

    @property
    def begins_within_a_free(self) -> bool: ...

    @property
    def has_lost_events(self) -> bool: ...

    @property
    def implied_frees(self) -> int: ...

    @property
    def unmatched_frees(self) -> int: ...

class SnapshotReader:
    """Reads the parts of one snapshot; their stacks are in one table."""

    def __init__(self, node: PickleNode) -> None: ...

    def read_segments(self, segments: PickleNode | None) -> SegmentColumns | tuple[int, int | None] | PickleFault:
        """
        The segments of a list; or the first wrong one, with the place of its first wrong block or None.
        """

    def read_events(self, events: PickleNode | None, segments: SegmentColumns, device: int) -> DeviceEvents | int | PickleFault:
        """The events of a list; or the first wrong one."""

    def take_stacks(self) -> dict[str, Any]:
        """
        The table of stacks: starts, frames; filename, line and name of each frame; texts. Call it once.
        """

def event_kinds() -> list[str]:
    """The kinds of DeviceEvents.take_others()."""

def set_undo_failure_hook(hook: object | None) -> None:
    """
    hook(call: str, code: int, detail: str, is_violation: bool) is told when the undo call of a dropped owner fails.
    None removes it.
    """
