"""Kernels that reduce along rows: softmax and the norms. A row has to fit a tile; the last rows may be ragged."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl
from examples.elementwise import rows_per_tile

EPSILON = 1e-5


@pypto.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Softmax of each row."""
    rows, cols = x.shape
    block = rows_per_tile(rows, cols)
    for i in pl.parallel(0, rows, block):
        t = pl.load(x, [i, 0], [block, cols], valid_shape=[pl.min(block, rows - i), cols])
        t = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
        pl.store(pl.row_expand_div(t, pl.row_sum(t)), [i, 0], out)
    return out


@pypto.jit
def rms_norm(x: pl.Tensor, gamma: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x / sqrt(mean(x * x) + epsilon) * gamma, row by row."""
    rows, cols = x.shape
    block = rows_per_tile(rows, cols)
    weight = pl.load(gamma, [0, 0], [1, cols])
    for i in pl.parallel(0, rows, block):
        t = pl.load(x, [i, 0], [block, cols], valid_shape=[pl.min(block, rows - i), cols])
        scale = pl.rsqrt(pl.row_sum(t * t) * (1.0 / cols) + EPSILON)
        pl.store(pl.col_expand_mul(pl.row_expand_mul(t, scale), weight), [i, 0], out)
    return out


@pypto.jit
def layer_norm(x: pl.Tensor, gamma: pl.Tensor, beta: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, row by row."""
    rows, cols = x.shape
    block = rows_per_tile(rows, cols)
    weight = pl.load(gamma, [0, 0], [1, cols])
    bias = pl.load(beta, [0, 0], [1, cols])
    for i in pl.parallel(0, rows, block):
        t = pl.load(x, [i, 0], [block, cols], valid_shape=[pl.min(block, rows - i), cols])
        centred = pl.row_expand_sub(t, pl.row_sum(t) * (1.0 / cols))
        scale = pl.rsqrt(pl.row_sum(centred * centred) * (1.0 / cols) + EPSILON)
        normal = pl.row_expand_mul(centred, scale)
        pl.store(pl.col_expand_add(pl.col_expand_mul(normal, weight), bias), [i, 0], out)
    return out
