"""Comparisons of whole tensors and selection by them, against torch: compiled, interpreted, and as assembly."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from tests.language.everywhere import check


def _random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _integers(*shape, dtype=torch.int32, seed=0):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# Several kernels are several functions in assembly, which are not called from there.
TRACED = ("compiled", "interpreted", "trace")


def test_relu_and_its_slope():
    @pypto.jit
    def kernel(x, out):
        out[:] = pl.where(x > 0, x, x * 0.5)

    x = _random(37, 100)
    x[0, :3] = torch.tensor([float("nan"), -0.0, float("-inf")])
    check(kernel, x, torch.zeros(37, 100), out=torch.where(x > 0, x, x * 0.5))


def test_comparisons_are_numbers():
    @pypto.jit
    def kernel(x, y, out, count):
        out[:] = (x < y) + (x <= 0.25) * 2.0
        count[:] = pl.sum(pl.cmp(x, y, "ge"), axis=1)

    x, y = _random(20, 33), _random(20, 33, seed=1)
    count = (x >= y).float().sum(1)
    check(kernel, x, y, torch.zeros(20, 33), torch.zeros(20), ways=TRACED, out=(x < y) + (x <= 0.25) * 2.0, count=count)


@pytest.mark.parametrize("mode", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16], ids=str)
def test_integers(mode, dtype):
    @pypto.jit
    def kernel(x, y, out):
        out[:] = pl.where(pl.cmp(x, y, mode), x, 7) + pl.where(pl.cmp(x, 1, mode), 100, y)

    x, y = _integers(9, 21, dtype=dtype), _integers(9, 21, dtype=dtype, seed=1)
    x[0], y[0] = torch.iinfo(dtype).max, torch.iinfo(dtype).max - 1
    compare = getattr(torch, mode)
    expected = torch.where(compare(x, y), x, 7) + torch.where(compare(x, 1), 100, y)
    for target in ("a2a3sim", "a5sim"):
        found = torch.zeros(9, 21, dtype=dtype)
        pypto.compile(kernel.lower(x, y, found, config=pypto.RunConfig(platform=target))["pto"])(x, y, found)
        torch.testing.assert_close(found, expected.to(dtype))
    check(kernel, x, y, torch.zeros(9, 21, dtype=dtype), out=expected.to(dtype))


def test_masks_from_memory():
    @pypto.jit
    def kernel(mask, x, out):
        out[:] = pl.where(mask, x, -1.0)

    x = _random(5, 3, 40, dtype=torch.float16)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32, torch.float16):
        mask = _integers(3, 1).abs().to(dtype)
        check(kernel, mask, x, torch.zeros_like(x), out=torch.where(mask != 0, x, torch.tensor(-1.0).half()))


def test_causal_softmax():
    @pypto.jit
    def kernel(scores, rows, columns, out):
        out[:] = pl.softmax(pl.where(columns <= rows, scores, float("-inf")))

    scores = _random(4, 30, 30)
    rows, columns = torch.arange(30).float().reshape(30, 1), torch.arange(30).float()
    found = torch.zeros(4, 30, 30)
    kernel(scores, rows, columns, found)
    expected = torch.softmax(torch.where(columns <= rows, scores, float("-inf")), -1)
    torch.testing.assert_close(found, expected)


def test_vectors_broadcast():
    @pypto.jit
    def kernel(column, row, out):
        out[:] = pl.where(column > row, column, row)

    column, row = _random(50, 1), _random(70)
    check(kernel, column, row, torch.zeros(50, 70), out=torch.maximum(column, row))

    @pypto.jit
    def columns(x, out):
        out[:] = pl.where(pl.sum(x, axis=1, keepdims=True) > 0, 1.0, -1.0)

    x = _random(40, 30)
    check(columns, x, torch.zeros(40, 1), out=torch.where(x.sum(1, keepdim=True) > 0, 1.0, -1.0))


def test_after_a_product():
    @pypto.jit
    def kernel(x, w, out):
        y = x @ w
        out[:] = pl.where(y > 0, y, y * 0.25)

    x, w = _integers(48, 32).float(), _integers(32, 40).float()
    y = x @ w
    check(kernel, x, w, torch.zeros(48, 40), ways=TRACED, out=torch.where(y > 0, y, y * 0.25))


def test_filled_like_another():
    @pypto.jit
    def kernel(x, out):
        out[:] = pl.where(x > 0, pl.ones_like(x), pl.zeros_like(x)) + pl.full_like(x, 2)

    x = _random(3, 8)
    check(kernel, x, torch.zeros(3, 8), out=(x > 0) + torch.full((3, 8), 2.0))


def _refused(body, error, message, dtype=torch.float32):
    @pypto.jit
    def kernel(x, y, out):
        out[:] = body(x, y)

    x = torch.zeros(4, 6, dtype=dtype)
    with pytest.raises(error, match=message):
        kernel(x, torch.zeros(5, dtype=dtype), torch.zeros(4, 6, dtype=dtype))


def test_what_is_refused():
    _refused(lambda x, y: pl.where(x > y, x, x), ShapeError, "do not broadcast")
    _refused(lambda x, y: pl.where(x > 0, x, y), ShapeError, "operands of where do not broadcast")
    _refused(lambda x, y: pl.where(x == 0, x, x), TraceError, "where takes a tensor as its mask")
    _refused(lambda x, y: pl.where(x > 0, x, x), DTypeError, "does not take INT64", torch.int64)


def test_products_of_elements():
    @pypto.jit
    def kernel(x, rows, columns, everything):
        rows[:] = pl.prod(x, axis=1)
        columns[:] = pl.prod(x, axis=0)
        everything[:] = pl.prod(x)

    x = 2.0 ** _integers(20, 33).clamp(-1, 1)
    check(
        kernel,
        *(x, torch.zeros(20), torch.zeros(33), torch.zeros(())),
        ways=TRACED,
        rows=x.prod(1),
        columns=x.prod(0),
        everything=x.prod(),
    )


def test_products_of_tiles():
    @pypto.jit
    def kernel(x, rows, columns):
        t = pl.load(x, [0, 0], [5, 40])
        pl.store(pl.row_prod(t), [0, 0], rows)
        pl.store(pl.col_prod(t), [0, 0], columns)

    for dtype in (torch.float32, torch.float16, torch.int32, torch.int16):
        x = _integers(5, 40, dtype=dtype)
        x[x == 0] = -1
        x[:2] = 1
        rows, columns = x.double().prod(1, keepdim=True), x.double().prod(0, keepdim=True)
        if not dtype.is_floating_point:
            rows = x.long().prod(1, keepdim=True)
        check(
            kernel,
            x,
            torch.zeros_like(rows).to(dtype),
            torch.zeros(1, 40, dtype=dtype),
            rows=rows.to(dtype),
            columns=columns.to(dtype),
        )


def test_one_after_another():
    @pypto.jit
    def kernel(x, y, rows, columns):
        rows[:] = pl.concat(x, y * 2.0, axis=0) + 1.0
        columns[:] = pl.concat(x, x)

    x, y = _random(5, 12), _random(7, 12, seed=1)
    check(
        kernel,
        *(x, y, torch.zeros(12, 12), torch.zeros(5, 24)),
        ways=TRACED,
        rows=torch.cat([x, y * 2.0]) + 1.0,
        columns=torch.cat([x, x], 1),
    )
    _refused(lambda x, y: pl.concat(x, x, axis=2), ShapeError, "differ along one axis")
