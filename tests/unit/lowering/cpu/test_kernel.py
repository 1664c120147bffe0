"""Whole kernels through the pipeline and the CPU lowering, held against the interpreter and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from pypto_jit.dialects.operators import ROUND_MODES, ROWS
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.lowering.cpu.elements import ELEMENTS, FOLDS
from pypto_jit.lowering.cpu.kernel import ALONE
from pypto_jit.targets import A2A3, A5, Space, Target
from tests.module_text import ModuleText, Value
from tests.native import Kernel, interpreted

RANDOM = np.random.default_rng(3)


def numbers(shape: Sequence[int], dtype: DType) -> np.ndarray:
    """Random values that make arithmetic interesting: mixed signs, some zeros, integers up to the whole range."""
    if dtype.is_float:
        values = RANDOM.normal(size=shape) * np.exp(RANDOM.normal(size=shape))
        return np.where(RANDOM.random(shape) < 0.05, 0, values).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wide = RANDOM.integers(info.min, info.max, shape, endpoint=True)
    return np.where(RANDOM.random(shape) < 0.5, RANDOM.integers(-9, 9, shape), wide).astype(dtype.numpy)


def check(
    build: Callable[[ModuleText], None],
    arrays: Sequence[np.ndarray],
    *,
    target: Target = A2A3,
    blocks: int = 1,
    tolerance: float = 0.0,
) -> Kernel:
    """Compile what ``build`` writes and compare every array afterwards with the interpreter's."""
    text = ModuleText(target)
    build(text)
    kernel = Kernel(text, target)
    mine, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    assert kernel(*mine, blocks=blocks) == 0
    interpreted(text, *theirs)
    for actual, wanted in zip(mine, theirs, strict=True):
        if actual.dtype.kind in "iu":
            np.testing.assert_array_equal(actual, wanted)
        else:
            compare(actual, wanted, tolerance)
    return kernel


def compare(actual: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    unit = float(ml_dtypes.finfo(actual.dtype).eps)
    left, right = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(left, right, rtol=unit * 2 + tolerance, atol=tolerance, equal_nan=True)


def tile_of(text: ModuleText, tensor: Value, shape: Sequence[int] = ()) -> Value:
    """The whole of a tensor."""
    return text.load(tensor, [0] * len(tensor.type.shape), shape or tensor.type.shape)


ELEMENTWISE = [row for row in ROWS if row.rule == "elementwise"]
CASES = [(row.name, dtype, target) for row in ELEMENTWISE for target in (A2A3, A5) for dtype in row.dtypes[target.name]]


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_elementwise_rows(name):
    shapes = [(3, 7), (4, 32), (1, 50)]
    for number, (_, dtype, target) in enumerate(sorted((c for c in CASES if c[0] == name), key=lambda c: str(c[1:]))):
        shape = shapes[number % 3]
        scalar = {True: "1.5", False: "3"}[dtype.is_float]

        def build(text, name=name, dtype=dtype, shape=shape, scalar=scalar):
            row = next(r for r in ROWS if r.name == name)
            x, y, out = (text.tensor(shape, dtype) for _ in range(3))
            operands = [tile_of(text, x)]
            if len(row.operands) == 2:
                kind = row.operands[1].kind
                operands.append(tile_of(text, y) if kind == "tile" else text.constant(scalar, dtype.signless))
            text.store(text.operator(name, *operands), out, [0, 0])

        arrays = [numbers(shape, dtype) for _ in range(3)]
        check(build, arrays, target=target)


CASTS = sorted({(s.name, t.name): (s, t, m) for m in (A2A3, A5) for s, ts in m.casts.items() for t in ts}.items())


@pytest.mark.parametrize("mode", ROUND_MODES)
def test_casts(mode):
    for _, (source, goal, target) in CASTS:

        def build(text, source=source, goal=goal):
            x, out = text.tensor((5, 40), source), text.tensor((5, 40), goal)
            text.store(text.operator("cast", tile_of(text, x), dtype=goal, mode=mode), out, [0, 0])

        x = numbers((5, 40), source)
        check(build, [x, np.zeros((5, 40), goal.numpy)], target=target)


@pytest.mark.parametrize("dtype", [FP32, FP16, INT32, INT16], ids=str)
@pytest.mark.parametrize("shape", [(4, 9), (3, 300), (1, 16), (33, 1)], ids=str)
def test_reductions(dtype, shape):
    def build(text):
        x = text.tensor(shape, dtype)
        for name in ("sum", "max", "min"):
            rows, columns = text.tensor((shape[0], 1), dtype), text.tensor((1, shape[1]), dtype)
            tile = tile_of(text, x)
            text.store(text.operator(f"row_{name}", tile), rows, [0, 0])
            text.store(text.operator(f"col_{name}", tile), columns, [0, 0])

    arrays = [numbers(shape, dtype)]
    for _ in range(3):
        arrays += [np.zeros((shape[0], 1), dtype.numpy), np.zeros((1, shape[1]), dtype.numpy)]
    check(build, arrays, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [FP32, FP16, INT16], ids=str)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_expands(axis, dtype):
    shape = (6, 20)
    names = ["add", "sub", "mul", "max", "min"] + (["div"] if dtype.is_float else [])

    def build(text):
        x, v = text.tensor(shape, dtype), text.tensor((6, 1) if axis == "row" else (1, 20), dtype)
        tile, vector = tile_of(text, x), tile_of(text, v)
        for name in names:
            out = text.tensor(shape, dtype)
            text.store(text.operator(f"{axis}_expand_{name}", tile, vector), out, [0, 0])
        out = text.tensor(shape, dtype)
        text.store(text.operator(f"{axis}_expand", tile, vector), out, [0, 0])

    vector = (6, 1) if axis == "row" else (1, 20)
    results = [np.zeros(shape, dtype.numpy) for _ in range(len(names) + 1)]
    check(build, [numbers(shape, dtype), numbers(vector, dtype), *results])


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8, UINT8, INT16, INT32], ids=str)
def test_moves_of_elements(dtype):
    def build(text):
        x, y = text.tensor((40, 64), dtype), text.tensor((40, 32), dtype)
        turned, beside = text.tensor((64, 40), dtype), text.tensor((40, 96), dtype)
        small, small_turned = text.tensor((5, 3), dtype), text.tensor((3, 5), dtype)
        tile = tile_of(text, x)
        text.store(text.operator("transpose", tile), turned, [0, 0])
        text.store(text.operator("concat", tile, tile_of(text, y)), beside, [0, 0])
        text.store(text.operator("transpose", tile_of(text, small)), small_turned, [0, 0])

    shapes = [(40, 64), (40, 32), (64, 40), (40, 96), (5, 3), (3, 5)]
    arrays = [numbers(shape, dtype) for shape in shapes]
    check(build, arrays)


def test_a_row_is_reshaped():
    def build(text):
        x, out = text.tensor((8, 8), FP32), text.tensor((2, 32), FP32)
        tile = text.operator("exp", tile_of(text, x))
        text.store(text.operator("neg", text.operator("reshape", tile, shape=(2, 32))), out, [0, 0])

    check(build, [numbers((8, 8), FP32), np.zeros((2, 32), np.float32)])


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8], ids=str)
def test_matmul_with_accumulation(dtype):
    m, k, n = 40, 96, 50
    total = INT32 if dtype == INT8 else FP32

    def build(text):
        a, b = text.tensor((m, k), dtype), text.tensor((k, n), dtype)
        bias, out = text.tensor((1, n), total), text.tensor((m, n), total)
        left, right = (text.load(t, [0, 0], s, space=Space.MAT) for t, s in ((a, (m, 48)), (b, (48, n))))
        row = text.load(bias, [0, 0], (1, n), space=Space.MAT)
        acc = text.operator("matmul_bias", left, right, row)
        left, right = (
            text.load(t, o, s, space=Space.MAT) for t, o, s in ((a, [0, 48], (m, 48)), (b, [48, 0], (48, n)))
        )
        text.store(text.operator("matmul_acc", acc, left, right), out, [0, 0])

    arrays = [numbers((m, k), dtype), numbers((k, n), dtype), numbers((1, n), total), np.zeros((m, n), total.numpy)]
    check(build, arrays, tolerance=1e-4)


def softmax(text: ModuleText, rows: int, columns: int, step: int, dtype: DType = FP32) -> None:
    x, out = text.tensor((rows, columns), dtype), text.tensor((rows, columns), dtype)
    end, block = text.index(rows), text.index(step)
    with text.loop(end, step, parallel=True) as loop:
        valid = text.arith("minsi", block, text.arith("subi", end, loop.index))
        tile = text.load(x, [loop.index, 0], [step, columns], [valid, columns])
        tile = text.operator("exp", text.operator("row_expand_sub", tile, text.operator("row_max", tile)))
        text.store(text.operator("row_expand_div", tile, text.operator("row_sum", tile)), out, [loop.index, 0])


@pytest.mark.parametrize(("rows", "columns", "step"), [(10, 128, 4), (7, 37, 3), (5, 1, 8), (1, 1000, 1), (9, 300, 2)])
def test_softmax_has_no_check_left(rows, columns, step):
    arrays = [numbers((rows, columns), FP32), np.zeros((rows, columns), np.float32)]
    kernel = check(lambda text: softmax(text, rows, columns, step), arrays, blocks=3, tolerance=1e-6)
    assert kernel.checks == ()


def test_softmax_in_place():
    text = ModuleText()
    softmax(text, 10, 64, 4)
    kernel = Kernel(text)
    x = numbers((10, 64), FP32)
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    assert kernel(x, x) == 0
    np.testing.assert_allclose(x, wanted, rtol=1e-5)


def test_overlapping_arguments_are_loaded_before_they_are_stored():
    text = ModuleText()
    x, out = text.tensor((6, 64), FP32), text.tensor((6, 64), FP32)
    text.store(text.operator("exp", tile_of(text, x)), out, [0, 0])
    kernel = Kernel(text)
    for shift in (-64, -3, 3, 64, 100):
        memory = numbers((1000,), FP32)
        source = memory[300 : 300 + 384].reshape(6, 64)
        goal = memory[300 + shift : 300 + shift + 384].reshape(6, 64)
        wanted = np.exp(source)
        assert kernel(source, goal) == 0
        np.testing.assert_allclose(goal, wanted, rtol=1e-6)


def test_strided_arguments():
    text = ModuleText()
    x, out = text.tensor((6, 20), FP32, (-1, -1)), text.tensor((6, 20), FP32, (-1, -1))
    text.store(text.operator("neg", tile_of(text, x)), out, [0, 0])
    kernel = Kernel(text)
    base = numbers((40, 60), FP32)
    views = [base[:6, :20], base[:20, :6].T, base[::2, ::3][:6, :20], base[20:26, 30:50]]
    for source in views:
        for shape in ((6, 20), (20, 6)):
            goal = np.zeros(shape, np.float32) if shape == (6, 20) else np.zeros(shape, np.float32).T
            assert kernel(source, goal) == 0
            np.testing.assert_array_equal(goal, -source)


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


def test_every_row_of_the_table_has_code():
    handled = set(ELEMENTS) | set(ALONE) | {"cast"} | {f"row_{name}" for name in FOLDS}
    assert {row.name for row in ROWS if row.instruction is not None} == handled
