"""Paged key-value caches for the attention examples, and the same attention in torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Paged:
    """Arguments of a paged attention kernel, in order: q, k, v, table, lengths; and how many keys a page has."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    page: int

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors."""
        return self.q, self.k, self.v, self.table, self.lengths

    def expected(self) -> torch.Tensor:
        """The result in FP32."""
        q, k, v, table, lengths = self.inputs
        return in_torch(q.float(), k.float(), v.float(), table, lengths, page=self.page)


def in_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, *, page: int
) -> torch.Tensor:
    """softmax(q @ k.T / sqrt(dim)) @ v of each sequence over its own keys."""
    batch, dim = len(lengths), q.shape[1]
    results = []
    for query, pages, length in zip(q.reshape(batch, -1, dim), table.long(), lengths.tolist(), strict=True):
        rows = (pages[:, None] * page + torch.arange(page)).flatten()[:length]
        weights = torch.softmax(query @ k[rows].T / math.sqrt(dim), 1)
        results.append(weights @ v[rows])
    return torch.cat(results)


def paged(lengths: list[int], heads: int, dim: int, page: int, pool: int | None = None, seed: int = 0) -> Paged:
    """A batch of sequences with these numbers of keys.

    Args:
        lengths: keys of each sequence.
        heads: queries of a sequence.
        dim: of a head.
        page: keys in a page.
        pool: pages in all; with fewer than the sequences have together, they share some.
        seed: of the values and of the order of the pages.
    """
    generator = torch.Generator().manual_seed(seed)
    most = max(-(-length // page) for length in lengths)
    wanted = len(lengths) * most
    pool = wanted if pool is None else pool
    table = torch.randperm(wanted, generator=generator).remainder(pool).int().reshape(len(lengths), most)

    def normal(rows: int) -> torch.Tensor:
        return torch.randn(rows, dim, generator=generator).to(torch.bfloat16)

    counts = torch.tensor(lengths, dtype=torch.int32)
    return Paged(normal(len(lengths) * heads), normal(pool * page), normal(pool * page), table, counts, page)
