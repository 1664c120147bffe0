"""One layer that needs both cores: a @ b + bias with a whole matrix of biases, in FP16 with an FP32 result."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


def product(a: pl.Tensor, b: pl.Tensor) -> pl.Tile:
    """a @ b in the accumulator, [M, K] @ [K, N]."""
    left = pl.load(a, [0, 0], a.shape, target_memory=pl.Mem.Mat)
    return pl.matmul(left, pl.load(b, [0, 0], b.shape, target_memory=pl.Mem.Mat))


@pypto.jit
def staged(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Two tasks, one for each core: the product goes through a tensor in global memory."""
    scratch = pl.create_tensor(out.shape, dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="product"):
        pl.store(product(a, b), [0, 0], scratch)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="bias"):
        pl.store(pl.load(scratch, [0, 0], out.shape) + pl.load(bias, [0, 0], out.shape), [0, 0], out)
    return out


@pypto.jit
def together(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One task: the compiler splits it between the cores, and finds the place where they hand over."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="linear"):
        pl.store(product(a, b) + pl.load(bias, [0, 0], out.shape), [0, 0], out)
    return out
