"""Which instructions become one nest, in how many passes, and what is written to memory."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.fusion import Group, is_fusible
from pypto_jit.lowering.cpu.liveness import live_after
from pypto_jit.lowering.cpu.program import Instruction, Nested, Program
from pypto_jit.lowering.cpu.schedule import longest_group
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import A2A3
from tests.module_text import ModuleText
from tests.native import whole

Summary = list[tuple[list[str], list[list[str]], list[str]]]


def groups(build: Callable[[ModuleText], None]) -> Summary:
    """For each nest of a kernel: its rows, its passes, and the rows whose tile is written to memory."""
    text = ModuleText()
    build(text)
    found: Summary = []
    with borrowed_context() as context:
        module = ir.Module.parse(str(text), context)
        lower(module, A2A3)
        program = Program(functions(module.operation)[0], TypeTable(context))
        live = live_after(program.body)

        def visit(items: list[Instruction | Nested]) -> None:
            run: list[Instruction] = []
            for item in [*items, None]:
                if isinstance(item, Instruction) and is_fusible(item):
                    run.append(item)
                    continue
                while run:
                    group = longest_group(program, run, live)
                    found.append(summary(group))
                    run = run[len(group.steps) :]
                if isinstance(item, Nested):
                    for block in item.blocks:
                        visit(block.items)

        visit(program.body.items)
    return found


def summary(group: Group) -> tuple[list[str], list[list[str]], list[str]]:
    names = [step.instruction.row.name for step in group.steps]
    passes = [[names[k] for k in numbers] for numbers in group.passes]
    return names, passes, [names[k] for k, step in enumerate(group.steps) if step.stored]


def test_elementwise_work_is_one_pass_without_tiles():
    def build(text):
        x, y, out = (text.tensor((8, 64), FP32) for _ in range(3))
        tile = text.operator("add", whole(text, x), whole(text, y))
        text.store(text.operator("exp", text.operator("muls", tile, text.constant("2.0", "f32"))), out, [0, 0])

    ((names, passes, stored),) = groups(build)
    assert names == ["load", "load", "add", "muls", "exp", "store"]
    assert passes == [names]
    assert stored == []


def test_softmax_is_three_passes():
    def build(text):
        x, out = text.tensor((8, 512), FP32), text.tensor((8, 512), FP32)
        tile = whole(text, x)
        tile = text.operator("exp", text.operator("row_expand_sub", tile, text.operator("row_max", tile)))
        text.store(text.operator("row_expand_div", tile, text.operator("row_sum", tile)), out, [0, 0])

    ((_, passes, stored),) = groups(build)
    # What is loaded is loaded again; exp is too dear to compute twice.
    assert passes == [
        ["load", "row_max"],
        ["load", "row_expand_sub", "exp", "row_sum"],
        ["row_expand_div", "store"],
    ]
    assert stored == ["exp"]


def test_a_cheap_value_is_computed_again():
    def build(text):
        x, out = text.tensor((8, 512), FP32), text.tensor((8, 512), FP32)
        tile = whole(text, x)
        centred = text.operator("row_expand_sub", tile, text.operator("row_max", tile))
        total = text.operator("row_sum", text.operator("mul", centred, centred))
        text.store(text.operator("row_expand_mul", centred, total), out, [0, 0])

    ((_, passes, stored),) = groups(build)
    assert passes[2] == ["load", "row_expand_sub", "row_expand_mul", "store"]
    assert stored == []


def test_work_per_row_joins_long_rows_only():
    def build(text, columns):
        x, out = text.tensor((8, columns), FP32), text.tensor((8, columns), FP32)
        tile = whole(text, x)
        scale = text.operator("rsqrt", text.operator("row_sum", tile))
        text.store(text.operator("row_expand_mul", tile, scale), out, [0, 0])

    long = groups(lambda text: build(text, 512))
    assert [names for names, _, _ in long] == [["load", "row_sum", "rsqrt", "row_expand_mul", "store"]]
    short = groups(lambda text: build(text, 64))
    assert [names for names, _, _ in short] == [["load", "row_sum"], ["rsqrt"], ["row_expand_mul", "store"]]
    assert [stored for _, _, stored in short] == [["load", "row_sum"], ["rsqrt"], []]


def test_a_load_does_not_follow_a_store():
    def build(text):
        x, y, out = (text.tensor((8, 64), FP32) for _ in range(3))
        text.store(text.operator("exp", whole(text, x)), out, [0, 0])
        text.store(text.operator("exp", whole(text, y)), out, [0, 0])

    assert [names for names, _, _ in groups(build)] == [["load", "exp", "store"]] * 2


def test_a_tile_that_a_loop_carries_is_written():
    def build(text):
        x, out = text.tensor((64, 64), FP32), text.tensor((8, 64), FP32)
        with text.loop(64, 8, [text.load(x, [0, 0], [8, 64])]) as loop:
            loop.yields = [text.operator("add", loop.carried[0], text.load(x, [loop.index, 0], [8, 64]))]
        text.store(loop.results[0], out, [0, 0])

    found = groups(build)
    assert (["load", "add"], [["load", "add"]], ["add"]) in found
