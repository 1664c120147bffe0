"""The llama family on whole tensors, a decoder layer and a whole small model: one kernel function, many kernels."""

from __future__ import annotations

import math

import torch

import pypto_jit as pypto
import pypto_jit.language as pl

EPSILON = 1e-5


def heads(x, count):
    """``[S, count * D]`` as ``[count, S, D]``."""
    rows, width = x.shape
    return pl.transpose(pl.reshape(x, [rows, count, width // count]), 0, 1)


def rotated(x, cos, sin, out):
    """Write x ``[H, S, D]`` with each pair (k, k + D / 2) turned by its position's angle."""
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    out[..., :half] = left * cos - right * sin
    out[..., half:] = right * cos + left * sin
    return out


def layer(x, wq, wk, wv, wo, gate, up, down, norm_1, norm_2, cos, sin, head_count):
    """x ``[S, D]`` through causal attention and a SwiGLU network, each with norm and residual. Traced into a caller."""
    rows, width = x.shape
    size = width // head_count
    groups = wk.shape[1] // size
    normed = pl.rms_norm(x, norm_1, EPSILON)
    q = rotated(heads(normed @ wq, head_count), cos, sin, pl.create_tensor([head_count, rows, size], pl.FP32))
    k = rotated(heads(normed @ wk, groups), cos, sin, pl.create_tensor([groups, rows, size], pl.FP32))
    v = heads(normed @ wv, groups)
    # Queries that share keys and values stand in one more dimension, over which those broadcast.
    grouped = pl.reshape(q, [groups, head_count // groups, rows, size])
    keys = pl.reshape(k, [groups, 1, rows, size])
    scores = pl.matmul(grouped, keys, b_trans=True) * (1 / math.sqrt(size))
    # No position sees later ones: blocks of scores that no query sees are not computed.
    seen = pl.arange(0, rows) <= pl.arange(0, rows)[:, None]
    scores = pl.where(seen, scores, float("-inf"))
    values = pl.reshape(v, [groups, 1, rows, size])
    mixed = pl.reshape(pl.softmax(scores) @ values, [head_count, rows, size])
    attended = x + pl.reshape(pl.transpose(mixed, 0, 1), [rows, width]) @ wo
    normed = pl.rms_norm(attended, norm_2, EPSILON)
    return attended + (pl.silu(normed @ gate) * (normed @ up)) @ down


@pypto.jit
def decoder_layer(
    x: pl.Tensor,
    wq: pl.Tensor,
    wk: pl.Tensor,
    wv: pl.Tensor,
    wo: pl.Tensor,
    gate: pl.Tensor,
    up: pl.Tensor,
    down: pl.Tensor,
    norm_1: pl.Tensor,
    norm_2: pl.Tensor,
    cos: pl.Tensor,
    sin: pl.Tensor,
    out: pl.Out[pl.Tensor],
    head_count: pl.constexpr = 4,
):
    """One `layer`.

    Queries have ``head_count`` heads, keys and values as many as their weights are wide. ``cos`` and ``sin`` are
    ``[S, D / head_count / 2]``. A position sees itself and those before it.
    """
    out[:] = layer(x, wq, wk, wv, wo, gate, up, down, norm_1, norm_2, cos, sin, head_count)
    return out


@pypto.jit
def llama_mini(
    x: pl.Tensor,
    wq: pl.Tensor,
    wk: pl.Tensor,
    wv: pl.Tensor,
    wo: pl.Tensor,
    gate: pl.Tensor,
    up: pl.Tensor,
    down: pl.Tensor,
    norm_1: pl.Tensor,
    norm_2: pl.Tensor,
    cos: pl.Tensor,
    sin: pl.Tensor,
    norm: pl.Tensor,
    lm_head: pl.Tensor,
    head_count: pl.constexpr = 4,
):
    """Logits ``[S, V]`` of one `layer` and a head: embedded tokens x ``[S, D]``, norm ``[D]``, lm_head ``[D, V]``."""
    hidden = layer(x, wq, wk, wv, wo, gate, up, down, norm_1, norm_2, cos, sin, head_count)
    return pl.rms_norm(hidden, norm, EPSILON) @ lm_head


def angles(rows: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of rotary positions, each ``[rows, size / 2]``."""
    frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)
    phases = torch.outer(torch.arange(rows), frequencies)
    return phases.cos(), phases.sin()


def in_torch(x, wq, wk, wv, wo, gate, up, down, norm_1, norm_2, cos, sin, head_count=4):
    """The same layer with torch's operators."""
    functional = torch.nn.functional
    rows, width = x.shape
    size = width // head_count

    def turned(t):
        left, right = t.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    normed = functional.rms_norm(x, (width,), norm_1, EPSILON)
    q, k, v = ((normed @ w).view(rows, -1, size).transpose(0, 1) for w in (wq, wk, wv))
    groups = k.shape[0]
    k, v = (t.repeat_interleave(head_count // groups, 0) for t in (turned(k), v))
    mixed = functional.scaled_dot_product_attention(turned(q)[None], k[None], v[None], is_causal=True)[0]
    attended = x + mixed.transpose(0, 1).reshape(rows, width) @ wo
    normed = functional.rms_norm(attended, (width,), norm_2, EPSILON)
    return attended + (functional.silu(normed @ gate) * (normed @ up)) @ down


def mini_in_torch(x, *arguments):
    """What `llama_mini` computes, with torch's operators."""
    *of_layer, norm, lm_head = arguments
    return torch.nn.functional.rms_norm(in_torch(x, *of_layer), norm.shape, norm, EPSILON) @ lm_head


def inputs(generator: torch.Generator, rows: int = 16, width: int = 64, hidden: int = 172, groups: int = 2):
    """Arguments of the layer: random weights, positions."""
    size = width // 4

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) / math.sqrt(shape[0])

    weights = [random(width, width), random(width, groups * size), random(width, groups * size), random(width, width)]
    network = [random(width, hidden), random(width, hidden), random(hidden, width)]
    norms = [torch.ones(width), torch.ones(width)]
    x = torch.randn(rows, width, generator=generator)
    return (x, *weights, *network, *norms, *angles(rows, size))
