"""Kernels over tensors with random dynamic extents and layouts: compiled and interpreted against NumPy."""

from __future__ import annotations

import numpy
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import pypto_jit as pypto
import pypto_jit.language as pl

M = pl.dynamic("M")
N = pl.dynamic("N")
TILES = [(1, 8), (4, 16), (16, 24)]


def _kernel(rows: int, columns: int):
    @pypto.jit
    def scaled_difference(
        a: pl.Tensor[[M, N], pl.FP32],
        b: pl.Tensor[[M, N], pl.FP32],
        sums: pl.Out[pl.Tensor[[M, 1], pl.FP32]],
        out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    ):
        height, width = a.shape
        for block in pl.parallel(-(-height // rows)):
            i = block * rows
            m = pl.min(rows, height - i)
            total = pl.set_validshape(pl.full([rows, 1], pl.FP32, 0.0), m, 1)
            for j in pl.range(0, width, columns):
                n = pl.min(columns, width - j)
                left = pl.load(a, [i, j], [rows, columns], valid_shape=[m, n])
                right = pl.load(b, [i, j], [rows, columns], valid_shape=[m, n])
                total = total + pl.row_sum(left)
                pl.store(left * 2.0 - right, [i, j], out)
            pl.store(total, [i, 0], sums)

    return scaled_difference


KERNELS = {tile: _kernel(*tile) for tile in TILES}


@st.composite
def tensors(draw: st.DrawFn, rows: int, columns: int) -> torch.Tensor:
    """Small integers of this shape: contiguous, part of a wider tensor, turned, or with rows in reverse order."""
    seed = draw(st.integers(0, 99))
    values = numpy.random.default_rng(seed).integers(-9, 9, (rows + 3, columns + 5)).astype(numpy.float32)
    whole = torch.from_numpy(values)
    layout = draw(st.sampled_from(["contiguous", "part", "turned", "spread"]))
    if layout == "turned":
        return torch.from_numpy(values.T.copy()).T[:rows, :columns]
    if layout == "spread":
        return torch.from_numpy(values.repeat(2, 0).repeat(2, 1))[: 2 * rows : 2, : 2 * columns : 2]
    part = whole[1 : rows + 1, 2 : columns + 2]
    return part.clone() if layout == "contiguous" else part


@pytest.mark.parametrize("tile", TILES, ids=str)
@given(data=st.data(), rows=st.integers(0, 40), columns=st.integers(0, 60))
def test_compiled_and_interpreted_kernels_give_what_numpy_gives(tile, data, rows, columns):
    a, b = data.draw(tensors(rows, columns)), data.draw(tensors(rows, columns))
    kernel = KERNELS[tile]
    for call in (kernel, kernel.interpret):
        sums, out = call(a, b)
        numpy.testing.assert_array_equal(out.numpy(), (2 * a - b).numpy())
        numpy.testing.assert_array_equal(sums.numpy(), a.sum(1, keepdim=True).numpy())


@given(a=st.integers(-100, 100), k=st.integers(-7, 7).filter(bool))
@example(a=-7, k=2)
@example(a=7, k=-2)
def test_division_has_pythons_meaning(a, k):
    for call in (_divisions, _divisions.interpret):
        out = call(a, k, torch.zeros(1, 8))
        assert out[0, :3].tolist() == [a // k, a % k, -(-a // k)]


@pypto.jit
def _divisions(a: pl.RUNTIME, k: pl.RUNTIME, out: pl.InOut[pl.Tensor[[1, 8], pl.FP32]]):
    for column, value in enumerate((a // k, a % k, -(-a // k))):
        pl.write(out, [0, column], pl.cast(value, pl.FP32))
    return out
