"""Trains the same GPT on sequences of varying lengths, with about the same number of tokens in each batch."""

import random

import torch
from models.transformer import Shape, loss_of, made, some_tokens

chance = random.Random(0)
model = made(Shape(layers=24, width=2048, heads=16, key_heads=16, hidden=8192, words=50304))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(20):
    length = chance.randrange(300, 2049)
    numbers = some_tokens(8192 // length, length)
    loss = loss_of(model(numbers), numbers)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
