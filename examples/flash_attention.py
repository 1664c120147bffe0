"""Flash attention over blocks of keys with the state of the online softmax carried in the loop."""

from __future__ import annotations

import math

import pypto_jit as pypto
import pypto_jit.language as pl

BLOCK = 64


@pypto.jit
def flash_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """softmax(q @ k.T / sqrt(dim)) @ v: q [Q, dim], k and v [blocks * 64, dim] in FP16, out [Q, dim] in FP32.

    The first block sets the state, later ones update it, and the last one divides by the sum.
    """
    rows, dim = q.shape
    blocks = k.shape[0] // BLOCK
    query = pl.load(q, [0, 0], [rows, dim], target_memory=pl.Mem.Mat)
    largest, total = pl.full([rows, 1], pl.FP32, 0.0), pl.full([rows, 1], pl.FP32, 0.0)
    result = pl.full([rows, dim], pl.FP32, 0.0)
    for i in pl.range(blocks):
        key = pl.load(k, [i * BLOCK, 0], [BLOCK, dim], target_memory=pl.Mem.Mat)
        value = pl.load(v, [i * BLOCK, 0], [BLOCK, dim], target_memory=pl.Mem.Mat)
        scores = pl.matmul(query, pl.transpose_view(key)) * (1 / math.sqrt(dim))
        if i == 0:
            largest = pl.row_max(scores)
            weights = pl.exp(pl.row_expand_sub(scores, largest))
            total = pl.row_sum(weights)
            result = pl.matmul(pl.cast(weights, pl.FP16), value) * 1.0
        else:
            above = pl.maximum(largest, pl.row_max(scores))
            weights = pl.exp(pl.row_expand_sub(scores, above))
            fade = pl.exp(largest - above)
            largest = above
            total = total * fade + pl.row_sum(weights)
            result = pl.row_expand_mul(result, fade) + pl.matmul(pl.cast(weights, pl.FP16), value)
            if i == blocks - 1:
                result = pl.row_expand_div(result, total)
    pl.store(result, [0, 0], out)
    return out


@pypto.jit
def flash_attention_spelled_out(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same with the carried values written out: the loop has initial values, and every arm yields the next ones."""
    rows, dim = q.shape
    blocks = k.shape[0] // BLOCK
    query = pl.load(q, [0, 0], [rows, dim], target_memory=pl.Mem.Mat)
    nothing = pl.full([rows, 1], pl.FP32, 0.0)
    state = (nothing, nothing, pl.full([rows, dim], pl.FP32, 0.0))
    for i, (largest, total, result) in pl.range(blocks, init_values=state):
        key = pl.load(k, [i * BLOCK, 0], [BLOCK, dim], target_memory=pl.Mem.Mat)
        value = pl.load(v, [i * BLOCK, 0], [BLOCK, dim], target_memory=pl.Mem.Mat)
        scores = pl.matmul(query, pl.transpose_view(key)) * (1 / math.sqrt(dim))
        if i == 0:
            above = pl.row_max(scores)
            weights = pl.exp(pl.row_expand_sub(scores, above))
            mixed = pl.matmul(pl.cast(weights, pl.FP16), value) * 1.0
            top, norm, mix = pl.yield_(above, pl.row_sum(weights), mixed)
        else:
            above = pl.maximum(largest, pl.row_max(scores))
            weights = pl.exp(pl.row_expand_sub(scores, above))
            fade = pl.exp(largest - above)
            sums = total * fade + pl.row_sum(weights)
            mixed = pl.row_expand_mul(result, fade) + pl.matmul(pl.cast(weights, pl.FP16), value)
            if i == blocks - 1:
                last = pl.yield_(pl.row_expand_div(mixed, sums))
            else:
                last = pl.yield_(mixed)
            top, norm, mix = pl.yield_(above, sums, last)
        largest, total, result = pl.yield_(top, norm, mix)
    pl.store(result, [0, 0], out)
    return out
