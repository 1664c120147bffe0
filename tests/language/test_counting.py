"""Numbers in order: tiles of them, and whole tensors."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError
from tests.language.everywhere import run

WAYS = ["interpreted", "trace", "pto"]


@pytest.mark.parametrize("way", WAYS)
def test_tiles_count_from_a_number_on(way):
    @pypto.jit
    def kernel(out: pl.Out[pl.Tensor], short: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, 4):
            pl.store(pl.tile.ci(i * 100 - 7, [1, 37]), [i, 0], out)
        pl.store(pl.tile.arange(32765, [1, 5], pl.INT16), [0, 0], short)

    out, short = run(kernel, way, torch.zeros(4, 37, dtype=torch.int32), torch.zeros(1, 5, dtype=torch.int16))
    assert torch.equal(out, (torch.arange(37) + torch.arange(4)[:, None] * 100 - 7).int())
    assert short.tolist() == [[32765, 32766, 32767, -32768, -32767]]


@pytest.mark.parametrize(
    ("error", "message", "tile"),
    [
        (ShapeError, "one row", lambda: pl.tile.ci(0, [2, 8])),
        (ShapeError, "several columns", lambda: pl.tile.ci(0, [1, 1])),
        (DTypeError, "ci does not take FP32", lambda: pl.tile.ci(0, [1, 8], pl.FP32)),
    ],
)
def test_what_no_tile_counts(error, message, tile):
    @pypto.jit
    def kernel(out: pl.Out[pl.Tensor]):
        pl.store(tile(), [0, 0], out)

    with pytest.raises(error, match=message):
        kernel(torch.zeros(2, 8, dtype=torch.int32))


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (3, 5), (130, 70), (7, 3000)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_places_along_rows_and_columns(shape, way):
    rows, columns = shape

    @pypto.jit
    def kernel(x, out):
        out[:] = x + pl.arange(0, rows)[:, None] * 5 - pl.arange(3, columns)

    x = torch.randint(-9, 9, shape, dtype=torch.int32)
    out = torch.zeros(shape, dtype=torch.int32)
    expected = x + torch.arange(rows)[:, None] * 5 - torch.arange(3, columns + 3)
    assert torch.equal(run(kernel, way, x, out)[1], expected.int())


@pytest.mark.parametrize("shape", [(4, 6, 8), (2, 3, 200), (5, 1, 7)], ids=str)
def test_places_along_each_of_three_dimensions(shape):
    a, b, c = shape

    @pypto.jit
    def kernel(x, out):
        out[:] = x * pl.arange(0, a)[:, None, None] + pl.arange(0, b)[:, None] * 10 + pl.arange(0, c)

    x, out = torch.ones(shape, dtype=torch.int32), torch.zeros(shape, dtype=torch.int32)
    kernel(x, out)
    i, j, k = (torch.arange(extent, dtype=torch.int32) for extent in shape)
    assert torch.equal(out, i[:, None, None] + j[:, None] * 10 + k)


def test_places_are_reduced_and_added_up():
    @pypto.jit
    def kernel(x):
        along = x * pl.arange(1, x.shape[1], pl.FP32)
        down = x * pl.arange(1, x.shape[0], pl.FP32)[:, None]
        return along.sum(1), down.sum(0), pl.cumsum(down, 0), pl.cumsum(pl.arange(0, 9), 0)

    x = torch.rand(33, 50)
    rows, columns, totals, triangular = kernel(x)
    torch.testing.assert_close(rows, (x * torch.arange(1, 51)).sum(1))
    torch.testing.assert_close(columns, (x * torch.arange(1, 34)[:, None]).sum(0))
    torch.testing.assert_close(totals, (x * torch.arange(1, 34)[:, None]).cumsum(0))
    assert triangular.tolist() == [0, 1, 3, 6, 10, 15, 21, 28, 36]


def test_places_after_a_product():
    @pypto.jit
    def kernel(x, w):
        return x @ w + pl.arange(0, w.shape[1], pl.FP32) + pl.arange(0, x.shape[0], pl.FP32)[:, None]

    x, w = torch.randn(70, 32), torch.randn(32, 90)
    expected = x @ w + torch.arange(90) + torch.arange(70)[:, None]
    torch.testing.assert_close(kernel(x, w), expected, rtol=1e-5, atol=1e-5)


def test_places_are_computed_where_they_are_used():
    @pypto.jit
    def kernel(x, out):
        out[:] = pl.where(pl.arange(0, x.shape[1]) <= pl.arange(0, x.shape[0])[:, None], x, 0.0)

    x, out = torch.randn(2000, 2000), torch.zeros(2000, 2000)
    kernel(x, out)
    assert torch.equal(out, x.tril())
    assert len(kernel.explain(x, out).kernels) == 1
