"""Fine-tunes small adapters in a frozen model of 6 G parameters (LoRA), on rows of varying length."""

import random

import torch
from models.transformer import Shape, loss_of, made, some_tokens
from torch import nn


class Adapted(nn.Module):
    """A frozen layer and a trained product of two narrow ones."""

    def __init__(self, frozen: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        device, dtype = frozen.weight.device, frozen.weight.dtype
        self.narrow = nn.Linear(frozen.in_features, rank, bias=False, device=device, dtype=dtype)
        self.wide = nn.Linear(rank, frozen.out_features, bias=False, device=device, dtype=dtype)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Adds the adapter to the frozen layer."""
        return self.frozen(values) + self.wide(self.narrow(values))


chance = random.Random(10)
shape = Shape(layers=30, width=4096, heads=32, key_heads=32, hidden=11008, words=32000, is_gated=True)
model = made(shape, recomputes=True)
model.requires_grad_(False)
for block in model.blocks:
    block.attention.queries = Adapted(block.attention.queries)
    block.attention.values = Adapted(block.attention.values)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-4)
for step in range(12):
    numbers = some_tokens(4, chance.randrange(200, 1500))
    loss_of(model(numbers), numbers).backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
