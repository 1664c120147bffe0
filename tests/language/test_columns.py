"""Reductions of columns in dtypes that only columns are reduced in."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from tests.language.everywhere import check

A5 = pypto.RunConfig(platform="a5sim")


@pytest.mark.parametrize("rows", [1, 12, 40])
def test_a_column_of_bytes(rows):
    @pypto.jit(config=A5)
    def kernel(x, low, high):
        tile = pl.load(x, [0, 0], [rows, 1])
        pl.store(pl.col_min(tile), [0, 0], low)
        pl.store(pl.col_max(tile), [0, 0], high)

    x = torch.randint(-128, 128, (rows, 1), dtype=torch.int8, generator=torch.Generator().manual_seed(rows))
    zero = torch.zeros(1, 1, dtype=torch.int8)
    check(kernel, x, zero, zero, ways=("compiled", "interpreted"), low=x.amin(0)[None], high=x.amax(0)[None])


def test_a_column_of_bfloats():
    @pypto.jit(config=A5)
    def kernel(x, out):
        pl.store(pl.col_max(pl.load(x, [0, 0], [12, 1])), [0, 0], out)

    x = torch.randn(12, 1, generator=torch.Generator().manual_seed(0)).bfloat16()
    check(kernel, x, torch.zeros(1, 1).bfloat16(), ways=("compiled", "interpreted"), out=x.amax(0)[None])
