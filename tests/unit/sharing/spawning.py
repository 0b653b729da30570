"""A program that gives shares to processes that it starts: as arguments, through a queue, through a connection."""

import multiprocessing
import sys

import memlake

CHUNKS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
WAY = sys.argv[2] if len(sys.argv) > 2 else "spawn"


def open_and_change(share, value):
    """What a child does with a share: what it reads, and a byte that it writes at the end."""
    gpus = memlake.emulate(memory="4GiB")  # as in the parent
    with share, share.open() as shared:
        seen = int(shared.numpy()[0]), int(shared.numpy()[-1]), len(share.chunk_sizes)
        shared.fill(value, offset=shared.nbytes - 1)
    del gpus
    return seen


def as_argument(share, answers):
    answers.put(open_and_change(share, 101))


def from_a_queue(shares, answers):
    answers.put(open_and_change(shares.get(), 102))


def from_a_connection(connection):
    connection.send(open_and_change(connection.recv(), 103))


def main():
    (gpu,) = memlake.emulate(memory="4GiB")
    pool = memlake.Pool(gpu)
    pieces = [pool.allocate("2MiB", shareable=True) for _ in range(CHUNKS)]
    for piece in pieces:
        piece.close()
    pool.limit = CHUNKS * 2 * 2**20
    buffer = pool.allocate(pool.limit, shareable=True)
    buffer.fill(1)
    context = multiprocessing.get_context(WAY)
    answers = context.Queue()
    shares = context.Queue()
    ours, theirs = context.Pipe()
    for start in ("argument", "queue", "connection"):
        with buffer.export() as share:
            if start == "argument":
                child = context.Process(target=as_argument, args=(share, answers))
                child.start()
            elif start == "queue":
                child = context.Process(target=from_a_queue, args=(shares, answers))
                child.start()
                shares.put(share)
            else:
                child = context.Process(target=from_a_connection, args=(theirs,))
                child.start()
                ours.send(share)
            seen = ours.recv() if start == "connection" else answers.get()
            child.join()
        print(start, *seen, int(buffer.numpy()[-1]), child.exitcode)
        child.close()
        del child
    buffer.close()
    gpu.synchronize()
    pool.trim()
    print("left", gpu.total_memory - gpu.free_memory)


if __name__ == "__main__":
    main()
