"""Settings of core dumps: of the process, and of a context, which begins with a copy of them."""

from __future__ import annotations

import os
import socket
from ctypes import byref, c_bool, c_char, c_int, c_size_t, c_void_p, create_string_buffer, sizeof
from typing import TYPE_CHECKING, Any

import pytest

from helpers.abi_process_functions import (
    FILE,
    GENERATION_FLAGS,
    LIGHTWEIGHT,
    ON_EXCEPTION,
    PIPE,
    TRIGGER_HOST,
    USER_TRIGGER,
)
from helpers.abi_types import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

LIGHTWEIGHT_FLAGS, SKIP_ABORT = 0b10_1111, 1 << 4
COREDUMP_ENABLE = 0x20


class Settings:
    """The settings of the process (Global), or of the current context ("")."""

    def __init__(self, driver: Driver, scope: str) -> None:
        self._get: Any = getattr(driver, f"cuCoredumpGetAttribute{scope}")
        self._set: Any = getattr(driver, f"cuCoredumpSetAttribute{scope}")

    def get(self, setting: int, size: int | None = None) -> tuple[int, object]:
        """The answer and the value."""
        value: Any = create_string_buffer(1024) if setting in (FILE, PIPE) else c_int(0)
        if setting not in (FILE, PIPE, GENERATION_FLAGS):
            value = c_bool(False)
        code = self._get(setting, byref(value), byref(c_size_t(sizeof(value) if size is None else size)))
        return code, value.value

    def set(self, setting: int, value: bool | int | bytes, size: int | None = None) -> int:
        """The answer."""
        given: Any = value
        if isinstance(value, bytes):
            given = (c_char * len(value)).from_buffer_copy(value)
        else:
            given = c_bool(value) if isinstance(value, bool) else c_int(value)
        return self._set(setting, byref(given), byref(c_size_t(sizeof(given) if size is None else size)))

    def size(self, setting: int) -> tuple[int, int]:
        """The answer to the question for the size of a value."""
        size = c_size_t(0)
        return self._get(setting, None, byref(size)), size.value


@pytest.fixture
def process(world: World) -> Iterator[Settings]:
    """The settings of the process; they are as before afterwards."""
    settings = Settings(world.driver, "Global")
    kept = {name: settings.get(name)[1] for name in (ON_EXCEPTION, TRIGGER_HOST, FILE, PIPE, GENERATION_FLAGS)}
    yield settings
    settings.set(USER_TRIGGER, False)
    for name, value in kept.items():
        settings.set(name, value)  # type: ignore[arg-type]


def test_rule_coredump_defaults(process: Settings, expect: Expectations) -> None:
    """Nothing is dumped, the host is; the names have the host and the process."""
    for name, want in ((ON_EXCEPTION, False), (TRIGGER_HOST, True), (LIGHTWEIGHT, False), (USER_TRIGGER, False)):
        expect.equal(f"setting {name}", process.get(name), (0, want), "D")
    expect.equal("flags", process.get(GENERATION_FLAGS), (0, 0), "D")
    end = f"{socket.gethostname()}.{os.getpid()}".encode()
    expect.equal("file", process.get(FILE), (0, b"core.cuda." + end), "D")
    expect.equal("pipe", process.get(PIPE), (0, b"corepipe.cuda." + end), "D")
    for name, size in ((ON_EXCEPTION, 1), (FILE, 1024), (PIPE, 1024), (GENERATION_FLAGS, 4)):
        expect.equal(f"the size of setting {name}", process.size(name), (0, size), "D")


def test_rule_coredump_values_are_kept(process: Settings, expect: Expectations) -> None:
    """What was set is read back. LIGHTWEIGHT is a set of generation flags."""
    expect("TRIGGER_HOST", process.set(TRIGGER_HOST, False), Result.SUCCESS, "D")
    expect.equal("it", process.get(TRIGGER_HOST), (0, False), "D")
    expect("a text without NUL", process.set(FILE, b"corefile"), Result.SUCCESS, "O")
    expect.equal("it", process.get(FILE), (0, b"corefile"), "D")
    expect("a text with NUL", process.set(PIPE, b"corepipe\0"), Result.SUCCESS, "D")
    expect.equal("it", process.get(PIPE), (0, b"corepipe"), "D")
    expect("flags", process.set(GENERATION_FLAGS, SKIP_ABORT), Result.SUCCESS, "D")
    expect("LIGHTWEIGHT", process.set(LIGHTWEIGHT, True), Result.SUCCESS, "D")
    expect.equal("the flags", process.get(GENERATION_FLAGS), (0, SKIP_ABORT | LIGHTWEIGHT_FLAGS), "D")
    expect("all flags off", process.set(GENERATION_FLAGS, 0), Result.SUCCESS, "D")
    expect.equal("LIGHTWEIGHT then", process.get(LIGHTWEIGHT), (0, False), "D")


def test_rule_coredump_refusals(process: Settings, expect: Expectations) -> None:
    """Unknown settings, sizes that do not match, and a pipe that is in use; a refused call changes nothing."""
    expect("setting 0", process.set(0, True), Result.INVALID_VALUE, "D")
    expect("setting 8", process.get(8)[0], Result.INVALID_VALUE, "D")
    expect("a bool of 4 bytes", process.set(TRIGGER_HOST, 0, size=4), Result.INVALID_VALUE, "I")
    expect("a text of 1024 characters", process.set(FILE, b"x" * 1024), Result.INVALID_VALUE, "D")
    expect("a buffer of 4 bytes for a text", process.get(FILE, size=4)[0], Result.INVALID_VALUE, "I")
    expect("unknown flags", process.set(GENERATION_FLAGS, 1 << 10), Result.INVALID_VALUE, "I")
    expect.equal("TRIGGER_HOST as before", process.get(TRIGGER_HOST), (0, True), "I")
    expect("a name", process.set(PIPE, b"mine"), Result.SUCCESS, "D")
    expect("USER_TRIGGER", process.set(USER_TRIGGER, True), Result.SUCCESS, "D")
    expect("another name then", process.set(PIPE, b"other"), Result.NOT_PERMITTED, "I")
    expect.equal("the name", process.get(PIPE), (0, b"mine"), "D")


def test_rule_coredump_context_begins_with_the_process(world: World, process: Settings, expect: Expectations) -> None:
    """A context copies the settings of the process when it is made; later changes of either stay there."""
    driver, context, own = world.driver, c_void_p(), Settings(world.driver, "")
    process.set(FILE, b"of the process")
    expect("create", driver.cuCtxCreate(byref(context), COREDUMP_ENABLE, world.device), Result.SUCCESS, "D")
    try:
        expect.equal("enabled by the flag", own.get(ON_EXCEPTION), (0, True), "D")
        expect.equal("the file", own.get(FILE), (0, b"of the process"), "D")
        expect("another file", own.set(FILE, b"of the context"), Result.SUCCESS, "D")
        expect.equal("that of the process", process.get(FILE), (0, b"of the process"), "D")
        process.set(LIGHTWEIGHT, True)
        expect.equal("LIGHTWEIGHT of the context", own.get(LIGHTWEIGHT), (0, False), "D")
        expect("its pipe", own.set(PIPE, b"pipe"), Result.INVALID_VALUE, "I")
        expect("its user trigger", own.set(USER_TRIGGER, True), Result.INVALID_VALUE, "I")
    finally:
        world.must("cuCtxDestroy", driver.cuCtxDestroy(context))
    world.use(world.device)
    expect.equal("the other context", own.get(ON_EXCEPTION), (0, False), "D")
    world.must("no context", driver.cuCtxSetCurrent(None))
    expect("without a context", own.get(FILE)[0], Result.INVALID_CONTEXT, "D")
    world.use(world.device)
