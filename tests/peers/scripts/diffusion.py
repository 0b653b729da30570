"""Trains a U-Net for diffusion on images of several shapes, with an average of its weights and samples between."""

import copy
import itertools
import random

import torch
from torch import nn


class Part(nn.Module):
    """Two convolutions with the time of the step, and attention where the image is small."""

    def __init__(self, inside: int, outside: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1))
        self.time = nn.Linear(512, outside)
        self.second = nn.Sequential(nn.GroupNorm(32, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1))
        self.skip = nn.Conv2d(inside, outside, 1)
        self.attention = nn.MultiheadAttention(outside, 8, batch_first=True) if attends else None

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Returns images with `outside` channels."""
        mixed = self.second(self.first(images) + self.time(time)[:, :, None, None]) + self.skip(images)
        if self.attention is not None:
            batch, channels, height, width = mixed.shape
            tokens = mixed.flatten(2).transpose(1, 2)
            tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
            mixed = tokens.transpose(1, 2).reshape(batch, channels, height, width)
        return mixed


class Net(nn.Module):
    """Down, through the middle, and up with the images from the way down."""

    def __init__(self, widths: tuple[int, ...] = (192, 384, 576, 768)) -> None:
        super().__init__()
        self.begin = nn.Conv2d(4, widths[0], 3, padding=1)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(Part(narrow, wide, wide > 400) for narrow, wide in pairs)
        self.middle = Part(widths[-1], widths[-1], True)
        self.up = nn.ModuleList(Part(2 * wide, narrow, narrow > 400) for narrow, wide in reversed(pairs))
        self.end = nn.Conv2d(widths[0], 4, 3, padding=1)

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Predicts the noise."""
        values, kept = self.begin(images), []
        for part in self.down:
            values = part(values, time)
            kept.append(values)
            values = nn.functional.avg_pool2d(values, 2)
        values = self.middle(values, time)
        for part in self.up:
            values = part(torch.cat((nn.functional.interpolate(values, scale_factor=2.0), kept.pop()), 1), time)
        return self.end(values)


chance = random.Random(3)
with torch.device("cuda"):
    model = Net()
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(12):
    height, width = chance.choice(((64, 64), (48, 80), (80, 48), (56, 72), (96, 96)))
    images, time = torch.empty(16, 4, height, width, device="cuda"), torch.empty(16, 512, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(images, time).float(), torch.empty_like(images))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
    if step % 4 == 3:
        with torch.no_grad():
            for _ in range(3):
                average(torch.empty(4, 4, 128, 128, device="cuda"), torch.empty(4, 512, device="cuda"))
