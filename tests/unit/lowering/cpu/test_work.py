"""The estimate of a kernel's work."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.program import Program
from pypto_jit.lowering.cpu.work import estimate
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import A2A3
from tests.module_text import ModuleText


def work(text: ModuleText) -> int:
    with borrowed_context() as context:
        module = ir.Module.parse(str(text), context)
        lower(module, A2A3)
        function = functions(module.operation)[0]
        return estimate(Program(function, TypeTable(context)), function)


def negate(text: ModuleText, x, out, offset) -> None:
    text.store(text.operator("neg", text.load(x, [offset, 0], [4, 32])), out, [offset, 0])


def test_loops_multiply():
    text = ModuleText()
    x, out = text.tensor((64, 32), FP32), text.tensor((64, 32), FP32)
    with text.loop(64, 4) as outer, text.loop(8, 4):
        negate(text, x, out, outer.index)
    assert work(text) == 3 * 128 * 16 * 2


def test_a_dealt_loop_counts_all_its_trips():
    text = ModuleText()
    x, out = text.tensor((64, 32), FP32), text.tensor((64, 32), FP32)
    with text.loop(64, 4, parallel=True) as loop:
        negate(text, x, out, loop.index)
    assert work(text) == 3 * 128 * 16


def test_unknown_trips():
    text = ModuleText()
    x, out = text.tensor((-1, 32), FP32), text.tensor((-1, 32), FP32)
    rows = text.emit(f'"pypto.dim"({x.name}) {{axis = 0 : i64}} : ({x.type}) -> index', "index")
    with text.loop(rows, 4, parallel=True) as loop:
        negate(text, x, out, loop.index)
    assert work(text) == -1
