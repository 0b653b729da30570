"""What it costs to give 1 GiB to another process, and what memory that can be shared costs as long as it is not."""

import multiprocessing
import socket
import time
import timeit

import memlake
from benchmarks.figures import Figure, Figures, Goal
from memlake import sharing

ROUNDS = 30
SIZE = 2**30
SMALL_CHUNK = 2 * 2**20
CALLS = 100_000
PASSES = 5


def measure() -> Figures:
    """Time of export and send here plus receive and open there: 1 GiB in the pool's own chunks, and in small ones."""
    (device,) = memlake.emulate(memory="4GiB")
    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("spawn")
    importer = context.Process(target=_import_all, args=(theirs, device.ordinal))
    importer.start()
    with ours, theirs:
        large = memlake.Pool(device)
        chunked = memlake.Pool(device, limit=SIZE)
        for piece in [chunked.allocate(SMALL_CHUNK, shareable=True) for _ in range(SIZE // SMALL_CHUNK)]:
            piece.close()  # at the limit the next buffer is stitched from these
        passes: dict[str, list[float]] = {}
        for name, pool in {"16 chunks": large, "512 chunks": chunked}.items():
            with pool.allocate(SIZE, shareable=True) as buffer:
                for _ in range(ROUNDS):
                    exporting, importing = _one_round(ours, buffer)
                    passes.setdefault(f"export of {name}", []).append(exporting)
                    passes.setdefault(f"import of {name}", []).append(importing)
                    passes.setdefault(f"both of {name}", []).append(exporting + importing)
        ours.shutdown(socket.SHUT_WR)
        importer.join()
        large.close()
        chunked.close()
    figures = {name: Figure.median(ms, "ms") for name, ms in passes.items()}
    figures |= _calls(device)
    device.close()
    return Figures("sharing", figures, Goal("both of 16 chunks", 5))


def _one_round(over: socket.socket, buffer: memlake.Buffer) -> tuple[float, float]:
    """Milliseconds of this process and of the other one."""
    begin = time.perf_counter()
    share = buffer.export()
    share.send(over)
    exporting = (time.perf_counter() - begin) * 1e3
    importing = int.from_bytes(over.recv(8), "little") / 1e6
    share.close()
    return exporting, importing


def _import_all(over: socket.socket, ordinal: int) -> None:
    # An emulated device is known by its ordinal, so this process needs as many.
    devices = memlake.emulate(devices=ordinal + 1, memory="4GiB")
    with over:
        while over.recv(1, socket.MSG_PEEK):
            begin = time.perf_counter_ns()
            share = sharing.receive(over)
            shared = share.open()
            over.sendall((time.perf_counter_ns() - begin).to_bytes(8, "little"))
            shared.close()
            share.close()
    devices.close()


def _calls(device: memlake.Device) -> dict[str, Figure]:
    """Thread CPU time of one allocate and one close in steady state, as in the benchmark `pool_calls`."""
    pools = {
        "plain allocate + close": memlake.Pool(device),
        "shareable allocate + close": memlake.Pool(device, handle_type="posix_fd"),
    }
    passes: dict[str, list[float]] = {}
    for _ in range(PASSES):
        for name, pool in pools.items():
            statement = f"allocate({3 * 2**20}).close()"
            seconds = timeit.timeit(
                statement, globals={"allocate": pool.allocate}, number=CALLS, timer=time.thread_time
            )
            passes.setdefault(name, []).append(seconds / CALLS * 1e9)
    for pool in pools.values():
        pool.close()
    return {name: Figure.median(ns, "ns") for name, ns in passes.items()}
