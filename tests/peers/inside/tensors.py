"""Tensors and sizes that many probes use."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = (1, 511, 512, 513, 1000, 4 * KIB, 100_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 10 * MIB, 30 * MIB, 77_777_777)
"""Small and large requests, at and beside the borders of PyTorch's rules."""


def taken(size: int, device: str | int = 0) -> torch.Tensor:
    """A tensor of so many bytes."""
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}" if isinstance(device, int) else device)


def random_sizes(count: int, seed: int = 0) -> Iterator[int]:
    """Sizes as a training job has them: many small ones, some of some hundred MiB."""
    chance = random.Random(seed)
    for _ in range(count):
        yield int(2 ** chance.uniform(0, 28)) + chance.randrange(1000)


def churn(count: int = 500, live: int = 30, seed: int = 0) -> list[torch.Tensor]:
    """Allocates and frees in a random order; returns the tensors that are live at the end."""
    chance = random.Random(seed + 1)
    kept: list[torch.Tensor] = []
    for size in random_sizes(count, seed):
        kept.append(taken(size))
        if len(kept) > live:
            del kept[chance.randrange(len(kept))]
    return kept
