"""Element-by-element kernels: the tile is as many whole rows as fit the on-chip buffers."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

# Elements of one tile. Four FP32 tiles of this size fit the 184 KiB of an a2a3 unified buffer, and the caches of a CPU.
TILE = 8192


def rows_per_tile(rows: int, cols: int) -> int:
    """How many rows of `cols` elements make one tile. Plain Python: it runs while the kernel is traced."""
    return max(1, min(rows, TILE // cols))


@pypto.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a + b."""
    rows, cols = a.shape
    block = rows_per_tile(rows, cols)
    for i in pl.parallel(0, rows, block):
        valid = [pl.min(block, rows - i), cols]
        x = pl.load(a, [i, 0], [block, cols], valid_shape=valid)
        y = pl.load(b, [i, 0], [block, cols], valid_shape=valid)
        pl.store(x + y, [i, 0], out)
    return out


@pypto.jit
def add_scale_relu(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """relu((a + b) * 2)."""
    rows, cols = a.shape
    block = rows_per_tile(rows, cols)
    for i in pl.parallel(0, rows, block):
        valid = [pl.min(block, rows - i), cols]
        x = pl.load(a, [i, 0], [block, cols], valid_shape=valid)
        y = pl.load(b, [i, 0], [block, cols], valid_shape=valid)
        pl.store(pl.relu((x + y) * 2.0), [i, 0], out)
    return out


def activation(function):
    """A kernel that applies a tile function to each element: a closure over Python code just runs."""

    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, cols = x.shape
        block = rows_per_tile(rows, cols)
        for i in pl.parallel(0, rows, block):
            tile = pl.load(x, [i, 0], [block, cols], valid_shape=[pl.min(block, rows - i), cols])
            pl.store(function(tile), [i, 0], out)
        return out

    return kernel


def sigmoid_gelu(x: pl.Tile) -> pl.Tile:
    """x * sigmoid(1.702 x), the cheap approximation of gelu. A helper: plain Python, traced into its caller."""
    return x * pl.recip(pl.exp(x * -1.702) + 1.0)


silu = activation(pl.silu)
gelu = activation(pl.gelu)
fast_gelu = activation(sigmoid_gelu)


def gated(function):
    """A kernel for function(gate) * up."""

    @pypto.jit
    def kernel(gate: pl.Tensor, up: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, cols = gate.shape
        block = rows_per_tile(rows, cols)
        for i in pl.parallel(0, rows, block):
            valid = [pl.min(block, rows - i), cols]
            g = pl.load(gate, [i, 0], [block, cols], valid_shape=valid)
            u = pl.load(up, [i, 0], [block, cols], valid_shape=valid)
            pl.store(function(g) * u, [i, 0], out)
        return out

    return kernel


swiglu = gated(pl.silu)
geglu = gated(sigmoid_gelu)


@pypto.jit
def concat(left: pl.Tensor, right: pl.Tensor, out: pl.Out[pl.Tensor]):
    """[left | right]: columns side by side, [M, A] and [M, B] to [M, A + B]."""
    rows = left.shape[0]
    a = pl.load(left, [0, 0], [rows, left.shape[1]])
    b = pl.load(right, [0, 0], [rows, right.shape[1]])
    pl.store(pl.concat(a, b), [0, 0], out)
    return out
