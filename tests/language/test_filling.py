"""Whole tensors of one value and of numbers in order, joined, and written in parts: against torch."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from tests.language.everywhere import check

BOTH = ("compiled", "interpreted")
X = torch.arange(24.0).reshape(4, 6)


def test_one_value():
    @pypto.jit
    def kernel(x, out, short, whole):
        out[:] = pl.zeros([4, 6], pl.FP32) + pl.ones(6) * x[0] + pl.tensor.full([4, 1], pl.FP32, 2.5)
        short[:] = pl.tensor.full([4, 6], pl.INT8, -3)
        whole[:] = pl.ones([2, 3], pl.INT32)

    check(
        kernel, X, torch.zeros(4, 6), torch.zeros(4, 6, dtype=torch.int8), torch.zeros(2, 3, dtype=torch.int32),
        ways=BOTH, out=(X[0] + 2.5).expand(4, 6), short=torch.full((4, 6), -3, dtype=torch.int8),
        whole=torch.ones(2, 3, dtype=torch.int32),
    )  # fmt: skip


def test_numbers_in_order():
    @pypto.jit
    def kernel(whole, short, row, down, mask):
        whole[:] = pl.arange(0, 100)
        short[:] = pl.arange(-7, [50], pl.INT8)
        row[:] = pl.arange(0.5, [1, 33], pl.FP32)
        down[:] = pl.arange(5, [9], descending=True)
        places = pl.arange(0, 8)
        mask[:] = pl.where(places[:, None] >= places, 1.0, 0.0)

    check(
        kernel, torch.zeros(100, dtype=torch.int32), torch.zeros(50, dtype=torch.int8), torch.zeros(1, 33),
        torch.zeros(9, dtype=torch.int32), torch.zeros(8, 8),
        ways=BOTH, whole=torch.arange(100, dtype=torch.int32), short=torch.arange(-7, 43, dtype=torch.int8),
        row=torch.arange(33.0)[None] + 0.5, down=torch.arange(5, -4, -1, dtype=torch.int32),
        mask=torch.ones(8, 8).tril(),
    )  # fmt: skip


def test_several_are_joined():
    @pypto.jit
    def kernel(x, wide, high):
        wide[:] = pl.concat(x, x[:, :2] * 2.0, x[:, ::-1])
        high[:] = pl.concat([x, x[1:3], x + 1.0], axis=0)

    wide, high = torch.cat([X, X[:, :2] * 2, X.flip(1)], 1), torch.cat([X, X[1:3], X + 1])
    check(kernel, X, torch.zeros_like(wide), torch.zeros_like(high), ways=BOTH, wide=wide, high=high)


def test_parts_by_their_names():
    @pypto.jit
    def kernel(x, out: pl.InOut[pl.Tensor]):
        part = pl.slice(x, [2, 3], [1, 2])
        pl.assemble(out, part * 2.0, [0, 1])

    expected = X.clone()
    expected[0:2, 1:4] = X[1:3, 2:5] * 2
    check(kernel, X, X, ways=BOTH, out=expected)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda x: pl.zeros([4, -1]), ShapeError, "an extent is negative"),
        (lambda x: pl.zeros([4, 6], float), DTypeError, "zeros takes a dtype"),
        (lambda x: pl.tensor.full([4, 6], pl.FP32, "a"), TraceError, "full takes a number"),
        (lambda x: pl.arange(0, [2, 3]), ShapeError, "arange counts along one dimension"),
        (lambda x: pl.arange("a", [3]), TraceError, "arange starts at a number"),
        (lambda x: pl.arange(0, [3], int), DTypeError, "arange takes a dtype"),
        (lambda x: pl.concat(x), TraceError, "concat takes two operands or more"),
    ],
)
def test_wrong_arguments(wrong, kind, message):
    def kernel(x):
        return wrong(x) + x

    with pytest.raises(kind) as caught:
        pypto.jit(kernel)(X)
    assert caught.value.message == message
    assert caught.value.span is not None
