"""Fused nests: every elementwise operator, cast, expand and row reduction, held against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dialects.operators import ROUND_MODES, ROWS
from pypto_jit.dtypes import FP16, FP32, INT16, DType
from pypto_jit.targets import A2A3, A5
from tests.module_text import ModuleText
from tests.native import check, numbers, whole

ELEMENTWISE = [row for row in ROWS if row.rule == "elementwise"]
CASES = [(row.name, dtype, target) for row in ELEMENTWISE for target in (A2A3, A5) for dtype in row.dtypes[target.name]]
CASTS = sorted({(s.name, t.name): (s, t, m) for m in (A2A3, A5) for s, ts in m.casts.items() for t in ts}.items())


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_elementwise_rows(name):
    shapes = [(3, 7), (4, 32), (1, 50)]
    for number, (_, dtype, target) in enumerate(sorted((c for c in CASES if c[0] == name), key=lambda c: str(c[1:]))):
        shape = shapes[number % 3]
        scalar = {True: "1.5", False: "3"}[dtype.is_float]

        def build(text, name=name, dtype=dtype, shape=shape, scalar=scalar):
            row = next(r for r in ROWS if r.name == name)
            x, y, out = (text.tensor(shape, dtype) for _ in range(3))
            operands = [whole(text, x)]
            if len(row.operands) == 2:
                kind = row.operands[1].kind
                operands.append(whole(text, y) if kind == "tile" else text.constant(scalar, dtype.signless))
            text.store(text.operator(name, *operands), out, [0, 0])

        arrays = [numbers(shape, dtype) for _ in range(3)]
        check(build, arrays, target=target)


@pytest.mark.parametrize("mode", ROUND_MODES)
def test_casts(mode):
    for _, (source, goal, target) in CASTS:

        def build(text, source=source, goal=goal):
            x, out = text.tensor((5, 40), source), text.tensor((5, 40), goal)
            text.store(text.operator("cast", whole(text, x), dtype=goal, mode=mode), out, [0, 0])

        x = numbers((5, 40), source)
        check(build, [x, np.zeros((5, 40), goal.numpy)], target=target)


@pytest.mark.parametrize("dtype", [FP32, FP16, INT16], ids=str)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_expands(axis, dtype):
    shape = (6, 20)
    names = ["add", "sub", "mul", "max", "min"] + (["div"] if dtype.is_float else [])

    def build(text):
        x, v = text.tensor(shape, dtype), text.tensor((6, 1) if axis == "row" else (1, 20), dtype)
        tile, vector = whole(text, x), whole(text, v)
        for name in names:
            out = text.tensor(shape, dtype)
            text.store(text.operator(f"{axis}_expand_{name}", tile, vector), out, [0, 0])
        out = text.tensor(shape, dtype)
        text.store(text.operator(f"{axis}_expand", tile, vector), out, [0, 0])

    vector = (6, 1) if axis == "row" else (1, 20)
    results = [np.zeros(shape, dtype.numpy) for _ in range(len(names) + 1)]
    check(build, [numbers(shape, dtype), numbers(vector, dtype), *results])


def test_a_row_is_reshaped():
    def build(text):
        x, out = text.tensor((8, 8), FP32), text.tensor((2, 32), FP32)
        tile = text.operator("exp", whole(text, x))
        text.store(text.operator("neg", text.operator("reshape", tile, shape=(2, 32))), out, [0, 0])

    check(build, [numbers((8, 8), FP32), np.zeros((2, 32), np.float32)])


def softmax(text: ModuleText, rows: int, columns: int, step: int, dtype: DType = FP32) -> None:
    x, out = text.tensor((rows, columns), dtype), text.tensor((rows, columns), dtype)
    end, block = text.index(rows), text.index(step)
    with text.loop(end, step, parallel=True) as loop:
        valid = text.arith("minsi", block, text.arith("subi", end, loop.index))
        tile = text.load(x, [loop.index, 0], [step, columns], [valid, columns])
        tile = text.operator("exp", text.operator("row_expand_sub", tile, text.operator("row_max", tile)))
        text.store(text.operator("row_expand_div", tile, text.operator("row_sum", tile)), out, [loop.index, 0])


@pytest.mark.parametrize(("rows", "columns", "step"), [(10, 128, 4), (7, 37, 3), (5, 1, 8), (1, 1000, 1), (9, 300, 2)])
def test_softmax_has_no_check_left(rows, columns, step):
    arrays = [numbers((rows, columns), FP32), np.zeros((rows, columns), np.float32)]
    kernel = check(lambda text: softmax(text, rows, columns, step), arrays, blocks=3, tolerance=1e-6)
    assert kernel.checks == ()
