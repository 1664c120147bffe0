from __future__ import annotations

import re

import pytest

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText, Value
from tests.unit.lowering.after import after, operations

PASSES = ("spaces", "column-vectors", "dead-code", "stage")


@pytest.fixture
def text():
    return ModuleText()


def tensor(text, rows=16, columns=16):
    return text.tensor((rows, columns), FP32)


def load(text, source=None, row: Value | int = 0):
    return text.load(source or tensor(text), [row, 0], (16, 16))


def staged(text):
    return after(text, *PASSES)


def names(outcome):
    return re.findall(r"func\.func @(\w+)", outcome)


def mixed(outcome):
    found = re.search(r'pypto\.mixed = "([^"]*)"', outcome)
    return found[1] if found else None


def parts(outcome):
    return [operations(part) for part in outcome.split("func.func")[1:]]


def test_a_kernel_for_one_core_gets_its_kind(text):
    text.store(text.operator("neg", load(text)), tensor(text), [0, 0])
    assert 'pto.kernel_kind = "vector"' in staged(text)
    cube = ModuleText()
    cube.store(cube.operator("matmul", load(cube), load(cube)), tensor(cube), [0, 0])
    outcome = staged(cube)
    assert 'pto.kernel_kind = "cube"' in outcome
    assert names(outcome) == ["kernel"]


def test_a_product_goes_to_the_vector_core_through_a_workspace(text):
    text.store(text.operator("relu", text.operator("matmul", load(text), load(text))), tensor(text), [0, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel_0_cube", "kernel_1_vector"]
    assert parts(outcome) == [
        ["load", "load", "move", "move", "matmul", "store"],
        ["load", "relu", "store"],
    ]
    assert outcome.count("!pypto.tensor<[16, 16], f32, [16, 1]> {pypto.workspace}") == 2


def test_a_workspace_has_a_slot_for_each_turn(text):
    a = tensor(text, 64)
    with text.loop(2) as outer, text.loop(32, 16) as inner:
        row = text.arith("addi", text.arith("muli", outer.index, text.constant(32)), inner.index)
        text.store(text.operator("relu", text.operator("matmul", load(text, a, row), load(text))), a, [row, 0])
    # One tensor is loaded and stored in turns that follow each other: what a turn loads an earlier one may have stored.
    assert mixed(staged(text))
    other = ModuleText()
    a, b, out = tensor(other, 64), tensor(other), tensor(other, 64)
    with other.loop(2) as outer, other.loop(32, 16) as inner:
        row = other.arith("addi", other.arith("muli", outer.index, other.constant(32)), inner.index)
        product = other.operator("matmul", load(other, a, row), load(other, b))
        other.store(other.operator("relu", product), out, [row, 0])
    assert "!pypto.tensor<[64, 16], f32, [16, 1]> {pypto.workspace}" in staged(other)


def test_work_of_both_cores_that_meets_nowhere_is_split_all_the_same(text):
    text.store(text.operator("matmul", load(text), load(text)), tensor(text), [0, 0])
    text.store(text.operator("neg", load(text)), tensor(text), [0, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel_0_cube", "kernel_1_vector"]
    assert "pypto.workspace" not in outcome


def test_a_later_stage_computes_again_what_its_core_did(text):
    weights = text.operator("exp", load(text))
    product = text.operator("matmul", weights, load(text))
    text.store(text.operator("div", product, weights), tensor(text), [0, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel_0_vector", "kernel_1_cube", "kernel_2_vector"]
    assert parts(outcome)[2] == ["load", "exp", "load", "div", "store"]


def test_a_loop_that_goes_to_the_other_core_and_back_stays_whole(text):
    with text.loop(3, carried=[load(text)]) as loop:
        loop.yields = [text.operator("relu", text.operator("matmul", loop.carried[0], load(text)))]
    text.store(loop.results[0], tensor(text), [0, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel"]
    assert "takes a tile to the other core and back before the next turn" in (mixed(outcome) or "")


def test_a_loop_whose_turns_are_not_known_stays_whole(text):
    source = text.tensor((-1, 16), FP32, strides=(16, 1))
    rows = text.emit(f'"pypto.dim"({source.name}) {{axis = 0 : i64}} : ({source.type}) -> index', "index")
    out, b = text.tensor((-1, 16), FP32, strides=(16, 1)), tensor(text)
    with text.loop(rows, 16) as loop:
        product = text.operator("matmul", load(text, source, loop.index), load(text, b))
        text.store(text.operator("relu", product), out, [loop.index, 0])
    outcome = after(text, *PASSES)
    # The sources have one type, so the caller may pass one tensor as both; what comes first is the reason given.
    assert mixed(outcome)


def test_a_ragged_tile_keeps_its_extents_through_the_workspace(text):
    a, b, out = tensor(text, 40), tensor(text), text.tensor((40, 16), FP32)
    with text.loop(40, 16, parallel=True) as loop:
        valid = text.arith("minsi", text.constant(16), text.arith("subi", text.constant(40), loop.index))
        left = text.load(a, [loop.index, 0], (16, 16), [valid, 16])
        product = text.operator("matmul", left, load(text, b))
        text.store(text.operator("relu", product), out, [loop.index, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel_0_cube", "kernel_1_vector"]
    second = outcome.split("func.func")[2]
    assert "arith.minsi" in second
    assert '-> !pypto.tile<[16, 16], f32, "vec", [-1, 16]>' in second


def test_a_load_after_a_store_of_the_same_tensor_is_in_a_later_stage(text):
    between = tensor(text)
    text.store(text.operator("neg", load(text)), between, [0, 0])
    product = text.operator("matmul", text.load(between, [0, 0], (16, 16)), load(text))
    text.store(product, text.tensor((16, 20), FP32), [0, 0])
    outcome = staged(text)
    assert names(outcome) == ["kernel_0_vector", "kernel_1_cube"]


def stored_over(text, columns):
    """A tensor is loaded by both cores, then the cube stores to it; the vector core stores to a tensor so wide."""
    a = tensor(text)
    tile = load(text, a)
    text.store(text.operator("matmul", tile, load(text, tensor(text, 16, 20))), a, [0, 0])
    text.store(text.operator("neg", tile), tensor(text, 16, columns), [0, 0])
    return staged(text)


def test_a_store_waits_for_the_loads_before_it(text):
    assert names(stored_over(text, 24)) == ["kernel_0_vector", "kernel_1_cube"]


def test_a_load_is_not_done_after_a_store_to_what_may_be_its_memory(text):
    reason = mixed(stored_over(text, 20))
    assert "'p1' is loaded" in reason
    assert "stored to 'p2'" in reason
    assert "may be the same memory" in reason


def test_a_later_stage_takes_vectors_that_sum_up_tiles_from_its_core(text):
    scores = text.operator("matmul", load(text), load(text))
    largest = text.operator("row_max", scores)
    product = text.operator("matmul", text.operator("row_expand_sub", scores, largest), load(text))
    text.store(text.operator("row_expand_mul", product, largest), tensor(text), [0, 0])
    *_, last = parts(staged(text))
    assert last == ["load", "load", "row_expand_mul", "store"]


def test_what_a_loop_sums_up_is_handed_over_behind_it(text):
    first = text.operator("row_max", text.operator("matmul", load(text), load(text)))
    with text.loop(48, 16, [first]) as loop:
        scores = text.operator("matmul", load(text, tensor(text, 48), loop.index), load(text))
        loop.yields = [text.operator("maximum", loop.carried[0], text.operator("row_max", scores))]
    product = text.operator("matmul", text.operator("row_expand", load(text), loop.results[0]), load(text))
    text.store(text.operator("row_expand_mul", product, loop.results[0]), tensor(text), [0, 0])
    *_, last = parts(staged(text))
    assert last == ["load", "load", "row_expand_mul", "store"]


def test_slots_are_whole_cache_lines(text):
    product = text.operator("matmul", load(text), text.load(tensor(text), [0, 0], (16, 5)))
    text.store(text.operator("relu", product), tensor(text, 16, 5), [0, 0])
    assert "!pypto.tensor<[16, 5], f32, [5, 1]> {pypto.workspace}" in staged(text)
