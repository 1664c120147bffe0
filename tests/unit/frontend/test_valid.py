"""Run-time valid extents follow the rules of the operators."""

from __future__ import annotations

import pytest

import pypto_jit.language as pl
from pypto_jit.errors import TraceError
from tests.tracing import lines, spec

X = spec(16, 32)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda t, u: t, ("r", "c")),
        (lambda t, u: t + 1.0, ("r", "c")),
        (lambda t, u: pl.full([4, 8], pl.FP32, 0.0) + 1.0, (4, 8)),
        (lambda t, u: pl.exp(-t), ("r", "c")),
        (lambda t, u: pl.cast(t, pl.FP16), ("r", "c")),
        (lambda t, u: pl.row_sum(t), ("r", 1)),
        (lambda t, u: pl.col_max(t), (1, "c")),
        (lambda t, u: pl.row_expand_mul(t, pl.row_sum(t)), ("r", "c")),
        (lambda t, u: pl.transpose(t), ("c", "r")),
        (lambda t, u: pl.reshape(pl.row_sum(t), [1, 4]), (1, "r")),
        (lambda t, u: pl.reshape(pl.row_sum(t), [4]), ("r",)),
        (lambda t, u: pl.reshape(pl.row_sum(t), [4, 1]), ("r", 1)),
        (lambda t, u: pl.matmul(t, u), ("r", "d")),
        (lambda t, u: pl.matmul_acc(pl.matmul(t, u), t, u), ("r", "d")),
    ],
)
def test_extents(expression, expected):
    def kernel(x, out):
        for i in pl.range(4):
            r, c, d = i + 1, i + 2, i + 3
            t = pl.load(x, [0, 0], [4, 8], valid_shape=[r, c])
            u = pl.load(x, [0, 0], [8, 16], valid_shape=[c, d])
            result = expression(t, u)
            names = {id(r): "r", id(c): "c", id(d): "d"}
            found = tuple(names.get(id(extent), extent) for extent in result.valid_shape)
            assert found == expected
            pl.store(t, [0, 0], out)

    lines(kernel, X, X)


def test_a_carried_tile_has_no_extent_inside_the_loop():
    def kernel(x, out):
        for i in pl.range(4):
            t = pl.load(x, [0, 0], [4, 8], valid_shape=[i + 1, 8])
            for _ in pl.range(2):
                t = t + t.valid_shape[0]
            pl.store(t, [0, 0], out)

    with pytest.raises(TraceError, match="the valid shape of this tile is not known here"):
        lines(kernel, X, X)


def test_a_tile_whose_extent_changes_has_none_after_the_loop():
    def kernel(x, out):
        for i in pl.range(4):
            t = pl.load(x, [0, 0], [4, 8], valid_shape=[i + 1, 8])
            for j in pl.range(2):
                t = pl.load(x, [0, 0], [4, 8], valid_shape=[j + 1, 8])
            pl.store(t + t.valid_shape[0], [0, 0], out)

    with pytest.raises(TraceError, match="the valid shape of this tile is not known here"):
        lines(kernel, X, X)
