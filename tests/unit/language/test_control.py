"""The loops an author writes: their bounds, and where they may not stand."""

from __future__ import annotations

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, DTypeError, TraceError
from tests.tracing import lines, spec

X = spec(16, 32)


def head(make):
    """The line of a recorded loop."""

    def kernel(x, out):
        for i in make():
            pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

    return lines(kernel, X, X)[0]


@pytest.mark.parametrize(
    ("make", "bounds"),
    [
        (lambda: pl.range(4), "%c0 to %c4 step %c1"),
        (lambda: pl.range(1, 4), "%c1 to %c4 step %c1"),
        (lambda: pl.range(1, 9, 3), "%c1 to %c9 step %c3"),
        (lambda: pl.parallel(numpy.int64(4)), "%c0 to %c4 step %c1"),
        (lambda: pl.range(-2, 4), "%c-2 to %c4 step %c1"),
    ],
)
def test_bounds(make, bounds):
    assert head(make) == f"scf.for %arg2 = {bounds} {{"


def test_a_step_of_zero():
    with pytest.raises(ControlFlowError, match="the step of pl.range is zero") as caught:
        head(lambda: pl.range(4, 0, 0))
    assert caught.value.expected == "a step up or down"


@pytest.mark.parametrize("bound", [1.5, "4", None, True, numpy.float32(2)])
def test_a_bound_that_is_no_integer(bound):
    with pytest.raises(DTypeError, match="the bounds of pl.parallel are integers"):
        head(lambda: pl.parallel(bound))


def test_a_traced_bound_that_is_no_integer():
    def kernel(x, out):
        for i in pl.range(4):
            for _ in pl.range(i / 2):
                pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

    with pytest.raises(DTypeError, match="the bounds of pl.range are integers"):
        lines(kernel, X, X)


def test_the_number_of_bounds():
    with pytest.raises(TraceError, match="one to three bounds"):
        head(lambda: pl.range(1, 2, 3, 4))


def test_it_reads_as_written():
    def kernel(x, out):
        assert repr(pl.parallel(1, 9)) == "pl.parallel(1, 9, 1)"
        pl.store(pl.load(x, [0, 0], [1, 32]), [0, 0], out)

    lines(kernel, X, X)
