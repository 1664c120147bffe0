from __future__ import annotations

import re

import pytest

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, operations

PASSES = ("legalize-2d", "stage", "destination", "canonicalize", "blocks")


@pytest.fixture
def text():
    return ModuleText()


def body(text, loop, out):
    text.store(text.operator("neg", text.load(out, [loop.index, 0], (2, 8))), out, [loop.index, 0])


def trips(outcome):
    return int(re.search(r"pypto\.trips = (-?\d+)", outcome)[1])


def test_a_block_takes_every_so_manieth_turn(text):
    out = text.tensor((9, 8), FP32)
    with text.loop(9, 2, parallel=True) as loop:
        body(text, loop, out)
    outcome = after(text, *PASSES)
    assert trips(outcome) == 5
    assert operations(outcome, "pto").count("get_block_idx") == 1
    lower, step = re.search(r"scf\.for %\w+ = (%\w+) to %\w+ step (%\w+)", outcome).groups()
    assert re.search(rf"{re.escape(lower)} = arith\.addi", outcome)
    assert re.search(rf"{re.escape(step)} = arith\.muli", outcome)
    assert "pypto.parallel" not in outcome


def test_a_kernel_without_a_parallel_loop_is_one_block(text):
    out = text.tensor((8, 8), FP32)
    with text.loop(8, 2) as loop:
        body(text, loop, out)
    outcome = after(text, *PASSES)
    assert trips(outcome) == 1
    assert "get_block_idx" not in outcome


def test_a_parallel_loop_inside_of_another_is_sequential(text):
    out = text.tensor((16, 8), FP32)
    with text.loop(16, 8, parallel=True) as outer, text.loop(8, 2, parallel=True) as inner:
        row = text.arith("addi", outer.index, inner.index)
        text.store(text.operator("neg", text.load(out, [row, 0], (2, 8))), out, [row, 0])
    outcome = after(text, *PASSES)
    assert trips(outcome) == 2
    assert outcome.count("get_block_idx") == 1
    assert "pypto.parallel" not in outcome


def test_a_store_beside_the_loop_keeps_it_in_one_block(text):
    out = text.tensor((9, 8), FP32)
    with text.loop(9, 2, parallel=True) as loop:
        body(text, loop, out)
    text.store(text.load(out, [0, 0], (2, 8)), out, [4, 0])
    assert trips(after(text, *PASSES)) == 1


def test_an_unknown_number_of_turns_is_minus_one(text):
    out = text.tensor((-1, 8), FP32, strides=(8, 1))
    rows = text.emit(f'"pypto.dim"({out.name}) {{axis = 0 : i64}} : ({out.type}) -> index', "index")
    with text.loop(rows, 2, parallel=True) as loop:
        body(text, loop, out)
    assert trips(after(text, *PASSES)) == -1
