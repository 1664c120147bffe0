"""Operators on the bits of integers."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, TraceError
from tests.language.everywhere import check


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8], ids=str)
def test_bits_of_two_tiles(dtype):
    @pypto.jit
    def kernel(x, y, out):
        a, b = pl.load(x, [0, 0], [4, 16]), pl.load(y, [0, 0], [4, 16])
        for k, t in enumerate((a & b, a | b, pl.shl(a, b), a >> b, pl.and_(a, b) | a)):
            pl.store(t, [4 * k, 0], out)

    torch.manual_seed(0)
    x, y = (torch.randint(-128, 128, (4, 16)).to(dtype) for _ in range(2))
    y[:2] = torch.randint(0, 8, (2, 16)).to(dtype)
    bits = torch.iinfo(dtype).bits
    wide, inside = x.long(), (y >= 0) & (y < bits)
    left = torch.where(inside, wide << torch.where(inside, y, 0).long(), 0).to(dtype)
    right = (wide >> torch.where(inside, y, bits - 1).long()).to(dtype)
    check(kernel, x, y, torch.zeros(20, 16, dtype=dtype), out=torch.cat([x & y, x | y, left, right, (x & y) | x]))


def test_bits_with_numbers():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [4, 16])
        for k, u in enumerate((t & 12, 12 | t, t << 3, pl.shrs(t, 2), ~t, t >> 40)):
            pl.store(u, [4 * k, 0], out)

    x = torch.arange(-32, 32, dtype=torch.int16).reshape(4, 16)
    expected = torch.cat([x & 12, x | 12, x << 3, x >> 2, ~x, x >> 15])
    check(kernel, x, torch.zeros(24, 16, dtype=torch.int16), out=expected)


def test_what_has_no_bits():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [4, 16])
        pl.store(t & t, [0, 0], out)

    with pytest.raises(DTypeError, match="and_ does not take FP32"):
        kernel(torch.zeros(4, 16), torch.zeros(4, 16))

    @pypto.jit
    def shifted(x, out):
        t = pl.load(x, [0, 0], [4, 16])
        pl.store(1 << t, [0, 0], out)

    ints = torch.zeros(4, 16, dtype=torch.int32)
    with pytest.raises(TraceError, match="shl takes a tile as 'lhs'"):
        shifted(ints, ints)
