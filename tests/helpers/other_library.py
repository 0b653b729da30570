"""Streams that memlake did not make, by the emulator's C functions, as another library makes them."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING

import memlake

if TYPE_CHECKING:
    from collections.abc import Iterator

NON_BLOCKING = 1


def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(memlake.emulator_library()))


class TheirStream:
    """An object of another library. It counts the questions for its handle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.questions = 0

    def __cuda_stream__(self) -> tuple[int, int]:
        self.questions += 1
        return (0, self.handle)


class Context:
    """A context of another library on a device: its own one, or the primary one."""

    def __init__(self, device: memlake.Device, *, is_primary: bool = False) -> None:
        self._driver = library()
        self._context = ctypes.c_void_p()
        if is_primary:
            assert self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device.ordinal) == 0
        else:
            assert self._driver.cuCtxCreate_v2(ctypes.byref(self._context), 0, device.ordinal) == 0
            assert self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())) == 0

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes it the current context of the calling thread."""
        assert self._driver.cuCtxPushCurrent_v2(self._context) == 0
        try:
            yield
        finally:
            assert self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())) == 0

    def create_stream(self) -> int:
        """Returns the handle of a new stream."""
        stream = ctypes.c_void_p()
        with self.current():
            assert self._driver.cuStreamCreate(ctypes.byref(stream), NON_BLOCKING) == 0
        assert stream.value is not None
        return stream.value

    def destroy(self) -> None:
        assert self._driver.cuCtxDestroy_v2(self._context) == 0


def destroy_stream(handle: int) -> None:
    assert library().cuStreamDestroy_v2(ctypes.c_void_p(handle)) == 0
