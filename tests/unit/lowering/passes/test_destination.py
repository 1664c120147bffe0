from __future__ import annotations

import pytest

from pypto_jit.dtypes import FP16, FP32, INT8
from pypto_jit.errors import LayoutError, ShapeError
from pypto_jit.targets import A2A3, A5, Space
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, line, operations, types

BEFORE = ("legalize-2d", "spaces", "column-vectors", "dead-code", "stage", "destination", "canonicalize")


@pytest.fixture
def text():
    return ModuleText()


def tensor(text, shape=(4, 8), dtype=FP32):
    return text.tensor(shape, dtype)


def load(text, shape=(4, 8), dtype=FP32, space=Space.VEC):
    return text.load(tensor(text, shape, dtype), [0, 0], shape, space=space)


def store(text, tile):
    text.store(tile, text.tensor(tile.type.shape, tile.type.dtype), [0, 0])


def lowered(text, target=A2A3):
    return after(text, *BEFORE, target=target)


def buffer(outcome, operation, position=-1, number=0):
    return types(line(outcome, f"pto.{operation}", number))[position]


def test_rows_are_padded_to_32_bytes_and_the_shape_becomes_valid(text):
    store(text, text.operator("neg", load(text, (3, 7), FP16)))
    assert buffer(lowered(text), "tneg") == (
        '!pto.tile_buf<"vec", f16, [3, 16], [3, 7], ["row_major", "none_box"], [512, 0]>'
    )


def test_columns_are_padded_to_32_bytes(text):
    store(text, text.operator("row_max", load(text, (3, 7), FP16)))
    outcome = lowered(text)
    expected = '!pto.tile_buf<"vec", f16, [16, 1], [3, 1], ["col_major", "none_box"], [512, 0]>'
    assert buffer(outcome, "trowmax") == expected
    assert '{layout = "dn"}' in outcome


@pytest.mark.parametrize(("target", "left"), [(A2A3, "row_major"), (A5, "col_major")], ids=["a2a3", "a5"])
def test_cube_tiles_are_padded_to_whole_fractals(target, left):
    text = ModuleText(target)
    store(text, text.operator("matmul", load(text, (5, 7), INT8), load(text, (7, 9), INT8)))
    outcome = lowered(text, target)
    assert [kind.split("<", 1)[1] for kind in types(line(outcome, "pto.tmatmul"))] == [
        f'"left", i8, [32, 32], [5, 7], ["{left}", "row_major"], [512, 0]>',
        '"right", i8, [32, 32], [7, 9], ["row_major", "col_major"], [512, 0]>',
        '"acc", i32, [32, 32], [5, 9], ["col_major", "row_major"], [1024, 0]>',
    ]


def test_a_bias_lies_as_a_row_in_both_memories(text):
    tiles = load(text, (16, 16)), load(text, (16, 20)), load(text, (1, 20))
    store(text, text.operator("matmul_bias", *tiles))
    outcome = lowered(text)
    assert [kind.split("<", 1)[1] for kind in types(line(outcome, "pto.tmov", 2))] == [
        '"mat", f32, [1, 32], [1, 20], ["row_major", "none_box"], [512, 0]>',
        '"bias", f32, [1, 32], [1, 20], ["row_major", "none_box"], [512, 0]>',
    ]


def test_a_transposed_view_is_another_layout_of_the_same_buffer(text):
    turned = text.operator("transpose_view", load(text, (20, 16), space=Space.MAT))
    store(text, text.operator("matmul", load(text, (16, 16)), turned))
    view = line(lowered(text), "pto.treshape")
    assert types(view) == [
        '!pto.tile_buf<"mat", f32, [32, 16], [20, 16], ["col_major", "row_major"], [512, 0]>',
        '!pto.tile_buf<"mat", f32, [16, 32], [16, 20], ["row_major", "col_major"], [512, 0]>',
    ]


def test_scratch_has_the_shape_of_the_source(text):
    store(text, text.operator("row_sum", load(text, (4, 24))))
    source, scratch, _ = types(line(lowered(text), "pto.trowsum"))
    assert source == scratch


def test_a_scalar_comes_first_where_the_instruction_has_it_first(text):
    store(text, text.operator("rdivs", load(text), text.constant("2.0", "f32")))
    assert ": (f32, !pto.tile_buf" in line(lowered(text), "pto.tdivs")


def test_a_one_by_one_vector_is_given_as_a_column(text):
    row = load(text, (1, 24))
    store(text, text.operator("row_expand_mul", row, text.operator("row_sum", row)))
    assert buffer(lowered(text), "trowexpandmul", 1) == (
        '!pto.tile_buf<"vec", f32, [8, 1], [1, 1], ["col_major", "none_box"], [512, 0]>'
    )


def test_dynamic_extents_are_operands_of_the_buffer(text):
    source = tensor(text, (40, 8))
    with text.loop(40, 4) as loop:
        rows = text.arith("minsi", text.constant(4), text.arith("subi", text.constant(40), loop.index))
        tile = text.load(source, [loop.index, 0], (4, 8), [rows, 8])
        text.store(text.operator("neg", tile), tensor(text, (41, 8)), [loop.index, 0])
    outcome = lowered(text)
    assert "[-1, 8]" in line(outcome, "pto.alloc_tile")
    assert "!pto.partition_tensor_view<[-1, 8], f32>" in line(outcome, "pto.tload")


def test_a_carried_tile_is_written_in_place(text):
    with text.loop(3, carried=[load(text)]) as loop:
        loop.yields = [text.operator("exp", loop.carried[0])]
    store(text, loop.results[0])
    outcome = lowered(text)
    assert operations(outcome, "pto").count("alloc_tile") == 1
    assert "tmov" not in operations(outcome, "pto")
    assert "iter_args" not in outcome


def test_a_carried_tile_that_is_read_late_is_copied(text):
    with text.loop(3, carried=[load(text)]) as loop:
        new = text.operator("exp", loop.carried[0])
        text.store(text.operator("sub", loop.carried[0], new), tensor(text), [0, 0])
        loop.yields = [new]
    store(text, loop.results[0])
    assert operations(lowered(text), "pto").count("tmov") == 1


def test_swapped_tiles_pass_through_a_third_buffer(text):
    with text.loop(3, carried=[load(text), load(text)]) as loop:
        loop.yields = [loop.carried[1], loop.carried[0]]
    store(text, loop.results[0])
    store(text, loop.results[1])
    names = operations(lowered(text), "pto")
    assert names.count("tmov") == 3
    assert names.count("alloc_tile") == 3


def test_a_rotation_sets_one_tile_aside(text):
    with text.loop(3, carried=[load(text) for _ in range(3)]) as loop:
        loop.yields = [loop.carried[1], loop.carried[2], loop.carried[0]]
    for result in loop.results:
        store(text, result)
    assert operations(lowered(text), "pto").count("tmov") == 4


def test_a_tile_that_is_needed_after_a_loop_is_not_overwritten_in_it(text):
    first = load(text)
    with text.loop(3, carried=[first]) as loop:
        loop.yields = [text.operator("exp", loop.carried[0])]
    store(text, loop.results[0])
    store(text, first)
    names = operations(lowered(text), "pto")
    assert names.count("tmov") == 1
    assert names.index("tmov") < names.index("texp")


def test_a_column_is_copied_as_a_row(text):
    with text.loop(3, carried=[load(text, (6, 1)), load(text, (6, 1))]) as loop:
        loop.yields = [loop.carried[1], loop.carried[0]]
    store(text, loop.results[0])
    store(text, loop.results[1])
    for number in range(3):
        assert '[1, 8], [1, 6], ["row_major"' in line(lowered(text), "pto.tmov", number)


def test_an_accumulator_that_is_needed_again_is_refused(text):
    operands = load(text, (16, 16)), load(text, (16, 16))
    first = text.operator("matmul", *operands)
    store(text, text.operator("matmul_acc", first, *operands))
    store(text, first)
    with pytest.raises(LayoutError, match="the accumulator of matmul_acc is needed again") as caught:
        lowered(text)
    assert caught.value.span is not None


def test_an_accumulator_cannot_be_copied(text):
    operands = load(text, (16, 16)), load(text, (16, 16))
    first = text.operator("matmul", *operands)
    with text.loop(2, carried=[first, first]) as loop:
        loop.yields = [text.operator("matmul_acc", acc, *operands) for acc in loop.carried]
    for result in loop.results:
        store(text, result)
    with pytest.raises(LayoutError, match="cannot copy a tile within Acc"):
        lowered(text)


def test_a_blank_accumulator_may_start_two(text):
    operands = load(text, (16, 16)), load(text, (16, 16))
    blank = text.operator("create_tile", shape=(16, 16), dtype=FP32, space=Space.ACC)
    with text.loop(2, carried=[blank, blank]) as loop:
        loop.yields = [text.operator("matmul_acc", acc, *operands) for acc in loop.carried]
    for result in loop.results:
        store(text, result)
    assert operations(lowered(text), "pto").count("tmatmul_acc") == 2


def test_a_reshape_of_padded_rows_is_refused(text):
    store(text, text.operator("reshape", load(text, (4, 7)), shape=(1, 28)))
    with pytest.raises(ShapeError, match="reshape needs rows without padding") as caught:
        lowered(text)
    assert "multiple of 8" in str(caught.value)


def test_a_reshape_without_gaps_is_a_view(text):
    store(text, text.operator("neg", text.operator("reshape", load(text, (4, 8)), shape=(2, 16))))
    assert operations(lowered(text), "pto").count("treshape") == 1


def test_arguments_say_where_they_come_from():
    text = ModuleText()
    source = text.tensor((4, -1), FP32, strides=(-1, 1))
    extent = text.emit(f'"pypto.dim"({source.name}) {{axis = 1 : i64}} : ({source.type}) -> index', "index")
    tile = text.load(source, [0, 0], (4, 8), [4, extent])
    text.store(text.operator("neg", tile), text.tensor((4, 8), FP32), [0, 0])
    head = next(found for found in lowered(text).splitlines() if "func.func" in found)
    assert 'pypto.argument = "p0"' in head
    assert 'pypto.argument = "p1"' in head
    assert 'index {pypto.dim = ["p0", 1]}' in head
    assert 'index {pypto.stride = ["p0", 0]}' in head


def test_a_reshaped_tile_is_padded_anew_to_be_converted(text):
    # [4, 8] FP32 has no padding, as FP16 its rows have; the reshape needs it without, the conversion both alike.
    tile = text.operator("reshape", load(text, (2, 16)), shape=(4, 8))
    store(text, text.operator("cast", tile, dtype=FP16, mode="rint"))
    outcome = lowered(text)
    assert operations(outcome, "pto").count("tmax") == 1
    source, result = types(line(outcome, "pto.tcvt"))
    assert "[4, 16], [4, 8]" in source
    assert "[4, 16], [4, 8]" in result


def test_a_converted_tile_is_padded_anew_to_be_reshaped(text):
    tile = text.operator("cast", load(text, (4, 8), FP16), dtype=FP32, mode="rint")
    store(text, text.operator("reshape", tile, shape=(2, 16)))
    names = operations(lowered(text), "pto")
    assert names.index("tmax") > names.index("tcvt")


def test_a_copy_within_vec_is_padded_like_its_source(text):
    tile = text.operator("move", load(text, (4, 7)), space=Space.VEC)
    store(text, text.operator("cast", tile, dtype=FP16, mode="rint"))
    assert types(line(lowered(text), "pto.tmov"))[0].count("[4, 16]") == 1
