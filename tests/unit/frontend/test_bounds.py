"""The shape of an output that a call leaves out."""

from __future__ import annotations

import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError
from tests.tracing import spec, with_trace

X = spec(16, 32)


def shape(kernel, *arguments):
    return with_trace(kernel, *arguments, then=lambda traced: traced.parameters[-1].spec.shape)


def row(x, i=0):
    return pl.load(x, [i, 0], [1, 32])


def test_of_one_store():
    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [4, 8]), [2, 3], out)

    assert shape(kernel, X, None) == (6, 11)


def test_of_the_farthest_of_several():
    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 8], out)
        pl.store(pl.load(x, [0, 0], [2, 8]), [10, 0], out)

    assert shape(kernel, X, None) == (12, 16)


def test_of_a_tile_of_another_rank():
    def kernel(x, out):
        pl.store(row(x), [4, 1, 0], out)
        pl.store(pl.reshape(row(x), [1, 1, 1, 32]), [0, 0, 0], out)

    assert shape(kernel, X, None) == (5, 2, 32)


@pytest.mark.parametrize(("rows", "step"), [(16, 4), (10, 4), (3, 4), (1, 1), (17, 5)])
def test_of_blocks_with_a_ragged_last_one(rows, step):
    def kernel(x, out):
        for i in pl.parallel(0, rows, step):
            n = pl.min(step, rows - i)
            pl.store(pl.load(x, [i, 0], [step, 32], valid_shape=[n, 32]), [i, 0], out)

    assert shape(kernel, spec(rows, 32), None) == (rows, 32)


def test_of_nested_and_scaled_loops():
    def kernel(x, out):
        for i in pl.range(4):
            for j in pl.range(2, 7, 2):
                pl.store(row(x), [i * 10 + 1, j * 32 - 64], out)

    assert shape(kernel, X, None) == (32, 160)


def test_of_triangular_loops():
    def kernel(x, out):
        for i in pl.range(4):
            for j in pl.range(i, 8):
                for k in pl.range(j):
                    pl.store(row(x), [j - i, k * 32], out)

    assert shape(kernel, X, None) == (8, 224)


def test_loops_that_do_not_run_do_not_count():
    def kernel(x, out):
        pl.store(row(x), [0, 0], out)
        for i in pl.range(3, 3):
            pl.store(row(x), [i, 0], out)

    assert shape(kernel, X, None) == (1, 32)


def test_carried_tiles_keep_their_extents():
    def kernel(x, out):
        for i in pl.parallel(0, 10, 4):
            t = pl.load(x, [i, 0], [4, 32], valid_shape=[pl.min(4, 10 - i), 32])
            for _ in pl.range(2):
                t = t + 1.0
            pl.store(t, [i, 0], out)

    assert shape(kernel, spec(10, 32), None) == (10, 32)


def store_at(offset):
    def kernel(x, out):
        for i in pl.range(4):
            pl.store(row(x), [offset(i), 0], out)

    return kernel


@pytest.mark.parametrize(
    "offset",
    [
        lambda i: i * i,
        lambda i: i // 2,
        lambda i: pl.max(i, 2),
        lambda i: pl.min(i, 3 - i),
        lambda i: 3 + i * 0 - i * i,
    ],
    ids=["product", "quotient", "maximum", "two varying sums", "difference"],
)
def test_what_is_not_worked_out_is_an_error(offset):
    with pytest.raises(ArgumentError, match="the shape of 'out', which the call leaves out, cannot be") as caught:
        shape(store_at(offset), X, None)
    assert caught.value.hint == "pass it, or annotate it: out: pl.Out[pl.Tensor[[rows, columns], pl.FP32]]"
    assert caught.value.span.line == store_at(offset).__code__.co_firstlineno + 2


def test_no_store_runs():
    def kernel(x, out):
        for i in pl.range(0):
            pl.store(row(x), [i, 0], out)

    with pytest.raises(ArgumentError, match="no store to it runs"):
        shape(kernel, X, None)


@pytest.mark.parametrize(
    ("smallest", "valid"),
    [
        (lambda i: pl.min(4, 16 - i), 4),  # 16 - i is 4 at the least
        (lambda i: pl.min(5, 16 - i), -1),
        (lambda i: pl.min(4, 15 - i), -1),
        (lambda i: pl.min(16 - i, 4, 3 + i), -1),  # 3 at the beginning
        (lambda i: pl.min(16 - i, 3, 3 + i), 3),
        (lambda i: pl.min(4, pl.max(4, 16 - i)), 4),
        (lambda i: pl.max(1, pl.min(2, 13 - i)), -1),  # 13 - i is 1 at the end
    ],
)
def test_a_minimum_that_the_loop_decides_is_a_constant(smallest, valid):
    def kernel(x, out):
        for i in pl.range(0, 16, 4):
            tile = pl.load(x, [i, 0], [5, 32], valid_shape=[smallest(i), 32])
            assert tile.valid_shape[0] == valid if valid >= 0 else not isinstance(tile.valid_shape[0], int)
            pl.store(tile, [i, 0], out)

    with_trace(kernel, X, X, then=lambda traced: None)


def test_an_outer_loop_bounds_an_inner_one():
    def kernel(x, out):
        for i in pl.range(0, 16, 4):
            for j in pl.range(i, 16, 4):
                tile = pl.load(x, [j, 0], [4, 32], valid_shape=[pl.min(4, 16 - i), 32])
                assert tile.valid_shape[0] == 4
                pl.store(tile, [j, 0], out)

    with_trace(kernel, X, X, then=lambda traced: None)
