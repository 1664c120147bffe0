"""Whole kernels through every pass, run by a slow machine and held against NumPy."""

from __future__ import annotations

import numpy
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3, A5, Space, Target
from tests.module_text import ModuleText, Value
from tests.unit.lowering.machine import Machine


def run(text: ModuleText, *arrays: numpy.ndarray, target: Target = A2A3, blocks: int = 1) -> list[str]:
    """Lower and run; the names of the functions there were."""
    with borrowed_context():
        module = ir.Module.parse(str(text))
        lower(module, target)
        Machine(module, target).run({f"p{k}": array for k, array in enumerate(arrays)}, blocks=blocks)
        return [function.attributes["sym_name"].value for function in module.body.operations]


def data(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).integers(-4, 5, shape).astype(dtype.numpy)


def zeros(shape: tuple[int, ...], dtype: DType = FP32) -> numpy.ndarray:
    return numpy.zeros(shape, dtype.numpy)


def empty(text: ModuleText, shape: tuple[int, int], dtype: DType, space: Space) -> Value:
    return text.operator("create_tile", shape=shape, dtype=dtype, space=space)


@pytest.mark.parametrize("target", [A2A3, A5], ids=str)
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8], ids=str)
def test_matmul_accumulates_over_blocks_of_k(dtype, target):
    m, k, n, block = 33, 70, 17, 32
    text = ModuleText(target)
    a, b, c = (
        text.tensor((m, k), dtype),
        text.tensor((k, n), dtype),
        text.tensor((m, n), INT32 if dtype == INT8 else FP32),
    )

    def operands(start, valid):
        left = text.load(a, [0, start], (m, block), [m, valid])
        return left, text.load(b, [start, 0], (block, n), [valid, n])

    first = text.operator("matmul", *operands(0, block))
    middle = text.operator("matmul_acc", first, *operands(block, block))
    last = text.operator("matmul_acc", middle, *operands(2 * block, k - 2 * block))
    text.store(last, c, [0, 0])
    x, y = data((m, k), dtype, 1), data((k, n), dtype, 2)
    out = zeros((m, n), INT32 if dtype == INT8 else FP32)
    assert run(text, x, y, out, target=target) == ["kernel"]
    numpy.testing.assert_array_equal(out, x.astype("float64") @ y.astype("float64"))


def test_matmul_carries_its_accumulator_through_a_loop():
    m, k, n, block = 16, 96, 40, 32
    text = ModuleText()
    a, b, c = text.tensor((m, k), FP32), text.tensor((k, n), FP32), text.tensor((m, n), FP32)
    start = text.operator("matmul", text.load(a, [0, 0], (m, block)), text.load(b, [0, 0], (block, n)))
    with text.loop(2, carried=[start]) as loop:
        offset = text.arith("muli", text.arith("addi", loop.index, text.constant(1)), text.constant(block))
        left, right = text.load(a, [0, offset], (m, block)), text.load(b, [offset, 0], (block, n))
        loop.yields = [text.operator("matmul_acc", loop.carried[0], left, right)]
    text.store(loop.results[0], c, [0, 0])
    x, y, out = data((m, k), FP32, 1), data((k, n), FP32, 2), zeros((m, n))
    run(text, x, y, out)
    numpy.testing.assert_array_equal(out, x @ y)


def test_an_accumulator_started_in_an_if_is_not_copied():
    m, n, block, turns = 16, 16, 16, 3
    text = ModuleText()
    a, b, c = text.tensor((m, block * turns), FP32), text.tensor((block * turns, n), FP32), text.tensor((m, n), FP32)
    blank = empty(text, (m, n), FP32, Space.ACC)
    with text.loop(turns, carried=[blank]) as loop:
        offset = text.arith("muli", loop.index, text.constant(block))
        left, right = text.load(a, [0, offset], (m, block)), text.load(b, [offset, 0], (block, n))
        zero = text.constant(0)
        text.lines.append(f"{text.indent}%first = arith.cmpi eq, {loop.index.name}, {zero.name} : index")
        text.lines.append(f"{text.indent}%sum = scf.if %first -> ({blank.type}) {{")
        fresh = text.operator("matmul", left, right)
        text.lines.append(f"{text.indent}scf.yield {fresh.name} : {blank.type}")
        text.lines.append(text.indent + "} else {")
        added = text.operator("matmul_acc", loop.carried[0], left, right)
        text.lines.append(f"{text.indent}scf.yield {added.name} : {blank.type}")
        text.lines.append(text.indent + "}")
        loop.yields = [Value("%sum", blank.type)]
    text.store(loop.results[0], c, [0, 0])
    x, y, out = data((m, block * turns), FP32, 1), data((block * turns, n), FP32, 2), zeros((m, n))
    assert run(text, x, y, out) == ["kernel"]
    numpy.testing.assert_array_equal(out, x @ y)


@pytest.mark.parametrize("dtype", [FP32, FP16], ids=str)
def test_matmul_bias_moves_the_bias_and_widens_it(dtype):
    text = ModuleText()
    a, b = text.tensor((20, 24), dtype), text.tensor((24, 30), dtype)
    bias, c = text.tensor((1, 30), dtype), text.tensor((20, 30), FP32)
    tiles = [text.load(t, [0, 0], t.type.shape) for t in (a, b, bias)]
    text.store(text.operator("matmul_bias", *tiles), c, [0, 0])
    x, y, z, out = data((20, 24), dtype, 1), data((24, 30), dtype, 2), data((1, 30), dtype, 3), zeros((20, 30))
    assert run(text, x, y, z, out) == ["kernel"]
    numpy.testing.assert_array_equal(out, x.astype("float32") @ y.astype("float32") + z.astype("float32"))


@pytest.mark.parametrize(("name", "space"), [("transpose", Space.VEC), ("transpose_view", Space.MAT)])
def test_a_transposed_operand_of_the_cube_is_only_seen_differently(name, space):
    text = ModuleText()
    a, b, c = text.tensor((20, 24), BF16), text.tensor((30, 24), BF16), text.tensor((20, 30), FP32)
    right = text.operator(name, text.load(b, [0, 0], (30, 24), space=space))
    text.store(text.operator("matmul", text.load(a, [0, 0], (20, 24)), right), c, [0, 0])
    x, y, out = data((20, 24), BF16, 1), data((30, 24), BF16, 2), zeros((20, 30))
    assert run(text, x, y, out) == ["kernel"]
    numpy.testing.assert_array_equal(out, x.astype("float32") @ y.astype("float32").T)


@pytest.mark.parametrize("blocks", [1, 3])
def test_matmul_then_relu_hands_over_in_global_memory(blocks):
    rows, block = 40, 16
    text = ModuleText()
    a, b, c = text.tensor((rows, 24), FP32), text.tensor((24, 20), FP32), text.tensor((rows, 20), FP32)
    with text.loop(rows, block, parallel=True) as loop:
        valid = text.arith("minsi", text.constant(block), text.arith("subi", text.constant(rows), loop.index))
        left = text.load(a, [loop.index, 0], (block, 24), [valid, 24])
        product = text.operator("matmul", left, text.load(b, [0, 0], (24, 20)))
        text.store(text.operator("relu", product), c, [loop.index, 0])
    x, y, out = data((rows, 24), FP32, 1), data((24, 20), FP32, 2), zeros((rows, 20))
    assert run(text, x, y, out, blocks=blocks) == ["kernel_0_cube", "kernel_1_vector"]
    numpy.testing.assert_array_equal(out, numpy.maximum(x @ y, 0))


def test_attention_with_an_online_softmax_is_staged():
    queries, keys, width, block = 16, 48, 32, 16
    text = ModuleText()
    q, k = text.tensor((queries, width), FP32), text.tensor((keys, width), FP32)
    v, out = text.tensor((keys, width), FP32), text.tensor((queries, width), FP32)
    tile = text.load(q, [0, 0], (queries, width))
    floor = text.operator("full", text.constant("-1.0e30", "f32"), shape=(queries, 1), dtype=FP32, space=Space.VEC)
    none = text.operator("full", text.constant("0.0", "f32"), shape=(queries, 1), dtype=FP32, space=Space.VEC)
    blank = text.operator("full", text.constant("0.0", "f32"), shape=(queries, width), dtype=FP32, space=Space.VEC)
    with text.loop(keys, block, carried=[floor, none, blank]) as loop:
        top, total, mean = loop.carried
        turned = text.operator("transpose", text.load(k, [loop.index, 0], (block, width)))
        scores = text.operator("muls", text.operator("matmul", tile, turned), text.constant("0.125", "f32"))
        new_top = text.operator("maximum", top, text.operator("row_max", scores))
        weights = text.operator("exp", text.operator("row_expand_sub", scores, new_top))
        scale = text.operator("exp", text.operator("sub", top, new_top))
        new_total = text.operator("add", text.operator("mul", total, scale), text.operator("row_sum", weights))
        part = text.operator("matmul", weights, text.load(v, [loop.index, 0], (block, width)))
        kept = text.operator("row_expand_mul", mean, scale)
        loop.yields = [new_top, new_total, text.operator("add", kept, part)]
    text.store(text.operator("row_expand_div", loop.results[2], loop.results[1]), out, [0, 0])
    arrays = [data(s, FP32, n) for n, s in enumerate([(queries, width), (keys, width), (keys, width)])]
    given = zeros((queries, width))
    names = run(text, *arrays, given)
    assert names == ["kernel_0_cube", "kernel_1_vector", "kernel_2_cube", "kernel_3_vector"]
    scores = arrays[0] @ arrays[1].T * 0.125
    weights = numpy.exp(scores - scores.max(1, keepdims=True))
    numpy.testing.assert_allclose(given, weights @ arrays[2] / weights.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_tiles_of_three_dimensions_are_flattened():
    text = ModuleText()
    a, c = text.tensor((4, 6, 10), FP32), text.tensor((4, 6, 10), FP32)
    tile = text.load(a, [1, 2, 3], (2, 3, 5))
    total = text.operator("row_sum", tile)
    text.store(text.operator("row_expand_add", tile, total), c, [1, 2, 3])
    x, out = data((4, 6, 10), FP32), zeros((4, 6, 10))
    run(text, x, out)
    box = x[1:3, 2:5, 3:8]
    expected = zeros((4, 6, 10))
    expected[1:3, 2:5, 3:8] = box + box.sum(2, keepdims=True)
    numpy.testing.assert_array_equal(out, expected)


def test_a_column_of_a_wide_tensor_is_gathered_and_scattered():
    text = ModuleText()
    a, c = text.tensor((12, 7), FP16), text.tensor((12, 5), FP16)
    column = text.load(a, [1, 3], (10, 1))
    text.store(text.operator("neg", column), c, [2, 4])
    x, out = data((12, 7), FP16), zeros((12, 5), FP16)
    run(text, x, out)
    expected = zeros((12, 5), FP16)
    expected[2:12, 4] = -x[1:11, 3]
    numpy.testing.assert_array_equal(out, expected)


def test_tensors_are_read_and_written_by_their_strides():
    text = ModuleText()
    a, c = text.tensor((6, 8), FP32, strides=(-1, -1)), text.tensor((6, 8), FP32, strides=(-1, 1))
    text.store(text.operator("neg", text.load(a, [1, 0], (4, 8))), c, [1, 0])
    x, whole = data((8, 6), FP32).T, zeros((6, 20))
    run(text, x, whole[:, 3:11])
    expected = zeros((6, 20))
    expected[1:5, 3:11] = -x[1:5]
    numpy.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("blocks", [1, 2])
def test_two_parallel_loops_are_two_launches(blocks):
    text = ModuleText()
    a, b, c = (text.tensor((8, 16), FP32) for _ in range(3))
    for source, goal in ((a, b), (b, c)):
        with text.loop(8, 2, parallel=True) as loop:
            # The second loop reads what other iterations of the first one wrote.
            row = text.arith("subi", text.constant(6), loop.index)
            text.store(text.operator("neg", text.load(source, [row, 0], (2, 16))), goal, [loop.index, 0])
    x, y, out = data((8, 16), FP32), zeros((8, 16)), zeros((8, 16))
    assert run(text, x, y, out, blocks=blocks) == ["kernel_0_vector", "kernel_1_vector"]
    numpy.testing.assert_array_equal(out, x)


def test_low_precision_scores_keep_their_dtype_through_a_workspace():
    text = ModuleText()
    a, b, c = text.tensor((16, 16), FP16), text.tensor((16, 16), FP16), text.tensor((16, 16), FP32)
    left, right = text.load(a, [0, 0], (16, 16)), text.load(b, [0, 0], (16, 16))
    half = text.operator("cast", text.operator("exp", left), dtype=FP32)
    text.store(text.operator("matmul", text.operator("exp", left), right), c, [0, 0])
    assert half.type.dtype == FP32
    x, y, out = data((16, 16), FP16, 1), data((16, 16), FP16, 2), zeros((16, 16))
    assert run(text, x, y, out) == ["kernel_0_vector", "kernel_1_cube"]
    low = numpy.exp(x.astype("float32")).astype("float16").astype("float32")
    numpy.testing.assert_allclose(out, low @ y.astype("float32"), rtol=1e-5)


def test_conversions_around_reshapes_keep_the_elements():
    text = ModuleText()
    a, b = text.tensor((4, 8), FP16), text.tensor((8, 4), FP16)
    wide = text.operator("reshape", text.operator("cast", text.load(a, [0, 0], (4, 8)), dtype=FP32), shape=(1, 32))
    tall = text.operator("reshape", text.operator("neg", wide), shape=(2, 16))
    narrow = text.operator("cast", text.operator("reshape", tall, shape=(4, 8)), dtype=FP16)
    text.store(text.operator("transpose", narrow), b, [0, 0])
    x, out = data((4, 8), FP16), zeros((8, 4), FP16)
    run(text, x, out)
    numpy.testing.assert_array_equal(out, -x.T)
