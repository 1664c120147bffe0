"""Attention for one head with an online softmax: one pass over blocks of keys and values."""

from __future__ import annotations

import math

import pypto_jit as pypto
import pypto_jit.language as pl

QUERIES, KEYS = 64, 128


def block(query, k, v, j):
    """Scores of one block of queries against keys j.., and the values that go with them."""
    keys, dim = k.shape
    n = pl.min(KEYS, keys - j)
    key = pl.load(k, [j, 0], [KEYS, dim], valid_shape=[n, dim], target_memory=pl.Mem.Mat)
    value = pl.load(v, [j, 0], [KEYS, dim], valid_shape=[n, dim], target_memory=pl.Mem.Mat)
    return pl.matmul(query, pl.transpose_view(key)) * (1 / math.sqrt(dim)), value


@pypto.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """softmax(q @ k.T / sqrt(dim)) @ v."""
    rows, dim = q.shape
    for i in pl.parallel(0, rows, QUERIES):
        m = pl.min(QUERIES, rows - i)
        query = pl.load(q, [i, 0], [QUERIES, dim], valid_shape=[m, dim], target_memory=pl.Mem.Mat)
        scores, value = block(query, k, v, 0)
        largest = pl.row_max(scores)
        weights = pl.exp(pl.row_expand_sub(scores, largest))
        total = pl.row_sum(weights)
        acc = pl.matmul(weights, value) * 1.0
        for j in pl.range(KEYS, k.shape[0], KEYS):
            scores, value = block(query, k, v, j)
            new_largest = pl.maximum(largest, pl.row_max(scores))
            weights = pl.exp(pl.row_expand_sub(scores, new_largest))
            rescale = pl.exp(largest - new_largest)
            total = total * rescale + pl.row_sum(weights)
            acc = pl.row_expand_mul(acc, rescale) + pl.matmul(weights, value)
            largest = new_largest
        pl.store(pl.row_expand_div(acc, total), [i, 0], out)
    return out
