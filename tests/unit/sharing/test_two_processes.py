"""Two processes, one memory: the same bytes on both sides, and either of them may end in any way."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.remote import Remote, RemoteError

MIB = 2**20

COMMON = """
import os, memlake
from memlake import sharing
gpus = memlake.emulate(devices=2, memory="2GiB", peers="all")   # the same devices in both
gpu = gpus[0]
def descriptors():
    return len(os.listdir("/proc/self/fd"))
def taken():
    return sum(device.total_memory - device.free_memory for device in gpus)
"""


@pytest.fixture
def exporter_and_importer():
    """Two processes with the same devices, joined by a Unix socket."""
    ours, theirs = socket.socketpair()
    with Remote(ours) as exporter, Remote(theirs) as importer:
        for process in (exporter, importer):
            process.begin(COMMON)
        for process in (exporter, importer):
            process.finish()
        exporter.run("pool = memlake.Pool(gpu)")
        yield exporter, importer


def send(exporter, importer, nbytes="300MiB", value=5, **options):
    """A buffer of the exporter, filled, and opened in the importer as `shared`."""
    exporter.run(f"""
buffer = pool.allocate({nbytes!r}, shareable=True)
buffer.fill({value})
with buffer.export() as share:
    share.send(over)
""")
    importer.run(f"share = sharing.receive(over); shared = share.open(**{options!r})")


def test_both_see_the_same_bytes(exporter_and_importer):
    exporter, importer = exporter_and_importer
    send(exporter, importer)
    assert importer.ask("shared.nbytes, share.chunk_sizes, bool((shared.numpy() == 5).all())") == (
        300 * MIB,
        (64 * MIB,) * 4 + (44 * MIB,),
        True,
    )
    assert importer.ask("share.address") == exporter.ask("buffer.ptr")
    importer.run("shared.fill(6, offset='63MiB', nbytes='2MiB')")
    assert exporter.ask("buffer.numpy()[[0, 63 << 20, (65 << 20) - 1, 65 << 20]].tolist()") == [5, 6, 6, 5]
    exporter.run("buffer.fill(7)")
    assert importer.ask("bool((shared.numpy() == 7).all())")
    exporter.run("pool.check()")


def test_a_stitched_buffer_of_more_chunks_than_a_message_carries(exporter_and_importer):
    exporter, importer = exporter_and_importer
    exporter.run("""
pieces = [pool.allocate("2MiB", shareable=True) for _ in range(600)]
for piece in pieces: piece.close()
pool.limit = "1200MiB"
""")
    send(exporter, importer, "1200MiB", 0)
    assert importer.ask("len(share.chunk_sizes)") == 600
    exporter.run("""
import numpy as np
view = buffer.numpy("u8")
view[:: (2 << 20) // 8] = np.arange(600)
""")
    assert importer.ask("""(shared.numpy("u8")[:: (2 << 20) // 8] == list(range(600))).all().item()""")
    exporter.run("del view; buffer.close(); gpu.synchronize(); pool.trim()")
    assert exporter.ask("pool.stats().held") == 0
    assert importer.ask("""shared.numpy("u8")[-(2 << 20) // 8].item()""") == 599


def test_memory_of_two_devices_finds_its_devices_again(exporter_and_importer):
    exporter, importer = exporter_and_importer
    exporter.run('pool = memlake.Pool(list(gpus)); before = pool.allocate("1920MiB", shareable=True)')
    send(exporter, importer, "256MiB", 3)
    pieces = "[(piece.device.ordinal, piece.offset, piece.nbytes) for piece in {}.pieces]"
    assert importer.ask(pieces.format("shared")) == exporter.ask(pieces.format("buffer"))
    assert importer.ask("len(shared.pieces), bool((shared.numpy() == 3).all())") == (2, True)


def test_the_importer_keeps_its_memory_when_the_buffer_is_closed(exporter_and_importer):
    exporter, importer = exporter_and_importer
    send(exporter, importer)
    exporter.run("buffer.close(); gpu.synchronize(); pool.trim(); pool.check()")
    assert exporter.ask("pool.stats().held") == 0
    assert exporter.ask("taken()") == 300 * MIB  # somebody has it
    exporter.run("other = pool.allocate('300MiB', shareable=True); other.fill(9)")
    assert importer.ask("bool((shared.numpy() == 5).all())")
    exporter.run("other.close(); pool.trim()")
    importer.run("shared.close()")
    assert exporter.ask("taken()") == 300 * MIB  # the share is still open
    importer.run("share.close()")
    assert (exporter.ask("taken()"), importer.ask("taken()")) == (0, 0)


@pytest.mark.parametrize("ending", ["kill", "end"])
def test_the_importer_keeps_its_memory_when_the_exporter_is_gone(exporter_and_importer, ending):
    exporter, importer = exporter_and_importer
    send(exporter, importer)
    getattr(exporter, ending)()
    assert importer.ask("bool((shared.numpy() == 5).all())")
    importer.run("shared.fill(8); again = share.open()")
    assert importer.ask("bool((again.numpy() == 8).all())")
    importer.run("again.close(); shared.close(); share.close()")
    assert importer.ask("taken()") == 0
    assert importer.end() == 0


def test_the_exporter_may_be_killed_while_it_sends(exporter_and_importer):
    exporter, importer = exporter_and_importer
    before = importer.ask("descriptors()")
    importer.begin("share = sharing.receive(over)")
    exporter.run("""
import socket
buffer = pool.allocate("600MiB", shareable=True)
share = buffer.export()
over.sendall(share._layout.header() + share._layout.table())
""")
    exporter.kill()
    with pytest.raises(RemoteError, match="ConfigError: the other side ended the connection after 0 of 10 descriptors"):
        importer.finish()
    assert importer.ask("descriptors()") == before
    assert importer.ask("taken()") == 0


@pytest.mark.parametrize("ending", ["kill", "end"])
def test_the_exporter_is_as_before_when_the_importer_is_gone(exporter_and_importer, ending):
    exporter, importer = exporter_and_importer
    send(exporter, importer)
    getattr(importer, ending)()
    assert exporter.ask("bool((buffer.numpy() == 5).all())")
    exporter.run("buffer.fill(1); pool.check(); pool.allocate('100MiB').close()")
    exporter.run("buffer.close(); gpu.synchronize(); pool.trim()")
    assert exporter.ask("pool.stats().held, taken()") == (0, 0)
    assert exporter.end() == 0


def test_memory_returns_when_the_importer_is_killed_after_the_buffer_was_closed(exporter_and_importer):
    exporter, importer = exporter_and_importer
    send(exporter, importer)
    exporter.run("buffer.close(); gpu.synchronize(); pool.trim()")
    assert exporter.ask("taken()") == 300 * MIB
    importer.kill()
    assert exporter.ask("taken()") == 0


def test_a_read_only_import_cannot_write(exporter_and_importer):
    exporter, importer = exporter_and_importer
    send(exporter, importer, read_only=True)
    assert importer.ask("int(shared.numpy()[0])") == 5
    with pytest.raises(RemoteError, match=r"ConfigError: .*read-only"):
        importer.run("shared.fill(1)")
    with pytest.raises(RemoteError, match=r"ValueError: .*read-only"):
        importer.run("shared.numpy()[0] = 1")
    importer.run("source = memlake.Pool(gpu).allocate(shared.nbytes)")
    with pytest.raises(RemoteError, match="DriverError"):
        importer.run("source.copy_to(shared)")
    assert exporter.ask("bool((buffer.numpy() == 5).all())")


def test_a_thousand_rounds_leave_neither_descriptors_nor_memory(exporter_and_importer):
    exporter, importer = exporter_and_importer
    for process in exporter_and_importer:
        process.run("before = descriptors()")
    importer.begin("""
for round in range(1000):
    with sharing.receive(over) as share, share.open() as shared:
        assert shared.numpy()[-1] == round % 256
    over.send(b"k")
""")
    exporter.run("""
for round in range(1000):
    with pool.allocate("66MiB", shareable=True) as buffer:
        buffer.fill(round % 256, offset=buffer.nbytes - 1)
        with buffer.export() as share:
            share.send(over)
        assert over.recv(1) == b"k"
gpu.synchronize()
pool.trim()
pool.check()
""")
    importer.finish()
    for process in exporter_and_importer:
        assert process.ask("taken(), descriptors() - before") == (0, 0)
        assert process.ask("len(memlake.emulator.ledger().chunks), len(memlake.emulator.ledger().mappings)") == (0, 0)
        assert process.ask("memlake.emulator.ledger().violations") in ((), [])


@pytest.mark.parametrize(("chunks", "way"), [(1, "spawn"), (600, "spawn"), (600, "forkserver")])
def test_shares_travel_through_multiprocessing(chunks, way):
    program = Path(__file__).with_name("spawning.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), str(chunks), way], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"argument 1 1 {chunks} 101 0",
        f"queue 1 101 {chunks} 102 0",
        f"connection 1 102 {chunks} 103 0",
        "left 0",
    ]
