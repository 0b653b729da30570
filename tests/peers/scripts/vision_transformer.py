"""Trains a vision transformer on images of several resolutions, with inputs that a second stream copies."""

import random

import torch
from torch import nn

chance = random.Random(11)
with torch.device("cuda"):
    patches = nn.Conv2d(3, 1280, 14, 14)
    layer = nn.TransformerEncoderLayer(1280, 16, 5120, batch_first=True, norm_first=True, activation="gelu")
    body = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
    head = nn.Linear(1280, 1000)
model = nn.ModuleList((patches, body, head))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
copies = torch.cuda.Stream()


def next_batch() -> torch.Tensor:
    """Copies a batch on the second stream."""
    size = 14 * chance.randrange(12, 25)
    host = torch.empty(24, 3, size, size, pin_memory=True)
    with torch.cuda.stream(copies):
        return host.to("cuda", non_blocking=True)


following = next_batch()
for _ in range(10):
    torch.cuda.current_stream().wait_stream(copies)
    images = following
    images.record_stream(torch.cuda.current_stream())
    following = next_batch()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        scores = head(body(patches(images).flatten(2).transpose(1, 2)).mean(1))
        loss = nn.functional.cross_entropy(scores.float(), torch.zeros(24, dtype=torch.long, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
