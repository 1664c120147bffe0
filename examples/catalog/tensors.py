"""Whole tensors: what is computed; the compiler tiles, fuses and places it."""

from __future__ import annotations

import torch
from torch.nn import functional

from examples import feed_forward, tensors
from examples.catalog.example import F16, F32, Example, both, normal, sum_error, weights

_WIDE = (1000, 768)
_SQUARE = (64, 64)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


EXAMPLES: tuple[Example, ...] = (
    Example(
        "matmul_bias of tensors",
        tensors.matmul_bias,
        normal(_SQUARE, _SQUARE, _SQUARE),
        lambda a, b, bias: a @ b + bias,
        (_SQUARE, F32),
        sum_error(65),
        returns=True,
    ),
    Example(
        "linear_relu of tensors",
        tensors.linear_relu,
        normal(_SQUARE, _SQUARE, (64,)),
        lambda x, w, b: torch.relu(x @ w + b),
        (_SQUARE, F32),
        sum_error(65),
        returns=True,
    ),
    Example(
        "linear + gelu of tensors",
        tensors.linear_gelu,
        normal((200, 300), (300, 500), (500,)),
        lambda x, w, b: functional.gelu(x @ w + b),
        ((200, 500), F32),
        1e-4,
    ),
    Example(
        "softmax of tensors",
        tensors.softmax,
        normal(_SQUARE),
        lambda x: torch.softmax(x, -1),
        (_SQUARE, F32),
        # Relative to values below 1: 64 roundings of the sum, and of exp, whose argument of up to 8 is rounded.
        80 * 2.0**-24,
        returns=True,
    ),
    Example(
        "rms_norm of tensors",
        tensors.rms_norm,
        normal((32, 64), (64,)),
        lambda x, w: functional.rms_norm(x, w.shape, w, tensors.EPSILON),
        ((32, 64), F32),
        # Relative to values of up to 4 * 4: half of the 64 roundings of the sum, those of the root and of products.
        16 * 40 * 2.0**-24,
        returns=True,
    ),
    Example(
        "layer_norm of tensors",
        tensors.layer_norm,
        normal((32, 64), (64,), (64,)),
        lambda x, w, b: functional.layer_norm(x, w.shape, w, b, tensors.EPSILON),
        ((32, 64), F32),
        # As rms_norm, and the roundings of the mean are once more as many.
        16 * 110 * 2.0**-24,
        returns=True,
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
        "attention fp16 of tensors",
        tensors.half_attention,
        normal((64, 128), (1024, 128), (1024, 128), dtype=F16),
        _attention,
        ((64, 128), F32),
        # Weights, which sum to 1, are rounded by 2^-12 of themselves or 2^-25, and multiply values of up to 4.5;
        # the rest is FP32.
        4.5 * (2.0**-12 + 1024 * 2.0**-25),
        returns=True,
    ),
    Example(
        "gelu feed forward of tensors",
        feed_forward.gelu,
        both(normal(_SQUARE), weights(_SQUARE, _SQUARE)),
        lambda x, up, down: functional.gelu(x @ up) @ down,
        (_SQUARE, F32),
        # The second product sums errors of the first one with weights of 1/8.
        sum_error(64, 1 / 8) * (64 / 8 + 1),
        returns=True,
    ),
    Example(
        "relu feed forward of tensors",
        feed_forward.relu,
        both(normal(_SQUARE), weights(_SQUARE, _SQUARE)),
        lambda x, up, down: torch.relu(x @ up) @ down,
        (_SQUARE, F32),
        sum_error(64, 1 / 8) * (64 / 8 + 1),
        returns=True,
    ),
    Example(
        "swiglu feed forward of tensors",
        feed_forward.swiglu,
        both(normal(_SQUARE), weights(_SQUARE, _SQUARE, _SQUARE)),
        lambda x, gate, up, down: (functional.silu(x @ gate) * (x @ up)) @ down,
        (_SQUARE, F32),
        # The two factors' errors, each times a value of up to 4.5.
        sum_error(64, 1 / 8) * (2 * 4.5 * 64 / 8 + 1),
    ),
    Example(
        "feed forward of tensors",
        feed_forward.swiglu,
        normal((100, 128), (128, 256), (128, 256), (256, 128)),
        lambda x, gate, up, down: (functional.silu(x @ gate) * (x @ up)) @ down,
        ((100, 128), F32),
        2e-2,  # sums of 256 products of about 100
    ),
)
