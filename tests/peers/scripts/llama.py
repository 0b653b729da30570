"""Trains a Llama of 3 G parameters with shared key heads and recomputed activations."""

import random

import torch
from models.transformer import Shape, loss_of, made, some_tokens

chance = random.Random(1)
shape = Shape(layers=28, width=3072, heads=24, key_heads=8, hidden=8192, words=128256, is_gated=True)
model = made(shape, recomputes=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
for _ in range(8):
    length = chance.choice((1024, 1536, 2048, 3072, 4096))
    numbers = some_tokens(2, length)
    loss_of(model(numbers), numbers).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
