"""Attention on tiles."""

from __future__ import annotations

import torch
from torch.nn import functional

from examples import attention, flash_attention, paged_attention
from examples.catalog.example import F16, F32, Example, normal
from examples.pages import in_torch, paged


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


EXAMPLES: tuple[Example, ...] = (
    Example(
        "attention", attention.attention, normal((200, 64), (333, 64), (333, 64)), _attention, ((200, 64), F32), 1e-5
    ),
    Example(
        "flash attention fp16",
        flash_attention.flash_attention,
        normal((64, 128), (1024, 128), (1024, 128), dtype=F16),
        _attention,
        ((64, 128), F32),
        2e-3,  # the weights are rounded to FP16 for the second product
    ),
    Example(
        "paged attention",
        paged_attention.paged_attention_batched,
        lambda g: paged([300, 17, 512, 128], heads=16, dim=64, page=paged_attention.PAGE, seed=g.initial_seed()).inputs,
        lambda *inputs: in_torch(*inputs, page=paged_attention.PAGE),
        ((64, 64), F32),
        5e-3,  # the weights are rounded to BF16 for the second product
    ),
)
