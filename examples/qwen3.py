"""A decoder layer of the Qwen3 family that adds one token to each sequence of a batch, on whole tensors in BF16."""

from __future__ import annotations

import math

import torch

import pypto_jit as pypto
import pypto_jit.language as pl

EPSILON = 1e-6


def rotated(x, cos, sin):
    """x ``[B, H, D]`` with each pair (k, k + D / 2) turned by the angle of its sequence's position."""
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return pl.concat(left * cos - right * sin, right * cos + left * sin, axis=-1)


def after_attention(attention, x, wo, norm, gate, up, down):
    """From what attention gives, ``[B, heads * D]``, to the layer's result: projection, SwiGLU network, residuals.

    Products are rounded to BF16 as they go to memory; the residual stream stays FP32 in between.
    """
    attended = pl.matmul(attention, wo, out_dtype=pl.FP32) + x
    normed = pl.cast(pl.rms_norm(attended, norm, EPSILON), pl.BF16)
    gated = pl.silu(pl.matmul(normed, gate, out_dtype=pl.FP32)) * pl.matmul(normed, up, out_dtype=pl.FP32)
    return pl.cast(pl.matmul(pl.cast(gated, pl.BF16), down, out_dtype=pl.FP32) + attended, pl.BF16)


@pypto.jit
def scope3(
    attention: pl.Tensor,
    x: pl.Tensor,
    wo: pl.Tensor,
    norm: pl.Tensor,
    gate: pl.Tensor,
    up: pl.Tensor,
    down: pl.Tensor,
):
    """What follows attention. In BF16: attention and x ``[B, W]``, wo ``[W, W]``, gate and up ``[W, H]``, down
    ``[H, W]``; norm ``[W]`` in FP32."""
    return after_attention(attention, x, wo, norm, gate, up, down)


@pypto.jit
def decode(
    x: pl.Tensor,
    norm_1: pl.Tensor,
    wq: pl.Tensor,
    wk: pl.Tensor,
    wv: pl.Tensor,
    cos: pl.Tensor,
    sin: pl.Tensor,
    positions: pl.Tensor,
    mask: pl.Tensor,
    keys: pl.InOut[pl.Tensor],
    values: pl.InOut[pl.Tensor],
    wo: pl.Tensor,
    norm_2: pl.Tensor,
    gate: pl.Tensor,
    up: pl.Tensor,
    down: pl.Tensor,
):
    """The layer's result for x ``[B, W]``, one token of each sequence, whose keys and values join the caches.

    Args:
        x: in BF16, as all weights.
        norm_1, norm_2: weights of the norms, ``[W]`` in FP32.
        wq: ``[W, heads * D]``.
        wk, wv: ``[W, groups * D]``.
        cos, sin: of each sequence's position, ``[B, D / 2]`` in FP32.
        positions: where each token goes in the caches, ``[B]`` in INT32.
        mask: added to the scores, ``[B, L]`` in FP32: -inf from behind each sequence's token.
        keys, values: the caches, ``[B, groups, L, D]`` in BF16.
        wo: ``[heads * D, W]``.
        gate, up: ``[W, H]``.
        down: ``[H, W]``.
    """
    batch, groups, _, size = keys.shape
    head_count = wq.shape[1] // size
    angles = cos[:, None], sin[:, None]
    normed = pl.cast(pl.rms_norm(x, norm_1, EPSILON), pl.BF16)
    q = rotated(pl.reshape(pl.matmul(normed, wq, out_dtype=pl.FP32), [batch, head_count, size]), *angles)
    k = rotated(pl.reshape(pl.matmul(normed, wk, out_dtype=pl.FP32), [batch, groups, size]), *angles)
    v = pl.reshape(normed @ wv, [batch, groups, size])
    for b in pl.range(batch):
        place = pl.read(positions, [b])
        keys[b, :, place, :] = k[b]
        values[b, :, place, :] = v[b]
    queries = pl.cast(pl.reshape(q, [batch, groups, head_count // groups, size]), pl.BF16)
    scores = pl.matmul(queries, keys, b_trans=True, out_dtype=pl.FP32) * (1 / math.sqrt(size))
    weights = pl.softmax(scores + mask[:, None, None])
    mixed = pl.reshape(pl.cast(weights, pl.BF16) @ values, [batch, head_count * size])
    return after_attention(mixed, x, wo, norm_2, gate, up, down)


def scope3_in_torch(attention, x, wo, norm, gate, up, down):
    """The same with torch's operators, in the dtype of x."""
    functional = torch.nn.functional
    attended = attention @ wo + x
    normed = functional.rms_norm(attended, norm.shape, norm.to(x.dtype), EPSILON)
    return (functional.silu(normed @ gate) * (normed @ up)) @ down + attended


def decode_in_torch(x, norm_1, wq, wk, wv, cos, sin, positions, mask, keys, values, wo, norm_2, gate, up, down):
    """The same with torch's operators, in the dtype of x; the caches are copied."""
    functional = torch.nn.functional
    batch, groups, _, size = keys.shape

    def turned(t):
        left, right = t.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat([left * c - right * s, right * c + left * s], -1).to(t.dtype)

    normed = functional.rms_norm(x, norm_1.shape, norm_1.to(x.dtype), EPSILON)
    q, k, v = ((normed @ w).view(batch, -1, size) for w in (wq, wk, wv))
    everywhere = torch.arange(batch), slice(None), positions.long()
    keys, values = keys.clone(), values.clone()
    keys[everywhere], values[everywhere] = turned(k), v
    queries = turned(q).unflatten(1, (groups, -1))
    mixed = functional.scaled_dot_product_attention(queries, keys, values, mask[:, None, None, :].to(x.dtype))
    return scope3_in_torch(mixed.flatten(1), x, wo, norm_2, gate, up, down)


def scope3_inputs(generator: torch.Generator, batch: int, width: int, hidden: int) -> tuple[torch.Tensor, ...]:
    """Arguments of `scope3`, with random weights that keep the size of what they multiply."""
    shapes = ((width, width), (width, hidden), (width, hidden), (hidden, width))
    attention, x = (torch.randn(batch, width, generator=generator).bfloat16() for _ in range(2))
    wo, gate, up, down = ((torch.randn(s, generator=generator) / math.sqrt(s[0])).bfloat16() for s in shapes)
    return attention, x, wo, 1 + torch.randn(width, generator=generator) / 8, gate, up, down


def decode_inputs(
    generator: torch.Generator, batch: int, width: int, hidden: int, groups: int, size: int, length: int
) -> tuple[torch.Tensor, ...]:
    """Arguments of `decode`, with sequences of random lengths in caches of ``length``."""
    _, x, wo, norm_2, gate, up, down = scope3_inputs(generator, batch, width, hidden)
    norm_1 = 1 + torch.randn(width, generator=generator) / 8
    columns = (width, groups * size, groups * size)
    wq, wk, wv = ((torch.randn(width, c, generator=generator) / math.sqrt(width)).bfloat16() for c in columns)
    positions = torch.randint(0, length, (batch,), generator=generator, dtype=torch.int32)
    phases = torch.outer(positions, 1e6 ** (-torch.arange(0, size, 2) / size))
    mask = torch.where(torch.arange(length) > positions[:, None], -math.inf, 0.0)
    keys, values = (torch.randn(batch, groups, length, size, generator=generator).bfloat16() for _ in range(2))
    caches = (keys, values)
    return (x, norm_1, wq, wk, wv, phases.cos(), phases.sin(), positions, mask, *caches, wo, norm_2, gate, up, down)
