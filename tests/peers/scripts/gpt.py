"""Trains a GPT of 1.3 G parameters in bfloat16 with AdamW; all batches have one size."""

import torch
from models.transformer import Shape, loss_of, made, some_tokens

model = made(Shape(layers=24, width=2048, heads=16, key_heads=16, hidden=8192, words=50304))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(12):
    numbers = some_tokens(8, 1024)
    loss = loss_of(model(numbers), numbers)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
