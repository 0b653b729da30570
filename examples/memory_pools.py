"""The story of CUDA's memory pools: a default pool, a pool of one's own, attributes, thresholds, trimming, streams.

Runs without a GPU, on an emulated one:

    python examples/memory_pools.py

docs/guides/cuda_pools.md tells which CUDA call each step stands for. Sharing with another process is a story of its
own: examples/share_a_buffer.py.
"""

from __future__ import annotations

import memlake
from memlake.units import format_bytes


def say(what: str, pool: memlake.Pool) -> None:
    held, used = format_bytes(pool.reserved_mem_current), format_bytes(pool.used_mem_current)
    print(f"   {what + ':':<42} held {held:>9}, in use {used:>9}")


def main() -> None:
    with memlake.emulate(memory="8GiB", backing="none") as (gpu,):
        stream = gpu.create_stream()

        print("1. The default pool is there from the start, and grows as needed.")
        pool = memlake.default_pool(gpu)
        say("at first", pool)
        buffer = memlake.allocate("1GiB", stream=stream)
        say("1 GiB allocated", pool)
        buffer.fill(0, stream=stream)
        buffer.close()
        say("freed, and kept for the next request", pool)

        print("\n2. With a threshold of 0, as CUDA has it, a wait gives it back.")
        pool.release_threshold = 0
        stream.sync()
        say("after stream.sync()", pool)

        print("\n3. A pool of one's own: capped, and with memory in advance.")
        with memlake.Pool(gpu, max_size="4GiB", initial_size="512MiB") as own, memlake.use_pool(own):
            say("at first", own)
            try:
                memlake.allocate("5GiB")
            except memlake.OutOfMemory as error:
                print(f"   5 GiB are refused: {str(error).split('. ')[0]}")
            try:
                own.reserved_mem_current = 2**29
            except memlake.ConfigError as error:
                print(f"   {str(error).split(';')[0]}")

            print("\n4. Trimming keeps what it is told to keep, and nothing that is in use goes.")
            kept = own.allocate("1GiB", stream=stream)
            own.allocate("2GiB", stream=stream).close()
            stream.sync()
            say("1 GiB live, 2 GiB freed", own)
            own.trim(keep="2GiB")
            say('trim(keep="2GiB")', own)
            own.trim()
            say("trim()", own)
            kept.close()

            print("\n5. Another stream gets freed memory when the program orders it behind.")
            other = gpu.create_stream()
            own.trim()
            place = own.allocate("1GiB", stream=stream)
            address = place.ptr
            place.close()
            other.wait(stream)
            with own.allocate("1GiB", stream=other) as again:
                same = "the same" if again.ptr == address else "other"
                count = own.stats().policy_counters["reused_by_event"]
                print(f"   {same} memory, reused by the order of events: {count} time")
            own.check()


if __name__ == "__main__":
    main()
