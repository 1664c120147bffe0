"""Tiles and boxes as rows and columns."""

from __future__ import annotations

from typing import Any

from pypto_jit.dialects.types import TileBufType
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.cpu.planes import Plane, box_plane, tile_plane
from pypto_jit.lowering.cpu.program import Box, Tile, View
from pypto_jit.targets import COLUMN_VECTOR, ROW_MAJOR, Space


def tile(shape, valid, layout=ROW_MAJOR) -> Tile:
    return Tile(TileBufType(Space.VEC, FP32, shape, valid, layout), 0, 0, valid)


def box(sizes, strides) -> Box:
    pointer: Any = None
    return Box(View(pointer, FP32, sizes, strides), (0,) * len(sizes), sizes)


ROWS = tile((24, 8), (24, 8))


def test_a_column_vector_is_a_row():
    assert tile_plane(tile((16, 1), (10, 1), COLUMN_VECTOR)) == Plane(1, 10, 0, 1)
    assert tile_plane(tile((1, 16), (1, 10))) == Plane(1, 10, 0, 1)
    assert tile_plane(tile((4, 16), (3, 10))) == Plane(3, 10, 16, 1)


def test_boxes():
    assert box_plane(box((5, 8), (100, 1)), ROWS) == Plane(5, 8, 100, 1)
    assert box_plane(box((8,), (1,)), ROWS) == Plane(1, 8, 0, 1)
    assert box_plane(box((1, 1, 5, 8), (1, 1, 100, 2)), ROWS) == Plane(5, 8, 100, 2)


def test_leading_dimensions_collapse_where_rows_are_evenly_spaced():
    assert box_plane(box((2, 3, 8), (300, 100, 1)), ROWS) == Plane(6, 8, 100, 1)
    assert box_plane(box((4, 2, 3, 8), (600, 300, 100, 1)), ROWS) == Plane(24, 8, 100, 1)
    assert box_plane(box((2, 3, 8), (500, 100, 1)), ROWS) is None
    assert box_plane(box((2, 1, 8), (500, 100, 1)), ROWS) == Plane(2, 8, 500, 1)


def test_a_column_becomes_a_row():
    column = tile((16, 1), (10, 1), COLUMN_VECTOR)
    assert box_plane(box((10, 1), (64, 1)), column) == Plane(1, 10, 0, 64)
    assert box_plane(box((10, 2), (64, 1)), column) is None
