from __future__ import annotations

import pytest

from pypto_jit.dtypes import FP16, FP32
from pypto_jit.errors import LayoutError
from pypto_jit.targets import Space
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, line, operations, result


def spaces(text, operation):
    """The memories that the results of an operation are in, in order."""
    return [result(found).split('"')[1] for found in text.splitlines() if f'"pypto.{operation}"' in found]


@pytest.fixture
def text():
    return ModuleText()


def load(text, space=Space.VEC, shape=(16, 16), dtype=FP32):
    return text.load(text.tensor(shape, dtype), [0, 0], shape, space=space)


def out(text):
    return text.tensor((16, 16), FP32)


def test_loads_for_the_cube_land_in_mat(text):
    text.store(text.operator("matmul", load(text), load(text)), out(text), [0, 0])
    placed = after(text, "spaces")
    assert spaces(placed, "load") == ["mat", "mat"]
    assert spaces(placed, "move") == ["left", "right"]


def test_a_load_that_both_cores_read_is_done_twice(text):
    tile = load(text)
    text.store(text.operator("matmul", tile, load(text)), out(text), [0, 0])
    text.store(text.operator("neg", tile), out(text), [0, 0])
    placed = after(text, "spaces")
    assert sorted(spaces(placed, "load")) == ["mat", "mat", "vec"]
    assert spaces(placed, "move") == ["left", "right"]


def test_a_load_into_mat_that_a_vector_instruction_reads_is_done_twice(text):
    tile = load(text, Space.MAT)
    text.store(text.operator("matmul", tile, load(text)), out(text), [0, 0])
    text.store(text.operator("neg", tile), out(text), [0, 0])
    assert sorted(spaces(after(text, "spaces"), "load")) == ["mat", "mat", "vec"]


def test_a_load_that_is_moved_to_mat_is_loaded_there(text):
    tile = text.operator("move", load(text), space=Space.MAT)
    text.store(text.operator("matmul", tile, load(text, Space.MAT)), out(text), [0, 0])
    placed = after(text, "spaces")
    assert spaces(placed, "load") == ["mat", "mat"]
    assert spaces(placed, "move") == ["left", "right"]


def test_the_result_of_vector_work_crosses_to_the_cube_once(text):
    tile = text.operator("neg", load(text))
    for _ in range(2):
        text.store(text.operator("matmul", tile, tile), out(text), [0, 0])
    placed = after(text, "spaces")
    assert spaces(placed, "move") == ["mat", "left", "right"]


def test_a_product_crosses_to_the_vector_core_right_after_the_matmul(text):
    product = text.operator("matmul", load(text), load(text))
    with text.loop(3):
        text.store(text.operator("relu", product), out_tensor(text), [0, 0])
    names = operations(after(text, "spaces"))
    assert names[names.index("matmul") + 1] == "move"
    assert spaces(after(text, "spaces"), "move")[-1] == "vec"


def out_tensor(text):
    return text.parameters[0]


def test_a_product_reaches_another_matmul_through_mat(text):
    product = text.operator("matmul", load(text), load(text))
    text.store(text.operator("matmul", product, load(text)), out(text), [0, 0])
    assert spaces(after(text, "spaces"), "move") == ["left", "right", "mat", "left", "right"]


def test_a_transposed_load_becomes_a_transposed_view(text):
    turned = text.operator("transpose", load(text, shape=(16, 16)))
    text.store(text.operator("matmul", load(text), turned), out(text), [0, 0])
    placed = after(text, "spaces")
    assert "transpose_view" in operations(placed)
    assert "transpose" not in operations(placed)
    assert spaces(placed, "load") == ["mat", "mat"]


def test_the_bias_goes_through_mat_and_is_widened(text):
    bias = load(text, shape=(1, 16), dtype=FP16)
    tiles = load(text, dtype=FP16), load(text, dtype=FP16)
    text.store(text.operator("matmul_bias", *tiles, bias), out(text), [0, 0])
    placed = after(text, "spaces")
    assert spaces(placed, "move") == ["left", "right", "bias"]
    assert result(line(placed, "pypto.move", 2)) == '!pypto.tile<[1, 16], f32, "bias", [1, 16]>'


def test_a_loop_carried_vector_tile_crosses_inside_of_the_loop(text):
    with text.loop(2, carried=[load(text)]) as loop:
        product = text.operator("matmul", loop.carried[0], load(text))
        loop.yields = [text.operator("relu", product)]
    text.store(loop.results[0], out(text), [0, 0])
    placed = after(text, "spaces")
    assert spaces(placed, "move") == ["mat", "left", "right", "vec"]


def test_a_carried_mat_tile_cannot_reach_the_vector_core(text):
    with text.loop(2, carried=[load(text, Space.MAT)]) as loop:
        text.store(text.operator("neg", loop.carried[0]), out_tensor(text), [0, 0])
        loop.yields = [loop.carried[0]]
    with pytest.raises(LayoutError, match="neg needs a tile in Vec"):
        after(text, "spaces")


def test_vector_kernels_are_left_alone(text):
    text.store(text.operator("neg", load(text)), out(text), [0, 0])
    assert operations(after(text, "spaces")) == ["load", "neg", "store"]
