"""A program for a whole PyTorch: a job with a memory history, which may run out of memory, and its snapshot.

It runs in another Python than the tests do: ``python torch_job.py KIND FILE``. It prints what PyTorch said.
"""

import random
import sys

import torch

MIB = 2**20


def run(kind: str, path: str) -> None:
    device = "cuda:1" if kind == "two devices" else "cuda:0"
    live: list[torch.Tensor] = []
    chance = random.Random(3)

    def ask(mib: float, where: str = device) -> torch.Tensor:
        return torch.empty(int(mib * MIB) + 1, dtype=torch.uint8, device=where)

    def churn(times: int) -> None:
        for _ in range(times):
            if live and chance.random() < 0.45:
                live.pop(chance.randrange(len(live)))
            live.append(ask(chance.choice((1, 3, 8, 12, 30)) * chance.random()))
            if sum(tensor.numel() for tensor in live) > 300 * MIB:
                del live[: len(live) // 2]

    if kind == "late":
        churn(100)
    torch.cuda.memory._record_memory_history(max_entries=700 if kind == "ring" else 1_000_000)
    try:
        if kind == "two devices":
            kept = [ask(20, "cuda:0") for _ in range(3)]  # noqa: F841
        churn(300)
        if kind == "twice":
            torch.cuda.memory._dump_snapshot(f"{path}.before")
            churn(20)
        if kind == "private pool":
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
                pooled = [ask(30) for _ in range(4)]
            del pooled[::2]
        while kind not in ("late", "ring", "twice"):
            live.append(ask(64))
    except torch.OutOfMemoryError as error:
        print(error)
    torch.cuda.memory._dump_snapshot(path)


run(*sys.argv[1:])
