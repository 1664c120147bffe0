"""Operands whose valid shapes differ only while the kernel runs: an error, never numbers made of padding."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import BoundsError


@pypto.jit
def block_sum(x, out):
    rows, cols = x.shape
    total = pl.full([4, cols], pl.FP32, 0.0)
    for i in pl.range(0, rows, 4):
        total = total + pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(4, rows - i), cols])
    pl.store(total, [0, 0], out)
    return out


@pypto.jit
def unequal(x, out):
    rows, cols = x.shape
    for i in pl.range(0, rows, 4):
        a = pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(4, rows - i), cols])
        b = pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(3, rows - i), cols])
        pl.store(pl.exp(a) * b, [i, 0], out)


@pypto.jit
def unequal_rows(x, out):
    rows, cols = x.shape
    for i in pl.range(0, rows, 4):
        a = pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(4, rows - i), cols])
        b = pl.load(x, [i, 0], [4, 1], valid_shape=[pl.min(2, rows - i), 1])
        pl.store(pl.row_expand_sub(a, b), [i, 0], out)


@pypto.jit
def unequal_depth(a, b, out):
    depth = a.shape[1]
    acc = pl.matmul(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16]))
    for p in pl.range(16, depth, 16):
        left = pl.load(a, [0, p], [16, 16], valid_shape=[16, pl.min(16, depth - p)])
        acc = pl.matmul_acc(acc, left, pl.load(b, [p, 0], [16, 16], valid_shape=[pl.min(15, depth - p), 16]))
    pl.store(acc, [0, 0], out)


def test_valid_shapes_that_agree_after_all():
    x = torch.randn(12, 8)
    torch.testing.assert_close(block_sum(x, torch.empty(4, 8)), x.view(3, 4, 8).sum(0))


@pytest.mark.parametrize("run", [lambda f: f, lambda f: f.interpret], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("kernel", "inputs", "output", "what"),
    [
        (block_sum, [(10, 8)], (4, 8), "add"),
        (unequal, [(10, 8)], (10, 8), "mul"),
        (unequal_rows, [(10, 8)], (10, 8), "row_expand_sub"),
        (unequal_depth, [(16, 40), (40, 16)], (16, 16), "matmul_acc"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_valid_shapes_that_differ(run, kernel, inputs, output, what):
    with pytest.raises(BoundsError, match="different valid shapes") as caught:
        run(kernel)(*(torch.randn(shape) for shape in inputs), torch.empty(output))
    assert caught.value.span.filename == __file__
