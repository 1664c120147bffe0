from __future__ import annotations

import re

import pytest

from pypto_jit.dtypes import FP16, FP32
from tests.module_text import ModuleText
from tests.unit.lowering.after import after


@pytest.fixture
def text():
    return ModuleText()


def functions(outcome):
    return outcome.split("func.func")[1:]


def names(outcome):
    return re.findall(r"func\.func @(\w+)", outcome)


def loop_over(text, source, goal):
    with text.loop(8, 2, parallel=True) as loop:
        text.store(text.operator("neg", text.load(source, [loop.index, 0], (2, 8))), goal, [loop.index, 0])


def test_each_parallel_loop_is_a_function(text):
    a, b, c = (text.tensor((8, 8), FP32) for _ in range(3))
    loop_over(text, a, b)
    loop_over(text, b, c)
    outcome = after(text, "launches")
    assert names(outcome) == ["kernel_0", "kernel_1"]
    first, second = functions(outcome)
    assert '"pypto.load"(%arg0' in first
    assert '"pypto.load"(%arg1' in second
    assert first.count("scf.for") == second.count("scf.for") == 1


def test_one_parallel_loop_alone_is_not_split(text):
    loop_over(text, text.tensor((8, 8), FP32), text.tensor((8, 8), FP32))
    assert names(after(text, "launches")) == ["kernel"]


def test_stores_beside_a_parallel_loop_are_another_launch(text):
    a, b, c = (text.tensor((8, 8), FP32) for _ in range(3))
    loop_over(text, a, b)
    for row in (0, 4):
        text.store(text.load(b, [row, 0], (4, 8)), c, [row, 0])
    outcome = after(text, "launches")
    assert names(outcome) == ["kernel_0", "kernel_1"]
    assert functions(outcome)[1].count('"pypto.store"') == 2


def test_what_two_launches_need_is_loaded_in_both(text):
    a, b, c = (text.tensor((8, 8), FP32) for _ in range(3))
    scale = text.load(text.tensor((2, 8), FP32), [0, 0], (2, 8))
    for goal in (b, c):
        with text.loop(8, 2, parallel=True) as loop:
            tile = text.operator("mul", text.load(a, [loop.index, 0], (2, 8)), scale)
            text.store(tile, goal, [loop.index, 0])
    outcome = after(text, "launches")
    assert [part.count('"pypto.load"') for part in functions(outcome)] == [2, 2]


@pytest.mark.parametrize("same", [True, False])
def test_a_tile_from_before_a_store_to_its_memory_is_not_loaded_after_it(text, same):
    # Two parameters of one type may be one tensor.
    a, b = text.tensor((8, 8), FP32), text.tensor((8, 8), FP32)
    held = text.load(a, [0, 0], (2, 8))
    loop_over(text, b, a if same else text.tensor((8, 8), FP32))
    with text.loop(8, 2, parallel=True) as loop:
        text.store(held, text.tensor((9, 8), FP32), [loop.index, 0])
    assert names(after(text, "launches")) == ["kernel"]


def test_a_store_to_a_tensor_of_another_type_is_no_hindrance(text):
    a, b, c = text.tensor((8, 8), FP32), text.tensor((8, 8), FP16), text.tensor((8, 8), FP16)
    held = text.load(a, [0, 0], (2, 8))
    loop_over(text, b, c)
    with text.loop(8, 2, parallel=True) as loop:
        text.store(held, text.tensor((9, 8), FP32), [loop.index, 0])
    assert names(after(text, "launches")) == ["kernel_0", "kernel_1"]


def test_a_loop_that_only_the_second_launch_needs_is_not_in_the_first(text):
    a, b, c = (text.tensor((8, 8), FP32) for _ in range(3))
    loop_over(text, text.tensor((8, 8), FP16), text.tensor((8, 8), FP16))
    start = text.load(a, [0, 0], (2, 8))
    with text.loop(3, carried=[start, start]) as loop:
        loop.yields = [text.operator("neg", loop.carried[0]), text.operator("abs", loop.carried[1])]
    with text.loop(8, 2, parallel=True) as inner:
        text.store(text.operator("add", loop.results[0], text.load(b, [inner.index, 0], (2, 8))), c, [inner.index, 0])
    first, second = functions(after(text, "launches"))
    assert first.count("scf.for") == 1
    assert second.count("scf.for") == 2
    # Only the carried tile that is used is still carried.
    assert '"pypto.abs"' not in second
    assert second.count("iter_args(") == 1
    assert "%arg8 = " not in second.partition("scf.yield")[0].partition("iter_args")[2]
