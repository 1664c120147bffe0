"""Writing a tile into a part of a larger one: `pl.assemble(target, source, offset)` gives a target with a new part."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

ROWS, COLS = 8, 8


@pypto.jit
def replace_by_product(x: pl.Tensor, a: pl.Tensor, b: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """y @ w, where y is x [M, H] with its last columns replaced by a @ b, all FP16: L0C is rounded straight into L1."""
    rows, cols = x.shape
    left = pl.load(a, [0, 0], a.shape, target_memory=pl.Mem.Mat)
    right = pl.load(b, [0, 0], b.shape, target_memory=pl.Mem.Mat)
    target = pl.load(x, [0, 0], [rows, cols], target_memory=pl.Mem.Mat)
    target = pl.assemble(target, pl.matmul(left, right), [0, cols - b.shape[1]])
    pl.store(pl.matmul(target, pl.load(w, [0, 0], w.shape, target_memory=pl.Mem.Mat)), [0, 0], out)
    return out


@pypto.jit
def replace_columns(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x [M, N] with its last columns replaced by y [M, K]."""
    rows, cols = x.shape
    target = pl.load(x, [0, 0], [rows, cols])
    target = pl.assemble(target, pl.load(y, [0, 0], [rows, y.shape[1]]), [0, cols - y.shape[1]])
    pl.store(target, [0, 0], out)
    return out


@pypto.jit
def replace_by_rows(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same, eight rows of y at a time: the loop carries the target."""
    rows, cols = x.shape
    width = y.shape[1]
    target = pl.load(x, [0, 0], [rows, cols])
    for i in pl.range(0, rows, ROWS):
        target = pl.assemble(target, pl.load(y, [i, 0], [ROWS, width]), [i, cols - width])
    pl.store(target, [0, 0], out)
    return out


@pypto.jit
def replace_by_blocks(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same, in blocks of 8x8: two loops carry the target."""
    rows, cols = x.shape
    width = y.shape[1]
    target = pl.load(x, [0, 0], [rows, cols])
    for i in pl.range(0, rows, ROWS):
        for j in pl.range(0, width, COLS):
            target = pl.assemble(target, pl.load(y, [i, j], [ROWS, COLS]), [i, cols - width + j])
    pl.store(target, [0, 0], out)
    return out


@pypto.jit
def repeat_columns(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x [M, N] overwritten by copies of y [M, 8] side by side."""
    rows, cols = x.shape
    target, source = pl.load(x, [0, 0], [rows, cols]), pl.load(y, [0, 0], [rows, COLS])
    for j in pl.range(0, cols, COLS):
        target = pl.assemble(target, source, [0, j])
    pl.store(target, [0, 0], out)
    return out


@pypto.jit
def repeat_blocks(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x [M, N] overwritten by copies of y [8, 8] in rows and columns."""
    rows, cols = x.shape
    target, source = pl.load(x, [0, 0], [rows, cols]), pl.load(y, [0, 0], [ROWS, COLS])
    for i in pl.range(0, rows, ROWS):
        for j in pl.range(0, cols, COLS):
            target = pl.assemble(target, source, [i, j])
    pl.store(target, [0, 0], out)
    return out
