"""Decoding with two programs that share a cache of keys and values: one appends to it, one attends over it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from examples.paged_attention import PAGE, page_start, paged_attention


@pypto.jit
def append(
    key: pl.Tensor,
    value: pl.Tensor,
    table: pl.Tensor,
    lengths: pl.Tensor,
    k: pl.InOut[pl.Tensor],
    v: pl.InOut[pl.Tensor],
):
    """Write key and value [batch, dim] into caches k, v behind the lengths [batch] INT32 keys of each sequence."""
    batch, dim = key.shape
    for b in pl.range(batch):
        length = pl.cast(pl.read(lengths, [b]), pl.INDEX)
        row = page_start(table, b, length // PAGE, PAGE) + length % PAGE
        pl.store(pl.load(key, [b, 0], [1, dim]), [row, 0], k)
        pl.store(pl.load(value, [b, 0], [1, dim]), [row, 0], v)
    return k, v


@dataclass
class Cache:
    """Keys and values of a batch of sequences, in pages; tensors that stay where they are from call to call."""

    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def empty(cls, batch: int, dim: int, most: int) -> Cache:
        """Room for `most` pages for each sequence, in shuffled order."""
        rows = batch * most * PAGE
        table = torch.randperm(batch * most, dtype=torch.int32).reshape(batch, most)
        k, v = (torch.zeros(rows, dim, dtype=torch.bfloat16) for _ in range(2))
        return cls(k, v, table, torch.zeros(batch, dtype=torch.int32))

    def decode(self, q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """One step: append key and value [batch, dim], then attend with q [batch * heads, dim]."""
        append(key, value, self.table, self.lengths, self.k, self.v)
        self.lengths += 1
        return paged_attention(q, self.k, self.v, self.table, self.lengths, torch.empty(q.shape))
