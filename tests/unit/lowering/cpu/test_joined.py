"""Which products are computed together, and that kernels stay right with and without that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pypto_jit.dtypes import FP32, INT8, INT32, DType
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.joined import find_joined
from pypto_jit.lowering.cpu.streams import Streams
from pypto_jit.targets import Space
from tests.module_text import ModuleText
from tests.unit.lowering.cpu.test_staging import integers, mat, planned_program, run

Kernels = Callable[[ModuleText], None]
# Without tile registers, whatever the processor here has.
CPU = replace(host_cpu(), features="")


def joined(build: Kernels) -> list[int]:
    """How many products each group has, of those with several."""
    with planned_program(build) as program:
        found = find_joined(program, CPU, Streams())
        assert found.deferred == {each for earlier in found.earlier.values() for each in earlier}
        return [1 + len(earlier) for earlier in found.earlier.values()]


def moved(text: ModuleText, tensor, place: list[int], space: Space):
    return text.operator("move", mat(text, tensor, place, [32, 32]), space=space)


def in_a_loop(stages: int, *, dtype: DType = FP32, stored: bool = False) -> Kernels:
    """A product along K in nine pieces, all but the first in a loop."""

    def build(text: ModuleText) -> None:
        a, b = text.tensor((32, 288), dtype), text.tensor((288, 32), dtype)
        out = text.tensor((32, 32), INT32 if dtype == INT8 else FP32)
        first = text.operator("matmul", mat(text, a, [0, 0], [32, 32]), mat(text, b, [0, 0], [32, 32]))
        with text.loop(256, 32, carried=[first], stages=stages) as loop:
            k = text.arith("addi", loop.index, text.constant(32))
            pieces = mat(text, a, [0, k], [32, 32]), mat(text, b, [k, 0], [32, 32])
            loop.yields = [text.operator("matmul_acc", loop.carried[0], *pieces)]
            if stored:
                text.store(loop.yields[0], out, [0, 0])
        text.store(loop.results[0], out, [0, 0])

    return build


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (in_a_loop(2), [2]),
        (in_a_loop(4), [4]),
        # Each piece lies where the one before it lay.
        (in_a_loop(1), []),
        # What has been added so far is read in between.
        (in_a_loop(2, stored=True), []),
    ],
)
def test_turns_of_a_loop(build, expected):
    assert joined(build) == expected
    a, b, out = integers(32, 288), integers(288, 32), np.zeros((32, 32), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


def test_integers_are_multiplied_one_by_one():
    assert joined(in_a_loop(2, dtype=INT8)) == []


def pairs(*, again: bool) -> Kernels:
    """Two products of operands that all lie apart; the second pair of operands may be moved in between."""

    def build(text: ModuleText) -> None:
        a, b, out = (text.tensor((32, 64), FP32), text.tensor((64, 32), FP32), text.tensor((32, 32), FP32))
        lefts = [moved(text, a, [0, k], Space.LEFT) for k in (0, 32)]
        rights = [moved(text, b, [k, 0], Space.RIGHT) for k in (0, 32)]
        acc = text.operator("matmul", lefts[0], rights[0])
        if again:
            lefts[1] = moved(text, a, [0, 32], Space.LEFT)
        acc = text.operator("matmul_acc", acc, lefts[1], rights[1])
        text.store(acc, out, [0, 0])

    return build


@pytest.mark.parametrize(("again", "expected"), [(False, [2]), (True, [])])
def test_the_first_product_may_start_the_sum(again, expected):
    """Where Left is filled anew, its first tile ends with the first product: the new one takes its place."""
    build = pairs(again=again)
    assert joined(build) == expected
    a, b, out = integers(32, 64), integers(64, 32), np.zeros((32, 32), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize(("again", "expected"), [(False, [2]), (True, [])])
def test_biases_are_needed_until_the_group_is_computed(again, expected):
    """Another row of biases takes the place of the first one, which ends with the first product."""

    def build(text: ModuleText) -> None:
        a, b, out = text.tensor((32, 64), FP32), text.tensor((64, 32), FP32), text.tensor((32, 32), FP32)
        rows, other = text.tensor((2, 32), FP32), text.tensor((32, 32), FP32)

        def bias(k: int):
            return text.operator("move", text.load(rows, [k, 0], (1, 32), space=Space.MAT), space=Space.BIAS)

        lefts = [moved(text, a, [0, k], Space.LEFT) for k in (0, 32)]
        rights = [moved(text, b, [k, 0], Space.RIGHT) for k in (0, 32)]
        acc = text.operator("matmul_bias", lefts[0], rights[0], bias(0))
        second = bias(1) if again else None
        text.store(text.operator("matmul_acc", acc, lefts[1], rights[1]), out, [0, 0])
        if second is not None:
            text.store(text.operator("matmul_bias", lefts[0], rights[0], second), other, [0, 0])

    assert joined(build) == expected
    a, b, rows = integers(32, 64), integers(64, 32), integers(2, 32)
    out, other = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    assert run(build, a, b, out, rows, other) == 0
    np.testing.assert_array_equal(out, a @ b + rows[0])
    if again:
        np.testing.assert_array_equal(other, a[:, :32] @ b[:32] + rows[1])


def test_pieces_of_other_shapes_are_multiplied_one_by_one():
    def build(text: ModuleText) -> None:
        a, b, out = text.tensor((32, 48), FP32), text.tensor((48, 32), FP32), text.tensor((32, 32), FP32)
        lefts = [
            text.operator("move", mat(text, a, [0, k], [32, depth]), space=Space.LEFT)
            for k, depth in ((0, 32), (32, 16))
        ]
        rights = [
            text.operator("move", mat(text, b, [k, 0], [depth, 32]), space=Space.RIGHT)
            for k, depth in ((0, 32), (32, 16))
        ]
        acc = text.operator("matmul", lefts[0], rights[0])
        text.store(text.operator("matmul_acc", acc, lefts[1], rights[1]), out, [0, 0])

    assert joined(build) == []
    a, b, out = integers(32, 48), integers(48, 32), np.zeros((32, 32), np.float32)
    assert run(build, a, b, out) == 0
    np.testing.assert_array_equal(out, a @ b)
