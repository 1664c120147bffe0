"""Layers and models of transformers, on whole tensors."""

from __future__ import annotations

import torch

from examples import llama, qwen3
from examples.catalog.example import BF16, F32, Example
from examples.llama_in_torch import Model


def _mini(generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    with torch.random.fork_rng():
        torch.manual_seed(generator.initial_seed())
        return Model().arguments(torch.randint(0, 64, (16,)))


# Half an ulp of results below 8 is 2^-6. What is rounded before, five times by 2^-9 of values of about 1, enters them
# through sums with weights of both signs that keep its size: together less than as much again.
_BF16_LAYER = 2.0**-5

EXAMPLES: tuple[Example, ...] = (
    Example(
        "llama decoder layer of tensors",
        llama.decoder_layer,
        llama.inputs,
        llama.in_torch,
        ((16, 64), F32),
        1e-5,
    ),
    Example(
        "llama_mini of tensors",
        llama.llama_mini,
        _mini,
        llama.mini_in_torch,
        ((16, 64), F32),
        # Values below 4 go through sums of at most 172 products, one after another in six layers of products and norms.
        4 * 6 * 172 * 2.0**-24,
        returns=True,
    ),
    Example(
        "qwen3 decode of tensors",
        qwen3.decode,
        lambda g: qwen3.decode_inputs(g, batch=4, width=128, hidden=400, groups=2, size=32, length=48),
        qwen3.decode_in_torch,
        ((4, 128), BF16),
        _BF16_LAYER,
        returns=True,
    ),
    Example(
        "qwen3 after attention of tensors",
        qwen3.scope3,
        lambda g: qwen3.scope3_inputs(g, batch=16, width=160, hidden=400),
        qwen3.scope3_in_torch,
        ((16, 160), BF16),
        _BF16_LAYER,
        returns=True,
    ),
)
