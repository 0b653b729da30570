"""Foreign arrays: memory of another library as the source or destination of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake import _native
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

    from memlake.device.stream import Stream

__all__ = ["ON_DEVICE", "ON_PINNED_HOST", "ForeignArray"]

ON_CPU = 1
ON_DEVICE = 2
ON_PINNED_HOST = 3
_ON_MANAGED = 13
"""DLPack's numbers for kinds of devices."""

_LEGACY_STREAM = 1  # how both protocols name the default stream; they do not allow 0
_KNOWN_VERSIONS = (2, 3)  # of the CUDA array interface


class ForeignArray:
    """Compact memory of an array that speaks ``__cuda_array_interface__`` or DLPack.

    Work that is queued on `stream` afterwards is ordered behind the work that the other library has queued on the
    array.
    """

    __slots__ = ("_keep", "address", "is_on_host", "nbytes")

    address: int
    nbytes: int
    is_on_host: bool
    _keep: object  # keeps the memory alive

    @staticmethod
    def is_one(source: object) -> bool:
        """Tells whether `source` speaks one of the protocols. A host array with a buffer is better taken as that."""
        if hasattr(type(source), "__dlpack__"):
            return not _has_buffer(source)
        return _interface_of(source) is not None

    def __init__(self, source: Any, stream: Stream, *, is_written: bool = False) -> None:
        """Takes the memory of an array.

        Args:
            source: the array; see `is_one`.
            stream: the stream of the copy.
            is_written: whether the copy writes the array.

        Raises:
            ConfigError: if the array is not compact, is read-only and would be written, or does not keep to its
                protocol.
        """
        name = type(source).__name__
        # DLPack first: by it the other library orders its own streams, and it has tensors on the CPU, too.
        if hasattr(type(source), "__dlpack__"):
            is_read_only = self._take_dlpack(name, source, stream)
        else:
            is_read_only = self._take_interface(name, _interface_of(source) or {}, stream)
        if is_written and is_read_only:
            raise ConfigError(f"cannot copy into a read-only {name}")

    def _take_interface(self, name: str, interface: dict[str, Any], stream: Stream) -> bool:
        import numpy as np

        try:
            version, shape = interface["version"], tuple(interface["shape"])
            (address, is_read_only), element = interface["data"], np.dtype(interface["typestr"])
            strides = interface.get("strides")
            nbytes = element.itemsize
            expected = []
            for length in reversed(shape):
                expected.append(nbytes)
                nbytes *= length
            is_compact = strides is None or nbytes == 0 or _follow(shape, tuple(strides), expected[::-1])
            queued_on = interface.get("stream")
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the __cuda_array_interface__ of {name} is malformed: {error!r}") from None
        if version not in _KNOWN_VERSIONS:
            raise ConfigError(f"the __cuda_array_interface__ of {name} has version {version!r}; memlake knows 2 and 3")
        if interface.get("mask") is not None:
            raise ConfigError(f"{name} has a mask; copy its data and its mask apart")
        if not is_compact:
            raise _not_compact(name)
        if queued_on is not None:
            _let_wait(stream, queued_on, name)
        self._keep = interface
        self._set(name, address, nbytes, is_on_host=False)
        return bool(is_read_only)

    def _take_dlpack(self, name: str, source: Any, stream: Stream) -> bool:
        kind, _ = source.__dlpack_device__()
        if kind not in (ON_CPU, ON_DEVICE, ON_PINNED_HOST, _ON_MANAGED):
            raise ConfigError(f"{name} lies on a device of DLPack's kind {int(kind)}, which is not CUDA's")
        is_cuda = kind in (ON_DEVICE, _ON_MANAGED)
        consumer = (stream.handle or _LEGACY_STREAM) if is_cuda else None
        try:
            capsule = source.__dlpack__(stream=consumer, max_version=(1, 0))
        except TypeError:  # a library from before DLPack 1.0
            capsule = source.__dlpack__(stream=consumer)
        try:
            tensor = _native.TakenTensor(capsule)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name} does not keep to DLPack: {error}") from None
        if tensor.nbytes is None:
            raise _not_compact(name)
        self._keep = tensor
        self._set(name, tensor.address, tensor.nbytes, is_on_host=not is_cuda)
        return tensor.is_read_only

    def _set(self, name: str, address: object, nbytes: object, *, is_on_host: bool) -> None:
        self.address = _number(name, address)
        self.nbytes = _number(name, nbytes)
        self.is_on_host = is_on_host

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the array back to its library."""
        self._keep = None


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name} gives {value!r} as an address or a size")
    return value


def _interface_of(source: Any) -> dict[str, Any] | None:
    interface = getattr(source, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if not isinstance(interface, dict):
        raise ConfigError(f"the __cuda_array_interface__ of {type(source).__name__} is no dict")
    return interface


def _let_wait(stream: Stream, queued_on: object, name: str) -> None:
    if not isinstance(queued_on, int) or queued_on < _LEGACY_STREAM:
        raise ConfigError(f"the __cuda_array_interface__ of {name} names the stream {queued_on!r}")
    # The default stream has the handle 0 in memlake, and 1 in the protocol.
    handle = 0 if queued_on == _LEGACY_STREAM else queued_on
    if handle != stream.handle:
        stream.wait(handle)


def _follow(shape: tuple[int, ...], strides: tuple[int, ...], expected: list[int]) -> bool:
    if len(strides) != len(shape):
        raise ValueError("strides and shape have different lengths")
    return all(length == 1 or a == b for length, a, b in zip(shape, strides, expected, strict=True))


def _has_buffer(source: object) -> bool:
    try:
        memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        return False
    except (BufferError, ValueError):
        return True
    return True


def _not_compact(name: str) -> ConfigError:
    return ConfigError(f"the elements of {name} do not follow one another in memory; make it contiguous first")
