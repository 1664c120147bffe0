"""Comparisons of tiles, whose result is bits, and what chooses by them."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from tests.language.everywhere import check

MODES = {0: torch.eq, 1: torch.ne, 2: torch.lt, 3: torch.le, 4: torch.gt, 5: torch.ge}


def _values(dtype, *shape):
    values = torch.randint(-3, 4, shape).to(dtype)
    if dtype.is_floating_point:
        values[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_select_by_a_comparison(dtype, mode):
    @pypto.jit
    def kernel(x, y, out):
        a, b = pl.load(x, [0, 0], [5, 37]), pl.load(y, [0, 0], [5, 37])
        tmp = pl.create_tile([5, 37], a.dtype)
        pl.store(pl.sel(pl.cmp(a, b, cmp_type=mode), a, b, tmp), [0, 0], out)
        mask = pl.cmps(a, 1, cmp_type=mode)
        pl.store(pl.sels(mask, b, tmp, 7), [5, 0], out)
        pl.store(pl.sels(mask, b, 7), [10, 0], out)
        pl.store(pl.sel(pl.cmp(a, 1, mode), a, -2.0), [15, 0], out)

    torch.manual_seed(0)
    x, y = _values(dtype, 5, 37), _values(dtype, 5, 37)
    y[0, 0] = 1
    compare = MODES[mode]
    seven, two = torch.tensor(7, dtype=dtype), torch.tensor(-2, dtype=dtype)
    with_one = compare(x, torch.ones((), dtype=dtype))
    chosen = torch.where(with_one, y, seven)
    expected = torch.cat([torch.where(compare(x, y), x, y), chosen, chosen, torch.where(with_one, x, two)])
    check(kernel, x, y, torch.zeros(20, 37, dtype=dtype), out=expected)


def test_integers():
    @pypto.jit
    def kernel(x, y, out):
        a, b = pl.load(x, [0, 0], [4, 24]), pl.load(y, [0, 0], [4, 24])
        pl.store(pl.sel(pl.cmp(a, b, 0), a, pl.neg(b)), [0, 0], out)

    torch.manual_seed(0)
    x, y = (torch.randint(-3, 4, (4, 24), dtype=torch.int32) for _ in range(2))
    check(kernel, x, y, torch.zeros(4, 24, dtype=torch.int32), out=torch.where(x == y, x, -y))


def test_the_bits_of_a_mask():
    @pypto.jit
    def kernel(x, bits):
        pl.store(pl.cmps(pl.load(x, [0, 0], [3, 300], valid_shape=[3, 290]), 0.0, "gt"), [0, 0], bits)

    torch.manual_seed(0)
    x = torch.randn(3, 300)
    whole = numpy.zeros((3, 512), bool)
    whole[:, :290] = x.numpy()[:, :290] > 0
    expected = torch.from_numpy(numpy.packbits(whole, axis=1, bitorder="little"))
    check(kernel, x, torch.full((3, 64), 9, dtype=torch.uint8), bits=expected)


def test_valid_shapes_known_at_run_time():
    @pypto.jit
    def kernel(x, y, out):
        for i in pl.range(0, 40, 16):
            rows = pl.min(16, 40 - i)
            a = pl.load(x, [i, 0], [16, 20], valid_shape=[rows, 13])
            b = pl.load(y, [i, 0], [16, 20], valid_shape=[rows, 13])
            pl.store(pl.sel(pl.cmp(a, b, 2), b, a), [i, 0], out)

    torch.manual_seed(0)
    x, y = torch.randn(40, 20), torch.randn(40, 20)
    expected = torch.zeros(40, 20)
    expected[:, :13] = torch.maximum(x, y)[:, :13]
    check(kernel, x, y, torch.zeros(40, 20), out=expected)


def test_either_of_two():
    @pypto.jit
    def kernel(x, y, out):
        a, b = pl.load(x, [0, 0], [4, 16]), pl.load(y, [0, 0], [4, 16])
        for k, t in enumerate((a ^ b, a ^ 12, 12 ^ a, pl.xor(a, b, pl.create_tile([4, 16], pl.INT16)))):
            pl.store(t, [4 * k, 0], out)

    torch.manual_seed(0)
    x, y = (torch.randint(-99, 99, (4, 16), dtype=torch.int16) for _ in range(2))
    expected = torch.cat([x ^ y, x ^ 12, x ^ 12, x ^ y])
    check(kernel, x, y, torch.zeros(16, 16, dtype=torch.int16), out=expected)


def _refused(body, error, message, dtype=torch.float32):
    @pypto.jit
    def kernel(x, out):
        pl.store(body(pl.load(x, [0, 0], [4, 16])), [0, 0], out)

    with pytest.raises(error, match=message):
        kernel(torch.zeros(4, 16, dtype=dtype), torch.zeros(4, 16, dtype=dtype))


def test_what_is_refused():
    _refused(lambda t: pl.sel(pl.cmp(t, t, 6), t, t), TraceError, "takes a kind of comparison")
    _refused(lambda t: pl.sel(pl.cmp(t, t, 2), t, t), DTypeError, "only for equality", torch.int32)
    _refused(lambda t: pl.sel(t, t, t), DTypeError, "mask of sel is one of bits")
    wide = lambda t: pl.cmp(pl.full([4, 300], pl.FP32, 0), 0.0)  # noqa: E731
    _refused(lambda t: pl.sel(wide(t), t, t), ShapeError, "mask of sel is that of another shape")
    _refused(lambda t: pl.cmp(pl.row_sum(t), 0.0), ShapeError, "no \\[N, 1\\] tile")
    _refused(lambda t: t < t, TraceError, "tiles have no '<'")
