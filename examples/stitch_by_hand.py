"""Two GPUs of 8 GiB, both in pieces, and a job that wants 10 GiB in one piece.

Runs without a GPU, on emulated ones:

    python examples/stitch_by_hand.py

1. Fill both GPUs with pieces and free every other one: 10 GiB are free, but never 10 GiB side by side.
2. Ask for 10 GiB the ordinary way: no GPU has them.
3. Stitch the free pieces of both GPUs into one contiguous range of 10 GiB. No byte is copied.
4. Write through the range, read through the pieces' own addresses: it is the same memory.
5. Close everything and let the emulator's ledger say that nothing is left.
"""

from __future__ import annotations

import re
import string
import textwrap
from itertools import chain
from pathlib import Path

import numpy as np

import memlake
from memlake import vmm
from memlake.units import format_bytes

PIECES = ["640MiB", "384MiB"] * 8  # 8 GiB; the large ones will be free, the small ones between them stay in use
PER_COLUMN = 128 * 2**20  # bytes that one character of a picture stands for


def main() -> None:
    with memlake.emulate(devices=2, memory="8GiB") as gpus:
        memlake.emulator.reset_ledger()
        print(f"Two emulated GPUs: {gpus[0].name}, {format_bytes(gpus[0].total_memory)} each\n")

        homes = [fill_with_pieces(gpu) for gpu in gpus]
        # Take pieces of both GPUs in turn, so that the neighbours in the range come from different GPUs.
        free = list(chain(*zip(*([chunk for chunk in home.chunks if chunk.is_free] for home in homes), strict=True)))
        letters = dict(zip(free, string.ascii_uppercase, strict=False))

        print("1. Every other piece is free (a letter each), the pieces between them are in use (#):\n")
        for home in homes:
            print(f"   GPU {home.device.ordinal}  {picture(home.chunks, letters)}")
        print(f"\n   free in all        {format_bytes(sum(chunk.nbytes for chunk in free))}")
        print(f"   free side by side  {format_bytes(max(largest_free_run(home.chunks) for home in homes))} at most\n")

        print("2. Asking a GPU for 10 GiB the ordinary way:\n")
        try:
            vmm.create(gpus[0], "10GiB")
        except memlake.DriverError as error:
            print(textwrap.fill(str(error), width=100, initial_indent="   ", subsequent_indent="   "), "\n")

        with memlake.driver.counting(gpus[0]) as counts:
            lake = vmm.stitch(free, access=gpus)
        print(f"3. Stitched: {format_bytes(lake.nbytes)} at {lake.address:#x}, one range over both GPUs:\n")
        print(f"   range  {picture(lake.chunks, letters)}")
        print(f"   GPU    {''.join(columns(chunk, str(chunk.device.ordinal)) for chunk in lake.chunks)}\n")
        for call, times in counts.calls.items():
            print(f"   {call:<22}{times:>4} x")
        print(f"   on an A100 this takes about {counts.modelled_us / 1000:.1f} ms; no byte was copied\n")

        stamped = stamp_both_ends(lake)
        matching = sum(read_at_home(chunk, offset) == stamp for (chunk, offset), stamp in stamped.items())
        print(f"4. {len(stamped)} stamps written through the range, at both ends of every piece;")
        print(f"   {matching} of them read back through the pieces' own addresses\n")
        assert matching == len(stamped)

        lake.close()
        for home in homes:
            home.close()
        ledger = memlake.emulator.ledger()
        print("5. Everything closed. The ledger says:\n")
        print(f"   {'nothing is left' if ledger.is_empty else ledger}, {len(ledger.violations)} rules violated\n")
        assert ledger.is_empty
        assert not ledger.violations

    # Not ru_maxrss: that counts what the process had before it became this program.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024
    print(f"Peak resident memory: {format_bytes(peak)}. Emulated memory costs nothing until it is touched.")


def fill_with_pieces(gpu: memlake.Device) -> vmm.Segment:
    """Fills a GPU with pieces side by side, in one range of addresses, and leaves every other one in use."""
    home = vmm.Segment.create(gpu, gpu.total_memory, chunk_size=PIECES)
    home.take(*home.chunks[1::2])
    return home


def largest_free_run(chunks: tuple[vmm.Chunk, ...]) -> int:
    """The most bytes that lie side by side and are free."""
    largest = run = 0
    for chunk in chunks:
        run = run + chunk.nbytes if chunk.is_free else 0
        largest = max(largest, run)
    return largest


def stamp_both_ends(lake: vmm.Segment) -> dict[tuple[vmm.Chunk, int], int]:
    """Writes a number at the beginning and the end of every piece, through the range: (piece, offset) -> number."""
    stamps = {}
    for index, chunk in enumerate(lake.chunks):
        for offset in (0, chunk.nbytes - 8):
            number = 1_000_000 * (index + 1) + offset
            lake.copy_from(np.array([number]), offset=lake.offset_of(chunk) + offset)
            stamps[chunk, offset] = number
    return stamps


def read_at_home(chunk: vmm.Chunk, offset: int) -> int:
    """Reads a number where the piece was before it was stitched."""
    home = chunk.home
    assert home is not None
    number = np.empty(1, dtype=np.int64)
    home.copy_to(number, offset=home.offset_of(chunk) + offset)
    return int(number[0])


def picture(chunks: tuple[vmm.Chunk, ...], letters: dict[vmm.Chunk, str]) -> str:
    """One character for every 128 MiB: the piece's letter, or # for a piece in use."""
    return "".join(columns(chunk, letters.get(chunk, "#")) for chunk in chunks)


def columns(chunk: vmm.Chunk, character: str) -> str:
    """The character, once for every 128 MiB of the piece."""
    return character * (chunk.nbytes // PER_COLUMN)


if __name__ == "__main__":
    main()
