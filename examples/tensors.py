"""Tensor-level kernels: what is computed, from whole tensors; the compiler tiles, fuses and places it."""

from __future__ import annotations

import math

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def linear_gelu(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """gelu(x @ w + b) for x ``[M, K]``, w ``[K, N]``, b ``[N]``: one product with what follows it."""
    out[:] = pl.gelu(x @ w + b)
    return out


@pypto.jit
def feed_forward(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(silu(x @ gate) * (x @ up)) @ down, the SwiGLU network: x ``[M, D]``, gate and up ``[D, H]``, down ``[H, D]``."""
    out[:] = (pl.silu(x @ gate) * (x @ up)) @ down
    return out


@pypto.jit
def residual_norm(x: pl.Tensor, y: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor]):
    """rms_norm(x + y) * weight along the last axis, in one pass over the rows of ``[..., N]``."""
    out[:] = pl.rms_norm(x + y, weight, 1e-6)
    return out


@pypto.jit
def scaled_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """softmax(q @ k.T / sqrt(D)) @ v for q ``[H, M, D]``, k and v ``[H, N, D]``."""
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * (1 / math.sqrt(q.shape[-1]))) @ v
    return out
