"""Serves requests of varying length side by side: each has a cache of its own, and ends at another time."""

import random

import torch
from models.transformer import Cache, Shape, made, some_tokens

chance = random.Random(8)
model = made(Shape(layers=8, width=4096, heads=32, key_heads=32, hidden=11008, words=32000, is_gated=True)).eval()
running: list[tuple[int, torch.Tensor, list[Cache]]] = []
with torch.inference_mode():
    for _ in range(40):
        while len(running) < 12:
            logits, caches = model.extended(some_tokens(1, chance.randrange(50, 4000)), None)
            running.append((chance.randrange(3, 30), logits.argmax(-1), caches))
        after = []
        for left, last, caches in running:
            if left > 0:
                logits, caches = model.extended(last, caches)
                after.append((left - 1, logits.argmax(-1), caches))
        running = after
