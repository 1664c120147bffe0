"""Products of whole tensors: the compiler chooses blocks of the result, and pieces of the sum that fit on chip."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def product(a: pl.Tensor, b: pl.Tensor):
    """a @ b, ``[..., M, K] @ [..., K, N]``, whose leading dimensions broadcast."""
    return a @ b


@pypto.jit
def wide_product(a: pl.Tensor, b: pl.Tensor):
    """a @ b of FP16 or BF16, as it is accumulated: in FP32."""
    return pl.matmul(a, b, out_dtype=pl.FP32)


@pypto.jit
def chained(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor):
    """a @ b @ c: the second product multiplies what the first one leaves, in its dtype."""
    return a @ b @ c


@pypto.jit
def product_transposed(a: pl.Tensor, b: pl.Tensor):
    """a @ b of transposed matrices b, ``[..., M, K] @ [..., N, K]``: the cube takes them as they lie."""
    return pl.matmul(a, b, b_trans=True)


@pypto.jit
def product_sliced(a: pl.Tensor, b: pl.Tensor):
    """a @ b with the first rows and the last columns of each matrix b, ``[B, M, K] @ [B, K + ., . + N]``."""
    depth, columns = a.shape[-1], b.shape[-1] // 2
    return a @ b[:, 0:depth, columns:]
