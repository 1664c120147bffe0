"""The small llama model as a torch module: what `llama.llama_mini` computes, with the same weights."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from examples.llama import EPSILON, angles


class Norm(nn.Module):
    """Divides each row by its root mean square, and weighs its columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(width) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, EPSILON)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x ``[..., S, D]`` with each pair (k, k + D / 2), a complex number, turned by its position's angle."""
    left, right = x.chunk(2, -1)
    result = torch.complex(left, right) * torch.complex(cos, sin)
    return torch.cat([result.real, result.imag], -1)


class Model(nn.Module):
    """Embedding, one decoder layer with grouped queries, norm and head."""

    def __init__(
        self, vocabulary: int = 64, width: int = 64, hidden: int = 172, heads: int = 4, groups: int = 2
    ) -> None:
        super().__init__()
        self.size, self.groups = width // heads, groups
        self.embedding = nn.Embedding(vocabulary, width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm_1, self.norm_2, self.norm = Norm(width), Norm(width), Norm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits ``[S, V]`` of tokens ``[S]``."""
        x = self.embedding(tokens)
        cos, sin = (t.to(x.dtype) for t in angles(len(tokens), self.size))
        normed = self.norm_1(x)
        q, k, v = (w(normed).unflatten(-1, (-1, self.size)).transpose(0, 1) for w in (self.q, self.k, self.v))
        scores = turned(q, cos, sin).unflatten(0, (self.groups, -1)) @ turned(k, cos, sin)[:, None].mT
        scores = scores / math.sqrt(self.size) + torch.full(scores.shape[-2:], -math.inf).triu(1)
        mixed = (scores.softmax(-1) @ v[:, None]).flatten(0, 1)
        x = x + self.o(mixed.transpose(0, 1).flatten(1))
        normed = self.norm_2(x)
        x = x + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return self.lm_head(self.norm(x))

    def arguments(self, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What `llama.llama_mini` is called with to compute the same."""
        projections = (self.q, self.k, self.v, self.o, self.gate, self.up, self.down)
        norms = (self.norm_1.weight, self.norm_2.weight)
        tables = angles(len(tokens), self.size)
        weights = [p.weight.T for p in projections]
        last = (self.norm.weight, self.lm_head.weight.T)
        return tuple(t.detach() for t in (self.embedding(tokens), *weights, *norms, *tables, *last))
