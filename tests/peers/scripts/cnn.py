"""Trains a residual network on images of several sizes, in single precision."""

import random

import torch
from torch import nn


class Residual(nn.Module):
    """A bottleneck block."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        changes = stride != 1 or inside != 4 * width
        self.skip = nn.Conv2d(inside, 4 * width, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Adds the block to its input."""
        return torch.relu(self.body(images) + self.skip(images))


def network() -> nn.Module:
    """The layers of a ResNet-50."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(count):
            layers.append(Residual(inside, width, 2 if index == 0 and width > 64 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


chance = random.Random(2)
with torch.device("cuda"):
    model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(12):
    size = chance.randrange(160, 321, 16)
    images = torch.empty(64, 3, size, size, device="cuda")
    labels = torch.zeros(64, dtype=torch.long, device="cuda")
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
