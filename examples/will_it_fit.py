"""Would this job fit, and which allocator makes it fit? Asked without a GPU.

    python examples/will_it_fit.py

The trace is what fine-tuning OPT-13B (LoRA, recomputation, optimizer offload, 4 GPUs) asks of its allocator on one GPU.
At most 59 GiB of it are live, so a device of 64 GiB should do.

1. Replay it on an emulated device of 64 GiB: under lake, PyTorch's native allocator, its expandable segments, and no
   pool.
2. Find the smallest device that each of them needs.
"""

from __future__ import annotations

import memlake
from memlake.trace import load_example
from memlake.units import format_bytes

NAME = "train_opt-13b_lora_offload"


def main() -> None:
    trace = load_example(NAME)
    print(f"The trace: {trace.metadata['description']}\n")

    print(f"1. memlake compare {NAME} --capacity 64GiB\n")
    comparison = memlake.compare(trace, capacity="64GiB")
    comparison.print()

    print(f"\n2. memlake fit {NAME}\n")
    needed = memlake.fit(trace)
    needed.print()

    native, expandable, lake = comparison["caching"], comparison["expandable"], comparison["lake"]
    assert native.failure is not None
    assert expandable.fits
    assert lake.fits
    print(
        f"\nIn short: PyTorch's native allocator dies on 64 GiB with {format_bytes(native.failure.free)} free and "
        f"would need {format_bytes(needed['caching'].min_capacity or 0)};\nits expandable segments run, with "
        f"{expandable.modelled_driver_ms or 0:.0f} ms in the driver; lake runs with "
        f"{lake.modelled_driver_ms or 0:.0f} ms."
    )


if __name__ == "__main__":
    main()
