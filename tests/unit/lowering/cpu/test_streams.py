"""Which products read their right operand from global memory, and that kernels stay right with and without that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP32, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.cpu.staging import find_staging
from pypto_jit.lowering.cpu.streams import find_streams
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3, Space
from tests.module_text import ModuleText
from tests.unit.lowering.cpu.test_staging import integers, mat, planned_program, run

Kernels = Callable[[ModuleText], None]


def streamed(build: Kernels) -> tuple[int, int]:
    """How many products a kernel has, and how many of them read their right operand themselves."""
    with planned_program(build) as program:
        products = [i for i in program.body.instructions() if i.row.rule.startswith("matmul")]
        found = find_streams(program, find_staging(program))
        assert len(found.lefts) == len(set(found.products.values())) == len(found.products)
        return len(products), len(found.products)


def in_pieces(rows: int, *, transposed: bool = False, dtype: DType = FP32) -> Kernels:
    """A product along K in two pieces."""

    def build(text: ModuleText) -> None:
        a = text.tensor((rows, 70), dtype)
        b = text.tensor((50, 70) if transposed else (70, 50), dtype)
        out = text.tensor((rows, 50), FP32)

        def right(k: int, depth: int):
            if transposed:
                return text.operator("transpose_view", mat(text, b, [0, k], [50, depth]))
            return mat(text, b, [k, 0], [depth, 50])

        acc = text.operator("matmul", mat(text, a, [0, 0], [rows, 32]), right(0, 32))
        acc = text.operator("matmul_acc", acc, mat(text, a, [0, 32], [rows, 38]), right(32, 38))
        text.store(acc, out, [0, 0])

    return build


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "expected"), [(1, 2), (4, 2), (5, 0)])
def test_products_of_few_rows_read_global_memory(rows, expected, transposed):
    build = in_pieces(rows, transposed=transposed)
    assert streamed(build) == (2, expected)
    a, b, out = integers(rows, 70), integers(70, 50), np.zeros((rows, 50), np.float32)
    assert run(build, a, np.ascontiguousarray(b.T) if transposed else b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_a_row_of_biases():
    def build(text: ModuleText) -> None:
        a, b, row, out = (text.tensor(s, FP32) for s in ((2, 32), (32, 50), (1, 50), (2, 50)))
        bias = text.operator("move", mat(text, row, [0, 0], [1, 50]), space=Space.BIAS)
        product = text.operator("matmul_bias", mat(text, a, [0, 0], [2, 32]), mat(text, b, [0, 0], [32, 50]), bias)
        text.store(product, out, [0, 0])

    assert streamed(build) == (1, 1)
    a, b, row, out = integers(2, 32), integers(32, 50), integers(1, 50), np.zeros((2, 50), np.float32)
    assert run(build, a, b, row, out) == 0
    np.testing.assert_array_equal(out, a @ b + row)


def test_a_right_operand_of_two_products_is_packed():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((2, 32), (32, 48), (2, 48)))
        right = text.operator("move", mat(text, b, [0, 0], [32, 48]), space=Space.RIGHT)
        for row in range(2):
            left = mat(text, a, [row, 0], [1, 32])
            text.store(text.operator("matmul", left, right), out, [row, 0])

    assert streamed(build) == (2, 0)
    a, b, out = integers(2, 32), integers(32, 48), np.zeros((2, 48), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_a_store_between_a_load_and_its_product_keeps_what_was_loaded():
    def build(text: ModuleText) -> None:
        a, b = text.tensor((1, 16), FP32), text.tensor((16, 16), FP32)
        zeros = text.load(a, [0, 0], [1, 16])
        right = text.operator("move", mat(text, b, [0, 0], [16, 16]), space=Space.RIGHT)
        left = text.operator("move", mat(text, a, [0, 0], [1, 16]), space=Space.LEFT)
        text.store(zeros, b, [0, 0])
        text.store(text.operator("matmul", left, right), a, [0, 0])

    assert streamed(build) == (1, 0)
    a, b = integers(1, 16), integers(16, 16)
    expected = a @ b
    assert run(build, a, b) == 0
    np.testing.assert_array_equal(a, expected)


def test_strides_known_only_at_run_time_are_packed():
    def build(text: ModuleText) -> None:
        a, b = text.tensor((1, 32), FP32), text.tensor((32, 48), FP32, (-1, -1))
        out = text.tensor((1, 48), FP32)
        text.store(text.operator("matmul", mat(text, a, [0, 0], [1, 32]), mat(text, b, [0, 0], [32, 48])), out, [0, 0])

    assert streamed(build) == (1, 0)
    a, b, out = integers(1, 32), np.asfortranarray(integers(32, 48)), np.zeros((1, 48), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_a_box_outside_of_its_tensor_is_reported_and_not_read():
    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor(s, FP32) for s in ((1, 32), (24, 16), (2, 16)))
        with text.loop(32, 16) as loop:
            left, right = mat(text, a, [0, loop.index], [1, 16]), mat(text, b, [loop.index, 0], [16, 16])
            text.store(
                text.operator("matmul", left, right), out, [text.arith("divsi", loop.index, text.constant(16)), 0]
            )

    assert streamed(build) == (1, 1)
    a, b, out = integers(1, 32), integers(24, 16), np.zeros((2, 16), np.float32)
    assert run(build, a, b, out) != 0
    np.testing.assert_array_equal(out[:1], a[:, :16] @ b[:16])


@pytest.mark.parametrize(("rows", "expected"), [(4, False), (5, True)])
def test_few_rows_do_without_tile_registers(rows, expected):
    text = ModuleText()
    in_pieces(rows, dtype=BF16)(text)
    with borrowed_context() as context:
        module = ir.Module.parse(str(text), context)
        lower(module, A2A3)
        lower_to_cpu(module, replace(host_cpu(), vector_bytes=64, tiles=True))
        assert ("tileload" in str(module)) == expected


def reductions(build: Kernels) -> int:
    """How many reductions along columns of a kernel read global memory themselves."""
    with planned_program(build) as program:
        return len(find_streams(program, find_staging(program)).reductions)


@pytest.mark.parametrize(("name", "expected"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_reductions_along_columns_read_global_memory(name, expected):
    def build(text: ModuleText) -> None:
        x, out = text.tensor((40, 50), FP32), text.tensor((2, 37), FP32)
        with text.loop(2) as loop:
            top = text.arith("muli", loop.index, text.constant(20))
            tile = text.load(x, [top, 9], [20, 37])
            text.store(text.operator(f"col_{name}", tile), out, [loop.index, 0])

    assert reductions(build) == 1
    x, out = integers(40, 50), np.zeros((2, 37), np.float32)
    assert run(build, x, out) == 0
    np.testing.assert_array_equal(out, expected(x[:, 9:46].reshape(2, 20, 37), axis=1))


def test_a_tile_that_others_read_is_loaded():
    def build(text: ModuleText) -> None:
        x, out = text.tensor((8, 16), FP32), text.tensor((2, 16), FP32)
        tile = text.load(x, [0, 0], [8, 16])
        text.store(text.operator("col_sum", tile), out, [0, 0])
        text.store(text.operator("col_max", tile), out, [1, 0])

    assert reductions(build) == 0
    x, out = integers(8, 16), np.zeros((2, 16), np.float32)
    assert run(build, x, out) == 0
    np.testing.assert_array_equal(out, [x.sum(0), x.max(0)])


def test_a_store_between_a_load_and_its_reduction_keeps_what_was_loaded():
    def build(text: ModuleText) -> None:
        x, y = text.tensor((8, 16), FP32), text.tensor((8, 16), FP32)
        tile, other = text.load(x, [0, 0], [8, 16]), text.load(y, [0, 0], [8, 16])
        text.store(other, x, [0, 0])
        text.store(text.operator("col_sum", tile), y, [0, 0])

    assert reductions(build) == 0
    x, y = integers(8, 16), np.ones((8, 16), np.float32)
    expected = x.sum(0)
    assert run(build, x, y) == 0
    np.testing.assert_array_equal(y[0], expected)
    np.testing.assert_array_equal(x, np.ones((8, 16)))


def test_a_box_of_a_reduction_outside_of_its_tensor_is_reported():
    def build(text: ModuleText) -> None:
        x, out = text.tensor((24, 16), FP32), text.tensor((2, 16), FP32)
        with text.loop(2) as loop:
            top = text.arith("muli", loop.index, text.constant(16))
            text.store(text.operator("col_sum", text.load(x, [top, 0], [16, 16])), out, [loop.index, 0])

    assert reductions(build) == 1
    x, out = integers(24, 16), np.zeros((2, 16), np.float32)
    assert run(build, x, out) != 0
    np.testing.assert_array_equal(out[0], x[:16].sum(0))
