"""Which loads into Mat the CPU leaves out, and that kernels stay right with and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.cpu.program import Program
from pypto_jit.lowering.cpu.staging import find_staging
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.targets import A2A3, Space
from tests.module_text import ModuleText, Value
from tests.native import Kernel

Kernels = Callable[[ModuleText], None]


@contextmanager
def planned_program(build: Kernels) -> Iterator[Program]:
    """The only function of a kernel, with its buffers at addresses."""
    text = ModuleText()
    build(text)
    with borrowed_context() as context:
        module = ir.Module.parse(str(text), context)
        lower(module, A2A3)
        (function,) = functions(module.operation)
        yield Program(function, type_table(context))


def staged(build: Kernels) -> tuple[int, int]:
    """How many loads a kernel has that fill Mat, and how many of them are left out."""
    return counted(build)[:2]


def counted(build: Kernels) -> tuple[int, int, int]:
    """As `staged`, and how many moves into Left are left out."""
    with planned_program(build) as program:
        loads = [i for i in program.body.instructions() if i.row.rule == "load" and i.result.space is Space.MAT]
        found = find_staging(program)
        assert found.skipped == set(found.sources.values())
        return len(loads), len(found.skipped), len(found.in_place)


def run(build: Kernels, *arrays: np.ndarray) -> int:
    text = ModuleText()
    build(text)
    return Kernel(text)(*arrays)


def integers(*shape: int) -> np.ndarray:
    """Small whole numbers: their products and sums are exact in float32."""
    return np.random.default_rng(shape).integers(-9, 9, shape).astype(np.float32)


def mat(text: ModuleText, tensor: Value, offsets: list, shape: list, valid: list | None = None) -> Value:
    return text.load(tensor, offsets, shape, valid, space=Space.MAT)


def test_a_product_reads_global_memory():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((20, 70), (70, 50), (20, 50)))
        acc = text.operator("matmul", mat(text, a, [0, 0], [20, 32]), mat(text, b, [0, 0], [32, 50]))
        rest = mat(text, a, [0, 32], [20, 38]), mat(text, b, [32, 0], [38, 50])
        text.store(text.operator("matmul_acc", acc, *rest), out, [0, 0])

    assert staged(build) == (4, 4)
    a, b, out = integers(20, 70), integers(70, 50), np.zeros((20, 50), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize(
    ("rows", "columns", "width", "lent"), [(32, 48, 48, 1), (32, 48, 64, 0), (20, 48, 48, 0), (32, 40, 40, 0)]
)
def test_left_stays_where_it_lies_as_products_read_it(rows, columns, width, lent):
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((3 * rows, width), (columns, 50), (3 * rows, 50)))
        with text.loop(3 * rows, rows, parallel=True) as loop:
            right = mat(text, b, [0, 0], [columns, 50])
            left = mat(text, a, [loop.index, 0], [rows, columns])
            text.store(text.operator("matmul", left, right), out, [loop.index, 0])

    assert counted(build) == (2, 2, lent)
    a, b, out = integers(3 * rows, width), integers(columns, 50), np.zeros((3 * rows, 50), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a[:, :columns] @ b)


def test_left_that_is_overwritten_before_it_is_read_moves():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((16, 16), (16, 16), (16, 16)))
        left = text.operator("move", mat(text, a, [0, 0], [16, 16]), space=Space.LEFT)
        right = mat(text, b, [0, 0], [16, 16])
        text.store(text.operator("matmul", left, right), a, [0, 0])
        text.store(text.operator("matmul", left, right), out, [0, 0])

    assert counted(build)[2] == 0
    a, b, out = integers(16, 16), integers(16, 16) + 1, np.zeros((16, 16), np.float32)
    expected = a @ b
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("strides", [None, (1, 60)])
def test_a_transposed_view_reads_global_memory(strides):
    def build(text: ModuleText) -> None:
        a, b = text.tensor((20, 40), FP32), text.tensor((60, 40), FP32, None if strides is None else (-1, -1))
        out = text.tensor((20, 60), FP32)
        right = text.operator("transpose_view", mat(text, b, [0, 0], [60, 40]))
        text.store(text.operator("matmul", mat(text, a, [0, 0], [20, 40]), right), out, [0, 0])

    assert staged(build) == (2, 2)
    a, out = integers(20, 40), np.zeros((20, 60), np.float32)
    b = integers(60, 40) if strides is None else np.asfortranarray(integers(60, 40))
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b.T)


def test_rows_of_leading_dimensions():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((3, 20, 40), (40, 50), (20, 50)))
        left = text.operator("reshape", text.load(a, [1, 0, 0], [1, 20, 40]), shape=(20, 40))
        text.store(text.operator("matmul", left, mat(text, b, [0, 0], [40, 50])), out, [0, 0])

    a, b, out = integers(3, 20, 40), integers(40, 50), np.zeros((20, 50), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a[1] @ b)


def test_ragged_blocks_in_loops():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((50, 45), (45, 50), (50, 50)))
        fifty, block = text.constant(50), text.constant(16)
        with text.loop(50, 16) as rows, text.loop(50, 16) as columns:
            m = text.arith("minsi", block, text.arith("subi", fifty, rows.index))
            n = text.arith("minsi", block, text.arith("subi", fifty, columns.index))
            left = mat(text, a, [rows.index, 0], [16, 45], [m, 45])
            right = mat(text, b, [0, columns.index], [45, 16], [45, n])
            text.store(text.operator("matmul", left, right), out, [rows.index, columns.index])

    a, b, out = integers(50, 45), integers(45, 50), np.zeros((50, 50), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_a_tile_that_is_loaded_once_for_many_products_stays():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((16, 32), (32, 96), (16, 96)))
        left = mat(text, a, [0, 0], [16, 32])
        with text.loop(96, 48) as loop:
            right = mat(text, b, [0, loop.index], [32, 48])
            product = text.operator("matmul", text.operator("move", left, space=Space.LEFT), right)
            text.store(product, out, [0, loop.index])

    assert staged(build) == (2, 1)
    a, b, out = integers(16, 32), integers(32, 96), np.zeros((16, 96), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_a_store_between_a_load_and_its_move_keeps_the_tile():
    def build(text: ModuleText) -> None:
        a, b = text.tensor((16, 16), FP32), text.tensor((16, 16), FP32)
        twice = mat(text, b, [0, 0], [16, 16])
        square = text.operator("matmul", twice, twice)
        left = mat(text, a, [0, 0], [16, 16])
        text.store(square, a, [0, 0])
        moved = text.operator("move", left, space=Space.LEFT)
        text.store(text.operator("matmul", moved, mat(text, b, [0, 0], [16, 16])), b, [0, 0])

    assert staged(build) == (3, 2)
    a, b = integers(16, 16), integers(16, 16)
    expected = b @ b, a @ b
    assert run(build, a, b) == 0
    np.testing.assert_array_equal(a, expected[0])
    np.testing.assert_array_equal(b, expected[1])


def test_a_box_outside_of_its_tensor_is_reported_and_not_read():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((20, 16), (16, 16), (32, 16)))
        with text.loop(32, 16) as loop:
            left = mat(text, a, [loop.index, 0], [16, 16])
            text.store(text.operator("matmul", left, mat(text, b, [0, 0], [16, 16])), out, [loop.index, 0])

    a, b, out = integers(20, 16), integers(16, 16), np.zeros((32, 16), np.float32)
    assert run(build, a, b, out) != 0
    np.testing.assert_array_equal(out[:16], a[:16] @ b)
