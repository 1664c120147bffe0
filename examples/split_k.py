"""A product with few rows and columns and many terms: blocks share the sum, and each adds its part to the result."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

SLICES = 4


@pypto.jit
def matmul_split_k(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b, ``[M, 4 K] @ [4 K, N]``: four blocks, each with a quarter of the sum.

    Of FP32, FP16 or BF16 into any of these, and of INT8 into INT32. Each addition rounds to the dtype of ``out``; their
    order is any. BF16 is added on ``a2a3`` only.
    """
    depth = a.shape[1] // SLICES
    out[:] = 0
    with pl.spmd(SLICES, name_hint="slice"):
        k = pl.get_block_idx() * depth
        left = pl.load(a, [0, k], [a.shape[0], depth], target_memory=pl.Mem.Mat)
        right = pl.load(b, [k, 0], [depth, b.shape[1]], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(left, right), [0, 0], out, atomic=pl.AtomicType.Add)
    return out
