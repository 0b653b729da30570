"""A decoder-only transformer with the parts that language models have today."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Cache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Attributes:
        layers: the number of blocks.
        width: the size of a token's vector.
        heads: the number of query heads.
        key_heads: the number of key and value heads.
        hidden: the width inside the feed-forward part.
        words: the size of the vocabulary.
        is_gated: whether the feed-forward part is gated and the norms have no mean, as in Llama.
    """

    layers: int = 16
    width: int = 2048
    heads: int = 16
    key_heads: int = 16
    hidden: int = 8192
    words: int = 32000
    is_gated: bool = False


class Attention(nn.Module):
    """Causal attention with shared key heads and an optional cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = shape.heads, shape.key_heads, shape.width // shape.heads
        self.queries = nn.Linear(shape.width, shape.width, bias=False)
        self.keys = nn.Linear(shape.width, self.key_heads * self.size, bias=False)
        self.values = nn.Linear(shape.width, self.key_heads * self.size, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Returns the result, and the keys and values of all tokens so far."""
        batch, length, width = tokens.shape
        query = rotated(self.queries(tokens).view(batch, length, self.heads, self.size)).transpose(1, 2)
        key = rotated(self.keys(tokens).view(batch, length, self.key_heads, self.size)).transpose(1, 2)
        value = self.values(tokens).view(batch, length, self.key_heads, self.size).transpose(1, 2)
        if cache is not None:
            key, value = torch.cat((cache[0], key), 2), torch.cat((cache[1], value), 2)
        times = self.heads // self.key_heads
        wide_key, wide_value = (part.repeat_interleave(times, 1) if times > 1 else part for part in (key, value))
        mixed = functional.scaled_dot_product_attention(query, wide_key, wide_value, is_causal=cache is None)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width)), (key, value)


def rotated(heads: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    length, size = heads.shape[1], heads.shape[-1]
    rates = 10000.0 ** (-torch.arange(0, size, 2, device=heads.device) / size)
    angles = torch.outer(torch.arange(length, device=heads.device), rates)[None, :, None, :]
    cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    even, odd = heads[..., ::2], heads[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)


class FeedForward(nn.Module):
    """Two layers, or three with a gate."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False) if shape.is_gated else None
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns a vector for each token."""
        if self.gate is None:
            return self.down(functional.gelu(self.up(tokens)))
        return self.down(functional.silu(self.gate(tokens)) * self.up(tokens))


class Block(nn.Module):
    """Attention and a feed-forward part, each with its norm."""

    def __init__(self, shape: Shape, feed_forward: nn.Module | None = None) -> None:
        super().__init__()
        norm = nn.RMSNorm if shape.is_gated else nn.LayerNorm
        self.first, self.second = norm(shape.width), norm(shape.width)
        self.attention = Attention(shape)
        self.feed_forward = feed_forward or FeedForward(shape)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Returns the tokens, and the cache of this block."""
        mixed, cache = self.attention(self.first(tokens), cache)
        tokens = tokens + mixed
        return tokens + self.feed_forward(self.second(tokens)), cache


class Transformer(nn.Module):
    """The whole model."""

    def __init__(self, shape: Shape, recomputes: bool = False) -> None:
        super().__init__()
        self.shape, self.recomputes = shape, recomputes
        self.words = nn.Embedding(shape.words, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns the logits of all tokens."""
        tokens = self.words(numbers)
        for block in self.blocks:
            if self.recomputes and self.training:
                tokens = checkpoint(block, tokens, use_reentrant=False)[0]
            else:
                tokens = block(tokens)[0]
        return self.head(self.norm(tokens))

    def extended(self, numbers: torch.Tensor, caches: list[Cache] | None) -> tuple[torch.Tensor, list[Cache]]:
        """Returns the logits of the last token, and the caches with the new tokens."""
        tokens, after = self.words(numbers), []
        for index, block in enumerate(self.blocks):
            tokens, cache = block(tokens, None if caches is None else caches[index])
            after.append(cache)
        return self.head(self.norm(tokens[:, -1:])), after


def made(shape: Shape, *, recomputes: bool = False, dtype: torch.dtype = torch.bfloat16) -> Transformer:
    """A model on the device."""
    with torch.device("cuda"):
        return Transformer(shape, recomputes).to(dtype)


def loss_of(logits: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Cross entropy in single precision, as training programs compute it."""
    return functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), numbers.view(-1))


def some_tokens(batch: int, length: int) -> torch.Tensor:
    """A batch of token numbers."""
    return torch.zeros(batch, length, dtype=torch.long, device="cuda")
