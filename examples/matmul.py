"""Matrix products through the cube core: global memory -> L1 (Mat) -> L0A, L0B (Left, Right) -> L0C (Acc)."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

# L0C holds M * N accumulators, L0A M * K and L0B K * N inputs; these fill the FP32 case on a2a3 (128, 64, 64 KiB).
M, N, K = 128, 256, 64


def product(a, b, i, j):
    """Rows i.., columns j.. of a @ b, accumulated over K in L0C. A helper: plain Python, traced into its caller."""
    rows, depth = a.shape
    cols = b.shape[1]
    m, n = pl.min(M, rows - i), pl.min(N, cols - j)

    def operands(p):
        k = pl.min(K, depth - p)
        left = pl.load(a, [i, p], [M, K], valid_shape=[m, k], target_memory=pl.Mem.Mat)
        right = pl.load(b, [p, j], [K, N], valid_shape=[k, n], target_memory=pl.Mem.Mat)
        return pl.move(left, pl.Mem.Left), pl.move(right, pl.Mem.Right)

    acc = pl.matmul(*operands(0))
    for p in pl.range(K, depth, K):
        acc = pl.matmul_acc(acc, *operands(p))
    return acc


@pypto.jit
def matmul(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b: FP32, FP16, BF16 (accumulated in FP32) or INT8 (in INT32)."""
    rows, cols = out.shape
    for i in pl.parallel(0, rows, M):
        for j in pl.range(0, cols, N):
            pl.store(product(a, b, i, j), [i, j], out)
    return out


@pypto.jit
def linear_relu(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """relu(x @ w + bias): a cube kernel and a vector kernel that hand over through global memory."""
    rows, cols = out.shape
    for i in pl.parallel(0, rows, M):
        for j in pl.range(0, cols, N):
            row = pl.load(bias, [0, j], [1, N], valid_shape=[1, pl.min(N, cols - j)])
            pl.store(pl.relu(pl.col_expand_add(product(x, w, i, j), row)), [i, j], out)
    return out


@pypto.jit
def matmul_bias(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b + bias, [M, K] @ [K, N] + [1, N]: the cube starts each accumulator from the bias."""
    rows, depth = a.shape
    cols = b.shape[1]
    left = pl.load(a, [0, 0], [rows, depth], target_memory=pl.Mem.Mat)
    right = pl.load(b, [0, 0], [depth, cols], target_memory=pl.Mem.Mat)
    start = pl.load(bias, [0, 0], [1, cols], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul_bias(left, right, start), [0, 0], out)
    return out
