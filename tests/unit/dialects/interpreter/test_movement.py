from __future__ import annotations

import numpy
import pytest

from pypto_jit.dialects.interpreter.tiles import embed, poison
from pypto_jit.dtypes import ALL, BF16, FP16, FP32, INT8, INT16, INT32
from pypto_jit.errors import BoundsError
from pypto_jit.targets import Space
from tests.module_text import ModuleText

BOX = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_a_tile_is_poisoned_outside_of_its_valid_region(dtype):
    tile = embed(numpy.ones((2, 3), dtype.numpy), (3, 5), dtype)
    assert tile.valid == (2, 3)
    assert tile.shape == (3, 5)
    inside = tile.array.astype(numpy.float64) == 1
    assert inside.sum() == 6
    assert inside[:2, :3].all()
    if not dtype.is_float:
        assert (tile.array[2] == poison(dtype)).all()


def copy_kernel(tensor_shape, dtype, offsets, shape, valid, out_offsets=(0, 0)) -> ModuleText:
    text = ModuleText()
    x, out = text.tensor(tensor_shape, dtype), text.tensor(tensor_shape, dtype)
    text.store(text.load(x, offsets, shape, valid), out, out_offsets)
    return text


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_load_and_store_move_the_valid_box(run_module, dtype):
    x = BOX.astype(dtype.numpy)
    out = numpy.full_like(x, 99)
    run_module(copy_kernel((4, 6), dtype, [1, 2], [4, 4], [2, 3], [2, 0]), x, out)
    expected = numpy.full_like(x, 99)
    expected[2:4, 0:3] = x[1:3, 2:5]
    numpy.testing.assert_array_equal(out, expected)


def test_strided_tensors_are_read_and_written_in_place(run_module):
    memory = numpy.zeros((8, 12), numpy.float32)
    run_module(copy_kernel((4, 6), FP32, [0, 0], [4, 6], None), BOX.T.copy().T, memory[::2, ::2])
    numpy.testing.assert_array_equal(memory[::2, ::2], BOX)
    assert memory[1::2].sum() == memory[:, 1::2].sum() == 0


@pytest.mark.parametrize(
    ("offsets", "valid"),
    [([1, 0], [4, 6]), ([0, 1], [4, 6]), ([-1, 0], [4, 6]), ([0, 7], [1, 1]), ([5, 0], [0, 6])],
)
def test_a_load_outside_of_its_tensor_names_the_line(run_module, offsets, valid):
    text = copy_kernel((4, 6), FP32, offsets, [4, 6], valid)
    text.lines = [line + ' loc("kernel.py":12:9)' if "pypto.load" in line else line for line in text.lines]
    with pytest.raises(BoundsError) as caught:
        run_module(text, BOX, BOX.copy())
    assert str(caught.value) == (
        "[PYPTO-BOUNDS] the box of a load leaves its tensor\n"
        "  --> kernel.py:12:9\n"
        f"  found:    offsets {offsets}, extents {valid}\n"
        "  expected: a box inside of shape [4, 6]"
    )


def test_a_store_outside_of_its_tensor(run_module):
    out = numpy.zeros_like(BOX)
    with pytest.raises(BoundsError, match="the box of a store leaves its tensor"):
        run_module(copy_kernel((4, 6), FP32, [0, 0], [4, 6], None, [1, 0]), BOX, out)
    assert out.sum() == 0


def test_an_empty_box_touches_nothing(run_module):
    out = numpy.zeros_like(BOX)
    run_module(copy_kernel((4, 6), FP32, [4, 0], [4, 6], [0, 6], [4, 0]), BOX, out)
    assert out.sum() == 0


def dynamic_extent(extent: int) -> ModuleText:
    text = ModuleText()
    x, out = text.tensor((4, 6), FP32), text.tensor((4, 6), FP32)
    rows = text.arith("addi", text.constant(extent), text.constant(0))
    text.store(text.load(x, [0, 0], [2, 6], [rows, 6]), out, [0, 0])
    return text


def test_dynamic_extents(run_module):
    out = numpy.zeros_like(BOX)
    run_module(dynamic_extent(1), BOX, out)
    numpy.testing.assert_array_equal(out[:1], BOX[:1])
    assert out[1:].sum() == 0


@pytest.mark.parametrize(("extent", "message"), [(-1, "leaves its tensor"), (3, "larger than its tile")])
def test_impossible_dynamic_extents(run_module, extent, message):
    with pytest.raises(BoundsError, match=message):
        run_module(dynamic_extent(extent), BOX, BOX.copy())


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=repr)
def test_an_accumulator_is_rounded_when_it_is_stored_narrower(run_operator, dtype):
    lhs = numpy.array([[1.0, 2.0**-9 + 2.0**-12]], numpy.float32)
    given = run_operator("matmul", lhs, numpy.ones((2, 1), numpy.float32), result=dtype)
    # Spacing at 1 is 2**-10 in FP16 and 2**-7 in BF16.
    assert float(given[0, 0]) == (1 + 2.0**-9 if dtype == FP16 else 1.0)


@pytest.mark.parametrize(("shape", "tensor"), [((1, 1, 4, 6), (4, 6)), ((6,), (4, 6)), ((4, 6), (1, 4, 6))])
def test_store_aligns_ranks_on_the_right(run_module, shape, tensor):
    text = ModuleText()
    source = numpy.arange(numpy.prod(shape), dtype=numpy.float32).reshape(shape)
    x, out = text.tensor(shape, FP32), text.tensor(tensor, FP32)
    text.store(text.load(x, [0] * len(shape), shape), out, [0] * len(tensor))
    given = numpy.zeros(tensor, numpy.float32)
    run_module(text, source, given)
    numpy.testing.assert_array_equal(given.ravel()[: source.size], source.ravel())
    assert given.ravel()[source.size :].sum() == 0


def test_ci(run_module):
    text = ModuleText()
    out = text.tensor((1, 5), INT16)
    text.store(text.operator("ci", text.constant(32765, "i16"), shape=(1, 5), dtype=INT16), out, [0, 0])
    target = numpy.zeros((1, 5), numpy.int16)
    run_module(text, target)
    assert target.tolist() == [[32765, 32766, 32767, -32768, -32767]]


def test_full(run_module):
    text = ModuleText()
    out = text.tensor((2, 3), INT16)
    text.store(text.operator("full", text.constant(-7, "i16"), shape=(2, 3), dtype=INT16), out, [0, 0])
    given = numpy.zeros((2, 3), numpy.int16)
    run_module(text, given)
    assert (given == -7).all()


def test_create_tile_is_poison(run_module):
    text = ModuleText()
    out = text.tensor((2, 3), FP32)
    text.store(text.operator("create_tile", shape=(2, 3), dtype=FP32, space=Space.VEC), out, [0, 0])
    given = numpy.zeros((2, 3), numpy.float32)
    run_module(text, given)
    assert numpy.isnan(given).all()


def test_reshape_keeps_row_major_order(run_operator):
    numpy.testing.assert_array_equal(run_operator("reshape", BOX, shape=(8, 3)), BOX.reshape(8, 3))


def test_reshape_of_a_partly_valid_vector(run_module):
    text = ModuleText()
    x, out = text.tensor((6, 1), FP32), text.tensor((1, 6), FP32)
    rows = text.arith("subi", text.constant(6), text.constant(2))
    tile = text.load(x, [0, 0], [6, 1], [rows, 1])
    text.store(text.operator("reshape", tile, shape=(1, 6)), out, [0, 0])
    given = numpy.full((1, 6), -1, numpy.float32)
    run_module(text, numpy.arange(6, dtype=numpy.float32).reshape(6, 1), given)
    assert given.ravel().tolist() == [0, 1, 2, 3, -1, -1]


@pytest.mark.parametrize("dtype", [FP32, FP16, INT8, INT32], ids=repr)
def test_transpose(run_operator, dtype):
    numpy.testing.assert_array_equal(run_operator("transpose", BOX.astype(dtype.numpy)), BOX.T.astype(dtype.numpy))


def test_transpose_view_and_move(run_operator):
    numpy.testing.assert_array_equal(run_operator("transpose_view", BOX, space=Space.MAT), BOX.T)
    numpy.testing.assert_array_equal(run_operator("transpose_view", BOX[:1], space=Space.MAT), BOX[:1].T)


def test_move_changes_the_memory_only(run_module):
    text = ModuleText()
    x, y, out = text.tensor((4, 6), FP32), text.tensor((6, 4), FP32), text.tensor((4, 4), FP32)
    left = text.operator("move", text.load(x, [0, 0], [4, 6], space=Space.MAT), space=Space.LEFT)
    right = text.operator("move", text.load(y, [0, 0], [6, 4], space=Space.MAT), space=Space.RIGHT)
    acc = text.operator("matmul", left, right)
    acc = text.operator("matmul_acc", acc, left, right)
    text.store(acc, out, [0, 0])
    given = numpy.zeros((4, 4), numpy.float32)
    run_module(text, BOX, BOX.T.copy(), given)
    numpy.testing.assert_array_equal(given, 2 * BOX @ BOX.T)


def test_concat(run_module):
    text = ModuleText()
    x, y, out = text.tensor((2, 3), INT32), text.tensor((2, 4), INT32), text.tensor((2, 7), INT32)
    joined = text.operator("concat", text.load(x, [0, 0], [2, 3]), text.load(y, [0, 0], [2, 4], [2, 2]))
    text.store(joined, out, [0, 0])
    given = numpy.zeros((2, 7), numpy.int32)
    run_module(text, numpy.full((2, 3), 1, numpy.int32), numpy.full((2, 4), 2, numpy.int32), given)
    assert given.tolist() == [[1, 1, 1, 2, 2, 0, 0]] * 2
