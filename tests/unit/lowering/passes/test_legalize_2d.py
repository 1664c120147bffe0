from __future__ import annotations

import pytest

from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.dtypes import FP32
from pypto_jit.errors import ShapeError
from pypto_jit.lowering.passes.legalize_2d import flatten
from pypto_jit.targets import Space
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, line, operations, result


def tile(shape, valid=None):
    return TileType(shape, FP32, Space.VEC, valid or shape)


@pytest.mark.parametrize(
    ("shape", "valid", "flat", "flat_valid"),
    [
        ((7,), (5,), (1, 7), (1, 5)),
        ((2, 3, 5), (2, 3, 5), (6, 5), (6, 5)),
        ((2, 3, 5), (1, 3, 4), (6, 5), (3, 4)),
        ((2, 3, 5), (1, 2, 5), (6, 5), (2, 5)),
        ((1, 3, 5), (1, 2, 5), (3, 5), (2, 5)),
        ((4, 1, 3, 8), (DYNAMIC, 1, 3, 8), (12, 8), (DYNAMIC, 8)),
        ((2, 3, 5), (2, 3, DYNAMIC), (6, 5), (6, DYNAMIC)),
        ((2, 3, 5), (0, 3, 5), (6, 5), (0, 5)),
    ],
)
def test_the_valid_region_is_a_prefix_of_the_rows(shape, valid, flat, flat_valid):
    assert flatten(tile(shape, valid)) == tile(flat, flat_valid)


@pytest.mark.parametrize("valid", [(2, 2, 5), (DYNAMIC, 2, 5), (2, DYNAMIC, 5)])
def test_a_partly_valid_inner_dimension_is_refused(valid):
    with pytest.raises(ShapeError, match="only the outermost dimension"):
        flatten(tile((2, 3, 5), valid))


def test_two_leading_extents_at_run_time_are_refused():
    with pytest.raises(ShapeError, match="only one leading extent"):
        flatten(tile((1, 4, 3, 8), (DYNAMIC, DYNAMIC, 3, 8)))


def test_loads_keep_their_box_and_stores_remember_theirs():
    text = ModuleText()
    a, b = text.tensor((4, 6, 8), FP32), text.tensor((4, 6, 8), FP32)
    rows = text.arith("minsi", text.constant(2), text.constant(1))
    loaded = text.load(a, [0, 1, 0], (2, 3, 8), [rows, 3, 8])
    text.store(text.operator("neg", loaded), b, [0, 1, 0])
    flat = after(text, "legalize-2d")
    assert result(line(flat, "pypto.load")) == '!pypto.tile<[6, 8], f32, "vec", [-1, 8]>'
    assert line(flat, "pypto.load").count("index") == 6
    assert "box = array<i64: -1, 3, 8>" in line(flat, "pypto.store")


def test_a_reshape_to_the_flattened_shape_disappears():
    text = ModuleText()
    a, b = text.tensor((2, 3, 8), FP32), text.tensor((6, 8), FP32)
    loaded = text.load(a, [0, 0, 0], (2, 3, 8))
    text.store(text.operator("reshape", loaded, shape=(6, 8)), b, [0, 0])
    assert operations(after(text, "legalize-2d")) == ["load", "store"]


def test_carried_tiles_are_flattened_too():
    text = ModuleText()
    a, b = text.tensor((9,), FP32), text.tensor((9,), FP32)
    with text.loop(3, carried=[text.load(a, [0], (9,))]) as loop:
        loop.yields = [text.operator("neg", loop.carried[0])]
    text.store(loop.results[0], b, [0])
    flat = after(text, "legalize-2d")
    assert '-> (!pypto.tile<[1, 9], f32, "vec", [1, 9]>)' in flat
    assert "box = array<i64: 9>" in flat
