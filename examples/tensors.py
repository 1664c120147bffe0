"""Tensor-level kernels: what is computed, from whole tensors; the compiler tiles, fuses and places it."""

from __future__ import annotations

import math

import pypto_jit as pypto
import pypto_jit.language as pl

EPSILON = 1e-5


@pypto.jit
def matmul_bias(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor):
    """a @ b + bias for a ``[M, K]``, b ``[K, N]``, bias ``[N]`` or ``[M, N]``."""
    return a @ b + bias


@pypto.jit
def linear_relu(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor):
    """relu(x @ w + b) for x ``[M, K]``, w ``[K, N]``, b ``[N]``."""
    return pl.relu(x @ w + b)


@pypto.jit
def linear_gelu(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """gelu(x @ w + b) for x ``[M, K]``, w ``[K, N]``, b ``[N]``: one product with what follows it."""
    out[:] = pl.gelu(x @ w + b)
    return out


@pypto.jit
def softmax(x: pl.Tensor):
    """Of each row of ``[..., N]``."""
    return pl.softmax(x)


@pypto.jit
def rms_norm(x: pl.Tensor, weight: pl.Tensor):
    """x / sqrt(mean(x * x) + epsilon) * weight along the rows of ``[..., N]``, written out."""
    return x * pl.rsqrt(pl.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight


@pypto.jit
def layer_norm(x: pl.Tensor, weight: pl.Tensor, bias: pl.Tensor):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias along the rows of ``[..., N]``, written out."""
    centred = x - pl.mean(x, axis=-1, keepdims=True)
    variance = pl.mean(centred * centred, axis=-1, keepdims=True)
    return centred / pl.sqrt(variance + EPSILON) * weight + bias


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


@pypto.jit
def half_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor):
    """softmax(q @ k.T / sqrt(D)) @ v for q ``[M, D]``, k and v ``[N, D]`` in FP16, the result in FP32.

    Scores and their softmax are FP32; the weights are rounded to FP16 for the second product.
    """
    scores = pl.matmul(q, k, b_trans=True, out_dtype=pl.FP32) * (1 / math.sqrt(q.shape[-1]))
    return pl.matmul(pl.cast(pl.softmax(scores), pl.FP16), v, out_dtype=pl.FP32)
