"""Times one kind of work inside the lab and prints nanoseconds, one JSON list for each line of the standard input.

Arguments: none. A line of the input names the work: `raw SIZE`, `empty` or `step`. The answers are the passes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import torch
from inside import mode

if TYPE_CHECKING:
    from collections.abc import Callable

PASSES, CALLS = 25, 2000
STEPS = 8


def timed(act: Callable[[], None], passes: int, calls: int) -> list[float]:
    """Nanoseconds of one call, for each pass.

    It is the CPU time of this process, so that other programs count little. A backward pass runs in another thread.
    """
    found = []
    for _ in range(passes):
        begun = time.process_time_ns()
        act()
        found.append((time.process_time_ns() - begun) / calls)
    return found


def raw(size: int) -> list[float]:
    """Allocating and freeing without a tensor."""
    allocate = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    stream = torch.cuda.current_stream().cuda_stream

    def act() -> None:
        for _ in range(CALLS):
            free(allocate(size, stream))

    return timed(act, PASSES, CALLS)


def empty() -> list[float]:
    """`torch.empty` of 4 MiB, and the tensor's end."""

    def act() -> None:
        for _ in range(CALLS):
            torch.empty(1 << 20, device="cuda")

    return timed(act, PASSES, CALLS)


def training_step() -> Callable[[], None]:
    """A step of a GPT in bfloat16."""
    from models.transformer import Shape, loss_of, made, some_tokens

    model = made(Shape(layers=12, width=1024, heads=16, key_heads=16, hidden=4096, words=32000))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def act() -> None:
        numbers = some_tokens(8, 1024)
        loss_of(model(numbers), numbers).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return act


def main() -> int:
    """Answers each line."""
    mode.prepare()
    mode.install()
    kept = [torch.empty(1 << size, device="cuda", dtype=torch.uint8) for size in range(9, 28)]
    step: Callable[[], None] | None = None
    for line in sys.stdin:
        work, *rest = line.split()
        if work == "raw":
            answer = raw(int(rest[0]))
        elif work == "empty":
            answer = empty()
        else:
            if step is None:
                step = training_step()
                timed(step, 3, 1)
            answer = timed(step, STEPS, 1)
        print(json.dumps(answer), flush=True)
    del kept
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
