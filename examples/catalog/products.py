"""Matrix products of tiles, of several dtypes."""

from __future__ import annotations

import torch

from examples import matmul
from examples.catalog.example import BF16, F16, F32, I32, Example, integers, normal

EXAMPLES: tuple[Example, ...] = (
    Example("matmul fp32", matmul.matmul, normal((300, 200), (200, 500)), torch.matmul, ((300, 500), F32), 1e-4),
    Example(
        "matmul fp16",
        matmul.matmul,
        normal((300, 200), (200, 500), dtype=F16),
        torch.matmul,
        ((300, 500), F32),
        1e-4,
    ),
    Example(
        "matmul bf16",
        matmul.matmul,
        normal((300, 200), (200, 500), dtype=BF16),
        torch.matmul,
        ((300, 500), BF16),
        0.3,  # the result is rounded to bfloat16: half an ulp of values up to 64
    ),
    Example("matmul int8", matmul.matmul, integers((300, 200), (200, 500)), torch.matmul, ((300, 500), I32), 0.0),
    Example(
        "linear_relu",
        matmul.linear_relu,
        normal((300, 200), (200, 500), (1, 500)),
        lambda x, w, b: torch.relu(x @ w + b),
        ((300, 500), F32),
        1e-4,
    ),
    Example(
        "matmul_bias",
        matmul.matmul_bias,
        normal((64, 64), (64, 64), (1, 64)),
        lambda a, b, bias: a @ b + bias,
        ((64, 64), F32),
        1e-4,
    ),
)
