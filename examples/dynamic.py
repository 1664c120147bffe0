"""Kernels compiled once for every extent: dimensions named with `pl.dynamic`, tiles of a fixed size over them."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

M, N = pl.dynamic("M"), pl.dynamic("N")
ROWS, COLS = 64, 128


def boxes(rows, cols):
    """The tile at (i, j) of a [rows, cols] tensor: its valid shape, ragged at the edges."""
    return lambda i, j: [pl.min(ROWS, rows - i), pl.min(COLS, cols - j)]


@pypto.jit
def add(a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    """a + b, [M, N] of any extents; a call with unequal ones is refused."""
    rows, cols = a.shape
    valid = boxes(rows, cols)
    for i in pl.parallel(0, rows, ROWS):
        for j in pl.range(0, cols, COLS):
            x = pl.load(a, [i, j], [ROWS, COLS], valid_shape=valid(i, j))
            y = pl.load(b, [i, j], [ROWS, COLS], valid_shape=valid(i, j))
            pl.store(x + y, [i, j], out)
    return out


@pypto.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Softmax of each row of x [M, C]: only the number of rows is dynamic, so a row is one tile wide."""
    x.bind_dynamic(0, M)
    out.bind_dynamic(0, M)
    rows, cols = pl.dim(x, 0), x.shape[1]
    for i in pl.parallel(0, rows, ROWS):
        t = pl.load(x, [i, 0], [ROWS, cols], valid_shape=[pl.min(ROWS, rows - i), cols])
        weights = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
        pl.store(pl.row_expand_div(weights, pl.row_sum(weights)), [i, 0], out)
    return out


@pypto.jit
def transpose(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[N, M], pl.FP32]]):
    """x [M, N] to out [N, M], tile by tile."""
    rows, cols = x.shape
    valid = boxes(rows, cols)
    for i in pl.parallel(0, rows, ROWS):
        for j in pl.range(0, cols, COLS):
            t = pl.load(x, [i, j], [ROWS, COLS], valid_shape=valid(i, j))
            pl.store(pl.transpose(t), [j, i], out)
    return out


@pypto.jit
def sum_pairs(x: pl.Tensor[[M, COLS], pl.FP32], out: pl.Out[pl.Tensor[[M, COLS // 2], pl.FP32]]):
    """The sum of the two halves of each row of x [M, 128]: a row is seen as [2, 64], and its two rows are added."""
    for i in pl.parallel(x.shape[0]):
        halves = pl.reshape(pl.load(x, [i, 0], [1, COLS]), [2, COLS // 2])
        pl.store(pl.col_sum(halves), [i, 0], out)
    return out
