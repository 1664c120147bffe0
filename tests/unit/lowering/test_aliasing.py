"""Which inputs may be the output itself: proved on small traced modules."""

from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.lowering.aliasing import safe_in_place
from pypto_jit.lowering.context import borrowed_context

TENSOR = "!pypto.tensor<[16, 8], f32, [8, 1]>"
TILE = '!pypto.tile<[4, 8], f32, "vec", [4, 8]>'
LOAD = f'"pypto.load"(%x, ROW, %c0, %c4, %c8) : ({TENSOR}, index, index, index, index) -> {TILE}'
STORE = f'"pypto.store"(%t, %out, ROW, %c0) : ({TILE}, {TENSOR}, index, index) -> ()'
CONSTANTS = "\n".join(f"%c{k} = arith.constant {k} : index" for k in (0, 1, 2, 3, 4, 8, 16))
LOOP = "scf.for %i = %c0 to %c16 step %c4 {\nBODY\n}"


def pairs(body: str, x: str = TENSOR, out: str = TENSOR) -> frozenset[tuple[int, int]]:
    text = f"func.func @kernel(%x: {x}, %out: {out}) {{\n{CONSTANTS}\n{body}\nreturn\n}}"
    with borrowed_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return safe_in_place(module.body.operations[0].operation)


def load(row: str) -> str:
    return "%t = " + LOAD.replace("ROW", row)


def store(row: str) -> str:
    return STORE.replace("ROW", row)


def test_the_same_box_in_every_iteration():
    assert pairs(LOOP.replace("BODY", f"{load('%i')}\n{store('%i')}")) == {(0, 1)}


def test_without_a_loop():
    assert pairs(f"{load('%c4')}\n{store('%c4')}") == {(0, 1)}


def test_a_scaled_loop_variable():
    loop = LOOP.replace("step %c4", "step %c1")
    body = "%r = arith.muli %i, %c4 : index\n" + f"{load('%r')}\n{store('%r')}"
    assert pairs(loop.replace("BODY", body)) == {(0, 1)}
    assert not pairs(loop.replace("BODY", body.replace("%c4 :", "%c3 :")))


@pytest.mark.parametrize(
    "body",
    [
        f"%d = arith.addi %i, %c4 : index\n{load('%d')}\n{store('%i')}",  # reads ahead of what it writes
        f"{load('%i')}\n{store('%c0')}",  # all write one box
        f"{load('%c0')}\n{store('%c0')}",
        f"{load('%i')}\n{store('%i')}\n%u = {LOAD.replace('ROW', '%i')}",  # reads after writing
    ],
)
def test_other_boxes_are_not_safe(body):
    assert not pairs(LOOP.replace("BODY", body))


def test_steps_smaller_than_the_box_are_not_safe():
    assert not pairs(LOOP.replace("step %c4", "step %c2").replace("BODY", f"{load('%i')}\n{store('%i')}"))


def test_a_loop_that_does_not_move_the_box_is_not_safe():
    inner = "scf.for %k = %c0 to %c2 step %c1 {\nBODY\n}"
    body = LOOP.replace("BODY", inner.replace("BODY", f"{load('%i')}\n{store('%i')}"))
    assert not pairs(body)


def test_a_load_before_the_loop_is_not_safe():
    assert not pairs(load("%c0") + "\n" + LOOP.replace("BODY", store("%i")))


def test_tensors_of_another_form_are_never_one():
    strided = "!pypto.tensor<[16, 8], f32, [-1, 1]>"
    body = LOOP.replace("BODY", f"{load('%i').replace(TENSOR, strided)}\n{store('%i')}")
    assert not pairs(body, x=strided)


def test_an_input_that_is_not_read_may_be_anything():
    assert pairs("%t = " + LOAD.replace("%x", "%out").replace("ROW", "%c0") + "\n" + store("%c0")) == {(0, 1)}
