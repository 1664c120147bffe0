"""Tiles written into larger tiles."""

from __future__ import annotations

import pytest
import torch

from examples import assemble
from tests.workloads import blank, check


def random(*shapes):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def test_a_product_goes_from_the_accumulator_into_l1():
    x, a, b, w = (t.half() for t in random((32, 32), (32, 32), (32, 16), (32, 32)))
    y = torch.cat([x[:, :16].float(), (a.float() @ b.float()).half().float()], 1)
    right = y @ w.float()
    check(assemble.replace_by_product, [x, a, b, w, blank(32, 32)], {4: right}, 1e-3)


@pytest.mark.parametrize(
    "kernel", [assemble.replace_columns, assemble.replace_by_rows, assemble.replace_by_blocks], ids=lambda k: k.__name__
)
def test_columns_are_replaced(kernel):
    x, y = random((32, 32), (32, 16))
    check(kernel, [x, y, blank(32, 32)], {2: torch.cat([x[:, :16], y], 1)}, 0)


def test_columns_are_repeated():
    x, y = random((32, 32), (32, 8))
    check(assemble.repeat_columns, [x, y, blank(32, 32)], {2: y.repeat(1, 4)}, 0)


def test_blocks_are_repeated():
    x, y = random((32, 32), (8, 8))
    check(assemble.repeat_blocks, [x, y, blank(32, 32)], {2: y.repeat(4, 4)}, 0)
