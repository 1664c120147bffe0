"""Loops over columns: every column once, whatever the extent, with and without reductions."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.lowering.cpu.columns import Columns
from tests.native import build_function

EXTENTS = [0, 1, 7, 15, 16, 17, 31, 32, 48, 64, 65, 80, 127, 128, 200]
COSTS = [1, 20, 100]


def summing(extent, multiple, cost):
    """Copies columns and adds them up; the extent is the last argument where it is not known."""

    def body(e, arguments):
        source, target, total, count = arguments
        columns = Columns(e, count if extent is None else extent, multiple)

        known = {}

        def vectors(places, mask, sums):
            following = []
            for column, before in zip(places, sums, strict=True):
                value = e.load(column.address(e, source, 4, known), "f32", e.lanes, mask)
                e.store(value, column.address(e, target, 4, known), mask)
                following.append([value if before[0] is None else e.same("arith.addf", value, before[0])])
            return following

        zero = e.constant(0.0, "f32", e.lanes)
        (result,) = columns.run(cost, [zero], [lambda a, b: e.same("arith.addf", a, b)], vectors)
        e.store(e.reduction("add", result), total)

    return build_function(("ptr", "ptr", "ptr", "i64"), body)


def verify(function, extent):
    source = np.arange(1, 300, dtype=np.float32)
    target, total = np.zeros_like(source), np.zeros(1, np.float32)
    function(source, target, total, extent)
    np.testing.assert_array_equal(target[:extent], source[:extent])
    assert not target[extent:].any()
    assert total[0] == extent * (extent + 1) // 2


@pytest.mark.parametrize("cost", COSTS)
def test_known_extents(cost):
    for extent in EXTENTS:
        verify(summing(extent, 1, cost), extent)


@pytest.mark.parametrize("cost", COSTS)
def test_unknown_extents(cost):
    function = summing(None, 1, cost)
    for extent in EXTENTS:
        verify(function, extent)


def test_unknown_multiples_have_no_ragged_end():
    for multiple in (16, 32, 48, 64, 128):
        function = summing(None, multiple, 1)
        for extent in range(0, 260, multiple):
            verify(function, extent)
