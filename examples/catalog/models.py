"""Layers and models of transformers, on whole tensors."""

from __future__ import annotations

import torch

from examples import llama
from examples.catalog.example import F32, Example
from examples.llama_in_torch import Model


def _mini(generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    with torch.random.fork_rng():
        torch.manual_seed(generator.initial_seed())
        return Model().arguments(torch.randint(0, 64, (16,)))


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
)
