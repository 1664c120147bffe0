from __future__ import annotations

import re

import pytest

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, operations

PASSES = ("legalize-2d", "destination", "canonicalize", "rotation")


@pytest.fixture
def text():
    return ModuleText()


def loops(outcome):
    """Lower bound, upper bound, step, and whether it is still marked, of every loop in order."""
    constants = {name: int(value) for name, value in re.findall(r"(%\w+) = arith\.constant (-?\d+) : index", outcome)}
    heads = re.findall(r"scf\.for %\w+ = (%\w+) to (%\w+) step (%\w+)", outcome)
    marked = ["pypto.stages" in mark for mark in re.findall(r"^ *\}(.*)$", outcome, re.MULTILINE)][: len(heads)]
    return [(*(constants.get(bound, bound) for bound in head), mark) for head, mark in zip(heads, marked, strict=True)]


def summed(text, upper, step, stages, rows=64):
    """The sum of all rows that a loop visits."""
    x, out = text.tensor((rows, 8), FP32), text.tensor((1, 8), FP32)
    with text.loop(upper, step, carried=[text.load(x, [0, 0], (1, 8))], stages=stages) as loop:
        loop.yields = [text.operator("add", loop.carried[0], text.load(x, [loop.index, 0], (1, 8)))]
    text.store(loop.results[0], out, [0, 0])


def test_turns_that_come_out_even_need_no_loop_of_their_own(text):
    summed(text, 12, 2, stages=3)
    outcome = after(text, *PASSES)
    assert loops(outcome) == [(0, 12, 6, True)]
    assert operations(outcome, "pto").count("tload") == 1 + 3
    assert outcome.count("arith.addi") == 2


def test_the_turns_that_are_left_follow_in_a_loop(text):
    summed(text, 13, 2, stages=3)
    assert loops(after(text, *PASSES)) == [(0, 12, 6, True), (12, 13, 2, False)]


def test_each_turn_carries_on_what_the_one_before_made(text):
    x, out = text.tensor((64, 8), FP32), text.tensor((64, 8), FP32)
    with text.loop(4, carried=[text.constant(5)], stages=2) as loop:
        row = loop.carried[0]
        text.store(text.operator("neg", text.load(x, [row, 0], (1, 8))), out, [loop.index, 0])
        loop.yields = [text.arith("muli", row, row)]
    outcome = after(text, *PASSES)
    first, second = re.findall(r"(%\w+) = arith\.muli (%\w+), %\w+", outcome)
    assert second[1] == first[0]
    assert re.search(rf"scf\.yield {re.escape(second[0])} ", outcome)
    rows = re.findall(r'"pto\.partition_view"\(%\w+, (%\w+),', outcome)
    assert rows[0::2] == [first[1], first[0]]


def test_an_upper_bound_that_is_known_at_run_time(text):
    x, out = text.tensor((64, 8), FP32), text.tensor((64, 8), FP32)
    with text.loop(9) as outer, text.loop(outer.index, stages=2) as loop:
        text.store(text.load(x, [loop.index, 0], (1, 8)), out, [loop.index, 0])
    outcome = after(text, *PASSES)
    (_, split, step, _), (start, end, rest, _) = loops(outcome)[1:]
    assert (step, rest, outcome.count("pypto.stages")) == (2, 1, 1)
    assert split == start != end
    # The last multiple of two turns that is not above the bound, and no less than none.
    limit, bound = re.search(r"(%\w+) = arith\.maxsi (%\w+), %c0", outcome).groups()
    assert re.search(rf"= arith\.floordivsi {re.escape(limit)}, %c2", outcome)
    assert re.search(rf"{re.escape(bound)} = arith\.addi {re.escape(str(end))}, %c0", outcome)


@pytest.mark.parametrize(("upper", "stages", "copies"), [(2, 1, 1), (3, 8, 3), (2, 2, 2), (8, 1, 1)])
def test_no_more_turns_overlap_than_there_are(text, upper, stages, copies):
    summed(text, upper, 1, stages=stages)
    assert operations(after(text, *PASSES), "pto").count("tload") == 1 + copies


def test_a_loop_that_brings_nothing_stays(text):
    x, out = text.tensor((1, 8), FP32), text.tensor((1, 8), FP32)
    with text.loop(8, carried=[text.load(x, [0, 0], (1, 8))], stages=2) as loop:
        loop.yields = [text.operator("neg", loop.carried[0])]
    text.store(loop.results[0], out, [0, 0])
    assert loops(after(text, *PASSES)) == [(0, 8, 1, True)]


def test_only_the_innermost_of_pipelined_loops_is_unrolled(text):
    x, out = text.tensor((64, 8), FP32), text.tensor((64, 8), FP32)
    with text.loop(8, stages=2) as outer, text.loop(8, stages=2) as inner:
        row = text.arith("addi", outer.index, inner.index)
        text.store(text.load(x, [row, 0], (1, 8)), out, [row, 0])
    assert [(step, upper) for _, upper, step, _ in loops(after(text, *PASSES))] == [(1, 8), (2, 8)]


def test_a_large_body_stays(text):
    x, out = text.tensor((64, 8), FP32), text.tensor((64, 8), FP32)
    with text.loop(8, stages=4) as loop:
        tile = text.load(x, [loop.index, 0], (1, 8))
        for _ in range(100):
            tile = text.operator("neg", tile)
        text.store(tile, out, [loop.index, 0])
    assert operations(after(text, *PASSES), "pto").count("tload") == 1
