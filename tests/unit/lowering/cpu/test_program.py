"""A planned function as the CPU lowering reads it."""

from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TileBufType
from pypto_jit.dtypes import FP16, FP32, INT8
from pypto_jit.errors import InternalError
from pypto_jit.lowering.context import borrowed_context, make_context
from pypto_jit.lowering.cpu.program import Nested, Program, Tile
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import A2A3, COLUMN_VECTOR, NZ, ROW_MAJOR, ZN, Layout, Space
from tests.module_text import ModuleText
from tests.native import whole


def tile(space: Space, dtype, shape, layout: Layout) -> Tile:
    return Tile(TileBufType(space, dtype, shape, shape, layout), 0, 0, shape)


def test_strides_keep_the_order_within_a_box():
    assert tile(Space.VEC, FP32, (4, 8), ROW_MAJOR).strides == (8, 1)
    assert tile(Space.VEC, FP32, (16, 1), COLUMN_VECTOR).strides == (1, 16)
    assert tile(Space.MAT, FP16, (32, 64), NZ).strides == (64, 1)
    assert tile(Space.MAT, FP16, (32, 64), ZN).strides == (1, 32)
    assert tile(Space.RIGHT, FP16, (32, 64), ZN).strides == (64, 1)


def test_cube_operands_are_float32():
    left = tile(Space.LEFT, INT8, (32, 64), NZ)
    assert left.dtype == FP32
    assert left.bytes == 32 * 64 * 4
    assert tile(Space.MAT, INT8, (32, 64), NZ).bytes == 32 * 64


def test_instructions_and_the_arena():
    text = ModuleText()
    x, out = text.tensor((8, 8), FP32), text.tensor((8, 8), FP32)
    with text.loop(8, 4) as loop:
        one = text.constant("1.0", "f32")
        tile = text.operator("rdivs", text.load(x, [loop.index, 0], [4, 8]), one)
        text.store(text.operator("row_expand_sub", tile, text.operator("row_max", tile)), out, [loop.index, 0])
    with borrowed_context() as context:
        module = ir.Module.parse(str(text), context)
        lower(module, A2A3)
        program = Program(functions(module.operation)[0], TypeTable(context))
        (loop_item,) = program.body.items
        assert isinstance(loop_item, Nested)
        assert loop_item.loops
        instructions = list(program.body.instructions())
        assert [i.row.name for i in instructions] == ["load", "rdivs", "row_max", "row_expand_sub", "store"]
        divide, reduce = instructions[1], instructions[2]
        assert list(divide.operands) == ["scalar", "src"]
        assert divide.reads == instructions[0].writes
        # The reduction's scratch is not read.
        assert reduce.reads == divide.writes
        ends = [program.position(i.result) + i.result.bytes for i in instructions[:-1]]
        assert max(ends) <= program.arena - 64


def test_a_function_of_values_is_refused():
    text = ModuleText()
    x, out = text.tensor((8, 8), FP32), text.tensor((8, 8), FP32)
    text.store(whole(text, x), out, [0, 0])
    context = make_context()
    with context:
        module = ir.Module.parse(str(text))
        with pytest.raises(InternalError, match="not lowered"):
            Program(functions(module.operation)[0], TypeTable(context))
