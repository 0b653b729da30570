"""Trains a mixture of experts: the number of tokens that an expert gets is different in every step."""

import random

import torch
from models.transformer import Block, FeedForward, Shape
from torch import nn

chance = random.Random(4)
shape = Shape(layers=8, width=1536, heads=12, key_heads=12, hidden=4096, words=32000, is_gated=True)


class Experts(nn.Module):
    """Eight feed-forward parts; each token goes to two. The host chooses, because no kernel runs here."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(shape.width, 8, bias=False)
        self.experts = nn.ModuleList(FeedForward(shape) for _ in range(8))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns the weighted sum of two experts for each token."""
        flat = tokens.reshape(-1, tokens.shape[-1])
        weights = self.router(flat).softmax(-1)
        shares = [chance.random() + 0.1 for _ in self.experts]
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            count = max(1, int(2 * len(flat) * shares[number] / sum(shares)))
            chosen = torch.zeros(min(count, len(flat)), dtype=torch.long, device=flat.device)
            result = result.index_add(0, chosen, expert(flat[chosen]) * weights[chosen, number, None])
        return result.view_as(tokens)


with torch.device("cuda"):
    words = nn.Embedding(shape.words, shape.width)
    blocks = nn.ModuleList(Block(shape, Experts()) for _ in range(shape.layers))
    head = nn.Linear(shape.width, shape.words, bias=False)
model = nn.ModuleList((words, blocks, head)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(12):
    numbers = torch.zeros(4, 1024, dtype=torch.long, device="cuda")
    tokens = words(numbers)
    for block in blocks:
        tokens = block(tokens)[0]
    nn.functional.cross_entropy(head(tokens).float().view(-1, shape.words), numbers.view(-1)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
