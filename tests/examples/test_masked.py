"""Softmax of a prefix whose length is known when the kernel runs: one compile serves every length."""

from __future__ import annotations

import pytest
import torch

from examples import masked
from tests.workloads import blank, check


def scores(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(8))


def prefix(x: torch.Tensor, length: int) -> torch.Tensor:
    """Softmax of the first columns, zero in the others."""
    return torch.cat([torch.softmax(x[:, :length], 1), torch.zeros_like(x[:, length:])], 1)


@pytest.mark.parametrize("length", [1, 7, 48, 64])
def test_the_length_is_an_argument(length):
    x = scores(16, 64)
    check(masked.softmax_prefix, [x, length, blank(16, 64)], {2: prefix(x, length)}, 1e-5)


def test_one_compile_serves_every_length():
    x, out = scores(16, 64), torch.empty(16, 64)
    masked.softmax_prefix.cache_clear()
    for length in range(1, 65):
        torch.testing.assert_close(masked.softmax_prefix(x, length, out), prefix(x, length), rtol=1e-5, atol=1e-5)
    assert masked.softmax_prefix.cache_info().misses == 1


@pytest.mark.parametrize(("last", "length"), [(1, 20), (1, 64), (0, 20)])
def test_the_length_is_in_memory_if_the_block_is_the_last_one(last, length):
    x = scores(16, 64)
    config = torch.tensor([last, length], dtype=torch.int32)
    right = prefix(x, length if last else 64)
    check(masked.softmax_configured, [x, config, blank(16, 64)], {2: right}, 1e-5)


@pytest.mark.parametrize("length", [64, 150, 192, 250, 256])
def test_the_last_block_is_ragged(length):
    x = scores(16, 256)
    blocks = [prefix(x[:, j : j + 64], min(64, length - j)) for j in range(0, length, 64)]
    right = torch.cat([*blocks, torch.full((16, 256), 77.0)], 1)[:, :256]
    check(masked.softmax_blocks, [x, length, blank(16, 256)], {2: right}, 1e-5)
