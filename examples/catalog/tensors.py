"""Whole tensors: what is computed; the compiler tiles, fuses and places it."""

from __future__ import annotations

from torch.nn import functional

from examples import llama, tensors
from examples.catalog.example import F32, Example, normal

_WIDE = (1000, 768)

EXAMPLES: tuple[Example, ...] = (
    Example(
        "linear + gelu of tensors",
        tensors.linear_gelu,
        normal((200, 300), (300, 500), (500,)),
        lambda x, w, b: functional.gelu(x @ w + b),
        ((200, 500), F32),
        1e-4,
    ),
    Example(
        "feed forward of tensors",
        tensors.feed_forward,
        normal((100, 128), (128, 256), (128, 256), (256, 128)),
        lambda x, gate, up, down: (functional.silu(x @ gate) * (x @ up)) @ down,
        ((100, 128), F32),
        2e-2,  # sums of 256 products of about 100
    ),
    Example(
        "residual + rms_norm of tensors",
        tensors.residual_norm,
        normal(_WIDE, _WIDE, (768,)),
        lambda x, y, w: functional.rms_norm(x + y, w.shape, w, 1e-6),
        (_WIDE, F32),
        1e-5,
    ),
    Example(
        "attention of tensors",
        tensors.scaled_attention,
        normal((4, 100, 64), (4, 120, 64), (4, 120, 64)),
        lambda q, k, v: functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
        ((4, 100, 64), F32),
        1e-5,
    ),
    Example(
        "llama decoder layer of tensors",
        llama.decoder_layer,
        llama.inputs,
        llama.in_torch,
        ((16, 64), F32),
        1e-5,
    ),
)
