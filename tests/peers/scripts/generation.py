"""Generates with a growing cache: batches of several sizes, one after the other."""

import random

import torch
from models.transformer import Shape, made, some_tokens

chance = random.Random(7)
model = made(Shape(layers=24, width=4096, heads=32, key_heads=32, hidden=11008, words=32000, is_gated=True)).eval()
with torch.inference_mode():
    for _ in range(5):
        logits, caches = model.extended(some_tokens(chance.randrange(4, 33), chance.randrange(100, 1000)), None)
        for _ in range(48):
            logits, caches = model.extended(logits.argmax(-1), caches)
        del logits, caches
