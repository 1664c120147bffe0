"""Boxes of tensors: any number of dimensions, and never outside of their tensor."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dtypes import FP16, FP32
from tests.module_text import ModuleText
from tests.native import Kernel, check, numbers


def test_a_box_outside_of_its_tensor_is_reported_and_left_alone():
    text = ModuleText()
    x, out, where = text.tensor((6, 32), FP32), text.tensor((6, 32), FP32), text.tensor((-1, 32), FP32)
    start = text.emit(f'"pypto.dim"({where.name}) {{axis = 0 : i64}} : ({where.type}) -> index', "index")
    text.store(text.load(x, [start, 0], [4, 32]), out, [start, 0])
    kernel = Kernel(text)
    assert len(kernel.checks) == 2
    values = numbers((6, 32), FP32)
    for rows in range(5):
        result = np.zeros((6, 32), np.float32)
        status = kernel(values, result, np.zeros((rows, 32), np.float32))
        if rows <= 2:
            assert status == 0
            np.testing.assert_array_equal(result[rows : rows + 4], values[rows : rows + 4])
        else:
            assert status in (1, 2)
            assert "outside" in kernel.checks[status - 1][1]
            assert not result.any()


@pytest.mark.parametrize("dtype", [FP32, FP16], ids=str)
def test_boxes_of_three_dimensions(dtype):
    def build(text):
        x, out = text.tensor((4, 5, 24), dtype), text.tensor((4, 5, 24), dtype)
        for offsets, shape in (
            ([0, 0, 0], (2, 5, 24)),
            ([2, 0, 8], (1, 3, 16)),
            ([2, 3, 0], (2, 2, 7)),
            ([3, 1, 3], (1, 1, 9)),
        ):
            text.store(text.operator("exp", text.load(x, offsets, shape)), out, offsets)

    check(build, [numbers((4, 5, 24), dtype), np.zeros((4, 5, 24), dtype.numpy)])


def test_a_vector_tensor():
    def build(text):
        x, out = text.tensor((100,), FP32), text.tensor((100,), FP32)
        text.store(text.operator("exp", text.load(x, [10], (37,))), out, [60])

    check(build, [numbers((100,), FP32), np.zeros(100, np.float32)])


def test_a_column_of_a_matrix():
    def build(text):
        x, out = text.tensor((20, 6), FP32), text.tensor((20, 6), FP32)
        text.store(text.operator("neg", text.load(x, [3, 2], (11, 1))), out, [1, 5])

    check(build, [numbers((20, 6), FP32), np.zeros((20, 6), np.float32)])


def test_an_empty_box_moves_nothing():
    text = ModuleText()
    x, out, where = text.tensor((6, 32), FP32), text.tensor((6, 32), FP32), text.tensor((-1, 32), FP32)
    rows = text.emit(f'"pypto.dim"({where.name}) {{axis = 0 : i64}} : ({where.type}) -> index', "index")
    text.store(text.operator("exp", text.load(x, [6, 0], [4, 32], [rows, 32])), out, [6, 0])
    kernel = Kernel(text)
    result = np.zeros((6, 32), np.float32)
    assert kernel(numbers((6, 32), FP32), result, np.zeros((0, 32), np.float32)) == 0
    assert not result.any()
    assert kernel(numbers((6, 32), FP32), result, np.zeros((1, 32), np.float32)) != 0
    assert not result.any()


def test_a_valid_shape_beyond_its_tile_is_reported():
    text = ModuleText()
    x, out, where = text.tensor((64, 32), FP32), text.tensor((64, 32), FP32), text.tensor((-1, 32), FP32)
    rows = text.emit(f'"pypto.dim"({where.name}) {{axis = 0 : i64}} : ({where.type}) -> index', "index")
    tile = text.operator("exp", text.load(x, [0, 0], [4, 32], [rows, 32]))
    text.store(text.operator("row_expand_sub", tile, text.operator("row_max", tile)), out, [0, 0])
    kernel = Kernel(text)
    for count in (3, 4, 5, 60):
        result = np.zeros((64, 32), np.float32)
        status = kernel(numbers((64, 32), FP32), result, np.zeros((count, 32), np.float32))
        assert (status != 0) == (count > 4)
        assert result.any() == (count <= 4)
