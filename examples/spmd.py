"""Launches of n blocks of one kernel: each asks for its index."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

ROWS = 16


@pypto.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a + b, [16 n, C]: one launch of n blocks, a block does 16 rows."""
    rows, cols = a.shape
    with pl.spmd(rows // ROWS, name_hint="add"):
        i = pl.get_block_idx() * ROWS
        pl.store(pl.load(a, [i, 0], [ROWS, cols]) + pl.load(b, [i, 0], [ROWS, cols]), [i, 0], out)
    return out


@pypto.jit
def polynomial(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """((x + 1) x + 1) x + 1, [16 n, C], in three launches: each reads what the one before wrote."""
    rows, cols = x.shape
    first, second = (pl.create_tensor([rows, cols], dtype=pl.FP32) for _ in range(2))
    for source, target in ((None, first), (first, second), (second, out)):
        for block in pl.spmd(rows // ROWS, name_hint="step"):
            i = block * ROWS
            t = pl.load(x, [i, 0], [ROWS, cols])
            if source is not None:
                t = t * pl.load(source, [i, 0], [ROWS, cols])
            pl.store(t + 1.0, [i, 0], target)
    return out


@pypto.jit
def linear(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x @ w + bias, [16 n, K] @ [K, N] + [16 n, N]: one launch whose blocks work on the cube and the vector core."""
    rows, depth = x.shape
    cols = w.shape[1]
    with pl.spmd(rows // ROWS, name_hint="linear"):
        i = pl.get_block_idx() * ROWS
        left = pl.load(x, [i, 0], [ROWS, depth], target_memory=pl.Mem.Mat)
        right = pl.load(w, [0, 0], [depth, cols], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(left, right) + pl.load(bias, [i, 0], [ROWS, cols]), [i, 0], out)
    return out


@pypto.jit
def strided(x: pl.Tensor, blocks: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """2 x, [M, C], with as many blocks as the caller says: block b does rows b, b + blocks, b + 2 blocks, ..."""
    rows, cols = x.shape
    with pl.spmd(blocks, name_hint="strided"):
        for i in pl.range(pl.get_block_idx(), rows, pl.get_block_num()):
            pl.store(pl.load(x, [i, 0], [1, cols]) * 2.0, [i, 0], out)
    return out
