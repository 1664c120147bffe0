"""Small kernels that tests call in many ways; a function traced through them tells how often it was."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

ROWS = 4


def box(x: pl.Tensor, i):
    """Shape and valid shape of the i-th block of rows."""
    rows, cols = x.shape
    return [ROWS, cols], [pl.min(ROWS, rows - i), cols]


def block(x: pl.Tensor, i):
    """The i-th block of rows."""
    shape, valid = box(x, i)
    return pl.load(x, [i, 0], shape, valid_shape=valid)


@pypto.jit
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.constexpr = 2.0):
    """factor * x."""
    for i in pl.parallel(0, x.shape[0], ROWS):
        pl.store(block(x, i) * factor, [i, 0], out)
    return out


@pypto.jit
def add(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x + y."""
    for i in pl.parallel(0, x.shape[0], ROWS):
        pl.store(block(x, i) + block(y, i), [i, 0], out)
    return out


@pypto.jit
def shift(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Row i of the result is row i + 1 of x; the last row is the first."""
    rows, cols = x.shape
    for i in pl.range(0, rows - 1):
        pl.store(pl.load(x, [i + 1, 0], [1, cols]), [i, 0], out)
    pl.store(pl.load(x, [0, 0], [1, cols]), [rows - 1, 0], out)
    return out


@pypto.jit
def transpose(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The transpose of a square matrix."""
    rows, cols = x.shape
    pl.store(pl.transpose(pl.load(x, [0, 0], [rows, cols])), [0, 0], out)
    return out


@pypto.jit
def both(x: pl.Tensor, low: pl.Out[pl.Tensor], high: pl.Out[pl.Tensor]):
    """min(x, 0) and max(x, 0)."""
    for i in pl.parallel(0, x.shape[0], ROWS):
        t = block(x, i)
        pl.store(pl.minimum(t, 0.0), [i, 0], low)
        pl.store(pl.maximum(t, 0.0), [i, 0], high)
    return high, low


@pypto.jit
def accumulate(x: pl.Tensor, total: pl.InOut[pl.Tensor]):
    """total += x."""
    for i in pl.parallel(0, x.shape[0], ROWS):
        pl.store(block(total, i) + block(x, i), [i, 0], total)
    return total
