from __future__ import annotations

import numpy
import pytest

from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32
from pypto_jit.lowering.layouts import as_column, as_row, buffer_type, cube_edge, is_column, round_up, transposed
from pypto_jit.targets import A2A3, COLUMN_VECTOR, ROW_MAJOR, ZN, Space
from tests.unit.lowering.machine import positions


def tile(shape, dtype=FP32, space=Space.VEC, valid=None):
    return TileType(shape, dtype, space, valid or shape)


@pytest.mark.parametrize(("value", "multiple", "rounded"), [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16)])
def test_round_up(value, multiple, rounded):
    assert round_up(value, multiple) == rounded


@pytest.mark.parametrize(
    ("shape", "dtype", "physical"),
    [
        ((3, 7), FP32, (3, 8)),
        ((3, 7), FP16, (3, 16)),
        ((3, 7), INT8, (3, 32)),
        ((1, 1), FP32, (1, 8)),
        ((5, 1), FP32, (8, 1)),
        ((5, 1), INT8, (32, 1)),
    ],
)
def test_vec_rows_and_columns_are_padded_to_32_bytes(shape, dtype, physical):
    buffer = buffer_type(tile(shape, dtype), A2A3)
    assert buffer.shape == physical
    assert buffer.valid == shape
    assert buffer.layout == (COLUMN_VECTOR if is_column(tile(shape, dtype)) else ROW_MAJOR)


@pytest.mark.parametrize(
    ("dtype", "space", "edge"),
    [
        (FP32, Space.LEFT, 16),
        (BF16, Space.MAT, 16),
        (INT8, Space.RIGHT, 32),
        (FP32, Space.ACC, 16),
        (INT32, Space.ACC, 32),
    ],
)
def test_cube_edges_fit_each_other(dtype, space, edge):
    assert cube_edge(dtype, space) == edge
    assert buffer_type(tile((1, 17), dtype, space), A2A3).shape == (edge, round_up(17, edge))


def test_a_dynamic_valid_extent_stays():
    assert buffer_type(tile((4, 8), valid=(DYNAMIC, 8)), A2A3).valid == (DYNAMIC, 8)


def test_a_column_and_its_row_are_the_same_elements():
    column = buffer_type(tile((5, 1)), A2A3)
    row = as_row(column)
    assert (row.shape, row.valid) == ((1, 8), (1, 5))
    assert as_column(row) == column
    assert positions(column).ravel().tolist() == positions(row).ravel().tolist()


@pytest.mark.parametrize("dtype", [FP32, BF16, INT8])
def test_a_transposed_view_finds_every_element_where_it_was(dtype):
    buffer = buffer_type(tile((40, 70), dtype, Space.MAT), A2A3)
    view = transposed(buffer)
    assert view.layout == ZN
    numpy.testing.assert_array_equal(positions(view), positions(buffer).T)
