"""A driver library, loaded with ctypes: the emulator, NVIDIA's libcuda.so.1, or anything else with that C ABI."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_char_p, c_int, c_size_t
from typing import Any

from helpers.abi_functions import EMULATOR_FUNCTIONS, FUNCTIONS


class Driver:
    """Every function of the table is a method with CUDA's unsuffixed name; it returns the CUresult as an int.

    Out-parameters are the caller's own objects, passed with byref: a case can see that a refused call left them alone.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self._dll = ctypes.CDLL(library)  # not PyDLL: a call that waits must not hold the GIL
        self.is_emulated = hasattr(self._dll, "memlakeEmulatorLedger")
        functions = dict(FUNCTIONS)
        if self.is_emulated:
            functions |= EMULATOR_FUNCTIONS
            self._last_error = self._text_function("memlakeEmulatorLastError")
            self._last_violation = self._text_function("memlakeEmulatorLastViolation")
        self.missing: set[str] = set()
        for name, (symbol, argtypes) in functions.items():
            self._bind(name, symbol, argtypes)

    def _bind(self, name: str, symbol: str, argtypes: list[object]) -> None:
        function: Any = getattr(self._dll, symbol, None)
        if function is None:
            self.missing.add(name)
            return
        function.restype = c_int
        function.argtypes = argtypes
        setattr(self, name, function)

    def _text_function(self, symbol: str) -> Any:
        function = getattr(self._dll, symbol)
        function.restype = c_char_p
        function.argtypes = []
        return function

    def __getattr__(self, name: str) -> Any:
        # Only reached when binding found nothing.
        raise AttributeError(f"{self.library} does not export {name}")

    def last_error(self) -> str:
        """The emulator's sentence about this thread's last failing call; "" on a real driver."""
        return self._last_error().decode() if self.is_emulated else ""

    def last_violation(self) -> str:
        """The emulator's sentence about this thread's last call if that was a contract violation; else ""."""
        return self._last_violation().decode() if self.is_emulated else ""

    def ledger(self) -> dict[str, Any]:
        """What exists on the emulator. Another thread may add to it between asking for the size and reading."""
        size = c_size_t(0)
        self.memlakeEmulatorLedger(None, byref(size))
        while True:
            size.value += 4096
            buffer = ctypes.create_string_buffer(size.value)
            if self.memlakeEmulatorLedger(buffer, byref(size)) == 0:
                return json.loads(buffer.value)

    def device_count(self) -> int:
        """The first ordinal that no device has."""
        count = c_int(-1)
        code = self.cuDeviceGetCount(byref(count))
        if code != 0:
            raise AssertionError(f"cuDeviceGetCount answered {code}")
        return count.value

    def version(self) -> int:
        """1000 x major + 10 x minor of the newest CUDA this driver supports."""
        version = c_int(0)
        self.cuDriverGetVersion(byref(version))
        return version.value

    def device_name(self, device: int) -> str:
        """As the driver tells it."""
        name = ctypes.create_string_buffer(256)
        self.cuDeviceGetName(name, len(name), device)
        return name.value.decode()
