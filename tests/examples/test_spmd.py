"""Launches of many blocks."""

from __future__ import annotations

import pytest
import torch

from examples import spmd
from tests.workloads import blank, check


def random(*shapes):
    generator = torch.Generator().manual_seed(10)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_each_block_does_its_rows(blocks):
    a, b = random((16 * blocks, 64), (16 * blocks, 64))
    check(spmd.add, [a, b, blank(16 * blocks, 64)], {2: a + b}, 1e-5)


def test_launches_follow_each_other():
    (x,) = random((48, 64))
    check(spmd.polynomial, [x, blank(48, 64)], {1: ((x + 1) * x + 1) * x + 1}, 1e-5)


def test_a_block_works_on_both_cores():
    x, w, bias = random((48, 64), (64, 32), (48, 32))
    check(spmd.linear, [x, w, bias, blank(48, 32)], {3: x @ w + bias}, 1e-3)


@pytest.mark.parametrize("blocks", [1, 2, 7, 24, 40])
def test_the_number_of_blocks_is_an_argument(blocks):
    (x,) = random((24, 64))
    check(spmd.strided, [x, blocks, blank(24, 64)], {2: 2 * x}, 1e-5)
