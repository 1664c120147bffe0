from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import INSTRUCTIONS, ROWS
from pypto_jit.dialects.registration import STRUCTURE, irdl_text, register

TENSOR = "!pypto.tensor<[4, 8], f32, [8, 1]>"
TILE = '!pypto.tile<[4, 8], f32, "vec", [4, 8]>'


def parse(context: ir.Context, operation: str) -> ir.Module:
    text = f"func.func @f(%x: {TENSOR}, %t: {TILE}, %s: f32, %i: index) {{\n  {operation}\n  return\n}}"
    return ir.Module.parse(text, context)


def test_every_row_is_an_operation_of_pypto(context):
    names = [row.operation for row in ROWS] + ["pypto.dim"]
    assert [name for name in names if not context.is_registered_operation(name)] == []


def test_every_instruction_is_an_operation_of_pto(context):
    names = [f"pto.{name}" for name in (*STRUCTURE, *INSTRUCTIONS)]
    assert [name for name in names if not context.is_registered_operation(name)] == []


def test_a_second_context_takes_the_same_definitions():
    other = ir.Context()
    register(other)
    assert other.is_registered_operation("pypto.add")
    assert irdl_text() is irdl_text()


@pytest.mark.parametrize(
    "operation",
    [
        f'%r = "pypto.add"(%t, %t) : ({TILE}, {TILE}) -> {TILE}',
        f'%r = "pypto.load"(%x, %i, %i, %i, %i) : ({TENSOR}, index, index, index, index) -> {TILE}',
        f'"pypto.store"(%t, %x, %i, %i) : ({TILE}, {TENSOR}, index, index) -> ()',
        f'%r = "pypto.full"(%s) : (f32) -> {TILE}',
        f'%r = "pypto.create_tile"() : () -> {TILE}',
        f'%r = "pypto.dim"(%x) {{axis = 0 : i64}} : ({TENSOR}) -> index',
    ],
)
def test_right_operands_verify(context, operation):
    assert parse(context, operation).operation.verify()


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (f'%r = "pypto.add"(%t) : ({TILE}) -> {TILE}', "operand"),
        (f'%r = "pypto.add"(%t, %t, %t) : ({TILE}, {TILE}, {TILE}) -> {TILE}', "operand"),
        (f'%r = "pypto.add"(%t, %x) : ({TILE}, {TENSOR}) -> {TILE}', "expected base type"),
        (f'%r = "pypto.add"(%t, %t) : ({TILE}, {TILE}) -> f32', "expected base type"),
        (f'"pypto.add"(%t, %t) : ({TILE}, {TILE}) -> ()', "result"),
        (f'%r = "pypto.load"(%t, %i, %i) : ({TILE}, index, index) -> {TILE}', "expected base type"),
        (f'%r = "pypto.load"(%x, %s) : ({TENSOR}, f32) -> {TILE}', "expected 'index'"),
        (f'%r = "pypto.dim"(%x) : ({TENSOR}) -> f32', "expected 'index'"),
        (f'%r = "pypto.no_such_operator"(%t) : ({TILE}) -> {TILE}', "no_such_operator"),
    ],
)
def test_wrong_operands_are_refused(context, operation, reason):
    with pytest.raises(ir.MLIRError) as caught:
        parse(context, operation).operation.verify()
    assert reason in str(caught.value)


def test_wrong_type_parameters_are_refused(context):
    with context, pytest.raises(ir.MLIRError, match="expected 4 type arguments"):
        ir.Type.parse("!pypto.tile<[4, 8], f32>")
