"""Typed constants, printing and assertions while tracing; names and arguments as PyPTO has them."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, TraceError
from tests.language.everywhere import check


def test_constants_have_their_dtype():
    kinds = []

    @pypto.jit
    def kernel(x, out):
        a = pl.const(3, pl.INT32)
        kinds.extend([a.dtype, (a * a).dtype, pl.const(True, pl.BOOL).dtype, pl.const(x[0], pl.INDEX).dtype])
        out[0] = a + x[0]
        pl.store(pl.full([8], pl.INT32, pl.const(2, pl.INT32)), [0], x)

    x = torch.full((8,), 5, dtype=torch.int32)
    check(kernel, x, torch.zeros(1, dtype=torch.int32), out=torch.tensor([8], dtype=torch.int32), x=x * 0 + 2)
    assert kinds[:4] == [pl.INT32, pl.INT32, pl.BOOL, pl.INDEX]


def test_printing_happens_while_tracing(capsys):
    @pypto.jit
    def kernel(x, out):
        pl.static_print("rows", x.shape[0], pl.load(x, [0, 0], [4, 8]), sep="|")
        pl.static_assert(x.shape[0] == 4, "four rows")
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)

    for _ in range(2):
        kernel(torch.zeros(4, 8), torch.zeros(4, 8))
    assert capsys.readouterr().out == "rows|4|Tile[[4, 8], FP32, Vec]\n"


def test_assertions():
    @pypto.jit
    def kernel(x, out):
        pl.static_assert(x.shape[0] % 16 == 0, "rows come in sixteens")
        out[0] = 1.0

    with pytest.raises(TraceError, match="static_assert: rows come in sixteens") as caught:
        kernel(torch.zeros(4), torch.zeros(4))
    assert caught.value.span.filename == __file__

    @pypto.jit
    def traced(x, out):
        pl.static_assert(x[0] == 0)
        out[0] = 1.0

    with pytest.raises(TraceError, match="known while tracing"):
        traced(torch.zeros(4), torch.zeros(4))


def test_constants_that_do_not_fit():
    @pypto.jit
    def kernel(out):
        out[0] = pl.const(300, pl.INT8)

    with pytest.raises(DTypeError, match="300 does not fit INT8"):
        kernel(torch.zeros(4, dtype=torch.int8))


def test_scratch_and_precision_are_the_compilers():
    @pypto.jit
    def kernel(x, out):
        t = pl.tile.load(x, [0, 0], [4, 8])
        tmp = pl.tile.create([4, 8], pl.FP32)
        most = pl.tile.row_max(t, tmp)
        least = pl.row_min(t, tmp=tmp)
        total = pl.col_sum(t, tmp)
        u = pl.div(t, t, high_precision=True)
        u = pl.row_expand_add(u, pl.add(most, least), tmp)
        pl.store(pl.tile.adds(pl.col_expand_mul(u, pl.rsqrt(pl.mul(total, total), tmp=total)), 1.0), [0, 0], out)

    x = torch.tensor([1.0, 2, 4, 8]).reshape(4, 1).expand(4, 8).contiguous()
    scale = 1 / x.sum(0)
    expected = (1 + 2 * x) * scale + 1
    out = torch.zeros(4, 8)
    kernel(x, out)
    torch.testing.assert_close(out, expected)


def test_namespaces():
    assert pl.tile.slice is pl.slice
    assert pl.tile.read is pl.tensor.read is pl.read
    assert pl.tensor.write is pl.write
    with pytest.raises(AttributeError, match="pl.tensor has no operator 'load'"):
        pl.tensor.load  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean pl.tensor.write"):
        pl.tensor.writ  # noqa: B018


def test_scratch_that_is_no_tile():
    @pypto.jit
    def kernel(x, out):
        pl.store(pl.row_max(pl.load(x, [0, 0], [4, 8]), 3), [0, 0], out)

    with pytest.raises(TraceError, match="the tmp of row_max is a tile"):
        kernel(torch.zeros(4, 8), torch.zeros(4, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_sign_of_a_zero_that_is_the_extreme(dtype):
    @pypto.jit
    def kernel(x, rows, columns):
        t = pl.load(x, [0, 0], [4, 20])
        pl.store(pl.row_max(t), [0, 0], rows)
        pl.store(pl.row_min(t), [0, 1], rows)
        pl.store(pl.col_max(t), [0, 0], columns)
        one = pl.slice(t, [1, 20], [1, 0])
        pl.store(pl.col_min(one), [1, 0], columns)

    x = torch.zeros(4, 20).to(dtype)
    x[::2, ::2] = -0.0
    x[1] = -0.0
    rows, columns = torch.ones(4, 2).to(dtype), torch.ones(2, 20).to(dtype)
    for run in (kernel, kernel.interpret):
        run(x, rows, columns)
        assert not torch.signbit(rows).any()
        assert not torch.signbit(columns[0]).any()
        assert torch.signbit(columns[1]).all(), "one element is its own extreme"
