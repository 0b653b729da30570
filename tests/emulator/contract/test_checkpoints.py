"""Checkpoints of processes: running, locked, checkpointed, and back, asked by another process and by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from ctypes import byref, c_int, pointer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.abi_process_functions import (
    CHECKPOINTED,
    LOCKED,
    RUNNING,
    GpuPair,
    LockArgs,
    ReservedArgs,
    RestoreArgs,
)
from helpers.abi_types import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

HERE = Path(__file__).parent
pytestmark = pytest.mark.emulator_only("the target is a program on the emulator, which says what it holds")


class Target:
    """A process with memory, and the functions on it. `driver` is the one of this process."""

    def __init__(self, driver: Driver, process: subprocess.Popen[str]) -> None:
        self.driver = driver
        self.process = process

    def ask(self, question: str) -> str:
        """The answer of the program."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def state(self) -> int:
        """cuCheckpointProcessGetState."""
        state = c_int(-1)
        assert self.driver.cuCheckpointProcessGetState(self.process.pid, byref(state)) == 0
        return state.value

    def call(self, name: str, args: object = None) -> int:
        """cuCheckpointProcess<name>."""
        return getattr(self.driver, f"cuCheckpointProcess{name}")(self.process.pid, args)

    def restore_on(self, *pairs: tuple[str, str]) -> int:
        """cuCheckpointProcessRestore with pairs of UUIDs."""
        array = (GpuPair * len(pairs))()
        for pair, (old, new) in zip(array, pairs, strict=True):
            pair.oldUuid[:] = bytes.fromhex(old)
            pair.newUuid[:] = bytes.fromhex(new)
        args = RestoreArgs(gpuPairs=pointer(array[0]) if pairs else None, gpuPairsCount=len(pairs))
        return self.call("Restore", byref(args))


@contextmanager
def target_of(driver: Driver) -> Iterator[Target]:
    """A process that has called cuInit."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1]), "MEMLAKE_EMULATOR": "devices=2,memory=256MiB"}
    program = str(HERE / "programs" / "checkpoint_target.py")
    with subprocess.Popen(
        [sys.executable, program, driver.library],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        target = Target(driver, process)
        try:
            target.ask("uuids")  # it is ready
            yield target
        finally:
            process.kill()


@pytest.fixture
def target(driver: Driver) -> Iterator[Target]:
    """A process that has called cuInit."""
    with target_of(driver) as target:
        yield target


def test_rule_checkpoint_cycle(target: Target, expect: Expectations) -> None:
    """Lock, checkpoint, restore, unlock. The memory goes back to the device meanwhile, and its contents are kept."""
    expect.equal("the state at first", target.state(), RUNNING, "D")
    used = int(target.ask("used"))
    expect.that("memory is in use", used >= 1 << 20, "D")
    expect("lock", target.call("Lock"), Result.SUCCESS, "D")
    expect.equal("its state", target.state(), LOCKED, "D")
    expect.equal("memory of a locked process", int(target.ask("used")), used, "D")
    expect("checkpoint", target.call("Checkpoint"), Result.SUCCESS, "D")
    expect.equal("its state", target.state(), CHECKPOINTED, "D")
    expect.equal("memory of a checkpointed process", int(target.ask("used")), 0, "D")
    expect("restore", target.call("Restore"), Result.SUCCESS, "D")
    expect.equal("its state", target.state(), LOCKED, "D")
    expect.equal("memory of a restored process", int(target.ask("used")), used, "D")
    expect("unlock", target.call("Unlock"), Result.SUCCESS, "D")
    expect.equal("its state", target.state(), RUNNING, "D")
    expect.equal("the bytes", target.ask("bytes"), "kept_over_the_checkpoint", "D")


def test_rule_checkpoint_states(target: Target, expect: Expectations) -> None:
    """Each action belongs to one state; in the others it is refused, and the state stays."""
    for name in ("Checkpoint", "Restore", "Unlock"):
        expect(f"{name} of a running process", target.call(name), Result.ILLEGAL_STATE, "D")
    expect.equal("the state", target.state(), RUNNING, "D")
    expect("lock", target.call("Lock"), Result.SUCCESS, "D")
    for name in ("Lock", "Restore"):
        expect(f"{name} of a locked process", target.call(name), Result.ILLEGAL_STATE, "D")
    expect.equal("the state", target.state(), LOCKED, "D")
    expect("checkpoint", target.call("Checkpoint"), Result.SUCCESS, "D")
    for name in ("Lock", "Checkpoint", "Unlock"):
        expect(f"{name} of a checkpointed process", target.call(name), Result.ILLEGAL_STATE, "D")
    expect.equal("the state", target.state(), CHECKPOINTED, "D")


def test_rule_checkpoint_calls_wait(target: Target, expect: Expectations) -> None:
    """A call of a locked process waits until the process is unlocked."""
    expect("lock", target.call("Lock"), Result.SUCCESS, "D")
    expect.equal("a call begins", target.ask("call"), "begun", "D")
    expect.equal("it waits", target.ask("is_waiting"), "True", "D")
    expect("checkpoint", target.call("Checkpoint"), Result.SUCCESS, "D")
    expect.equal("it still waits", target.ask("is_waiting"), "True", "D")
    expect("restore", target.call("Restore"), Result.SUCCESS, "D")
    expect("unlock", target.call("Unlock"), Result.SUCCESS, "D")
    expect.equal("it returns", target.ask("join"), "joined", "D")


def test_rule_checkpoint_lock_waits_for_work(target: Target, expect: Expectations) -> None:
    """Work that was queued before the lock ends first. A lock whose time is over leaves the process running."""
    expect.equal("work that does not end", target.ask("hold"), "0", "D")
    expect("lock for 20 ms", target.call("Lock", byref(LockArgs(timeoutMs=20))), Result.NOT_READY, "D")
    expect.equal("the state", target.state(), RUNNING, "D")
    expect.equal("a call is answered", len(target.ask("uuids").split()), 2, "D")
    expect.equal("the work may end", target.ask("open"), "0", "D")
    expect("lock without a limit", target.call("Lock"), Result.SUCCESS, "D")
    expect.equal("the state", target.state(), LOCKED, "D")


def test_rule_checkpoint_restore_on_other_devices(target: Target, expect: Expectations) -> None:
    """Pairs of UUIDs name the device on which each device is restored."""
    one, two = target.ask("uuids").split()
    other = "00" * 16
    for name in ("Lock", "Checkpoint"):
        expect(name, target.call(name), Result.SUCCESS, "D")
    expect("one of two devices", target.restore_on((one, two)), Result.INVALID_VALUE, "D")
    expect("both on one", target.restore_on((one, two), (two, two)), Result.INVALID_VALUE, "I")
    expect("one twice", target.restore_on((one, two), (one, one), (two, two)), Result.INVALID_VALUE, "I")
    expect("an unknown device", target.restore_on((one, other), (two, two)), Result.INVALID_VALUE, "D")
    expect.equal("the state", target.state(), CHECKPOINTED, "D")
    expect("exchanged", target.restore_on((one, two), (two, one)), Result.SUCCESS, "D")
    expect("unlock", target.call("Unlock"), Result.SUCCESS, "D")
    expect.equal("the devices", target.ask("uuids").split(), [two, one], "D")
    expect.equal("the bytes", target.ask("bytes"), "kept_over_the_checkpoint", "D")


def test_rule_checkpoint_arguments(driver: Driver, target: Target, expect: Expectations) -> None:
    """Reserved fields must be 0. A process that has not called cuInit, and one that does not exist, are refused."""
    full = ReservedArgs()
    full.reserved[3] = 1
    locked = LockArgs()
    locked.reserved1[6] = 1
    expect("a reserved field of a lock", target.call("Lock", byref(locked)), Result.INVALID_VALUE, "D")
    expect("a reserved field", target.call("Unlock", byref(full)), Result.INVALID_VALUE, "D")
    code = driver.cuCheckpointProcessGetState(target.process.pid, None)
    expect("no place for the state", code, Result.INVALID_VALUE, "D")
    thread, state = c_int(0), c_int(-1)
    code = driver.cuCheckpointProcessGetRestoreThreadId(target.process.pid, byref(thread))
    expect("the restore thread", code, Result.SUCCESS, "D")
    expect.that("it is a thread of the process", Path(f"/proc/{target.process.pid}/task/{thread.value}").exists(), "D")
    expect("process 0", driver.cuCheckpointProcessGetState(0, byref(state)), Result.INVALID_VALUE, "I")
    expect("process -1", driver.cuCheckpointProcessLock(-1, None), Result.INVALID_VALUE, "I")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        code = driver.cuCheckpointProcessGetState(other.pid, byref(state))
        expect("a process without CUDA", code, Result.NOT_INITIALIZED, "I")
    expect("a process that has ended", driver.cuCheckpointProcessLock(other.pid, None), Result.INVALID_VALUE, "I")
    expect.equal("the state was not written", state.value, -1, "I")


def test_rule_checkpoint_of_itself(world: World, expect: Expectations, adds_all_devices: bool) -> None:
    """A process may lock, checkpoint, restore and unlock itself."""
    driver, own, state = world.driver, os.getpid(), c_int(-1)
    code = driver.cuCheckpointProcessGetRestoreThreadId(own, byref(state))
    # The emulator has no restore thread in a program that adds its devices itself.
    expect("the restore thread", code, Result.NOT_SUPPORTED if adds_all_devices else Result.SUCCESS, "I")
    address = world.new_allocation(4096)
    world.must("write", world.write(address, b"mine"))
    for name, want in (("Lock", LOCKED), ("Checkpoint", CHECKPOINTED), ("Restore", LOCKED), ("Unlock", RUNNING)):
        expect(name, getattr(driver, f"cuCheckpointProcess{name}")(own, None), Result.SUCCESS, "I")
        expect("state", driver.cuCheckpointProcessGetState(own, byref(state)), Result.SUCCESS, "I")
        expect.equal("the state", state.value, want, "I")
    expect.equal("the bytes", world.read(address, 4), (0, b"mine"), "I")


@pytest.mark.world(streams="manual")
def test_rule_checkpoint_runs_manual_work(world: World, expect: Expectations) -> None:
    """A lock ends queued work, also that of streams which no thread runs."""
    driver, own, stream = world.driver, os.getpid(), world.new_stream()
    address = world.new_allocation(4096)
    world.must("fill", driver.cuMemsetD8Async(address, 7, 16, stream))
    expect("lock", driver.cuCheckpointProcessLock(own, None), Result.SUCCESS, "I")
    expect("unlock", driver.cuCheckpointProcessUnlock(own, None), Result.SUCCESS, "I")
    expect("the stream is done", driver.cuStreamQuery(stream), Result.SUCCESS, "I")
