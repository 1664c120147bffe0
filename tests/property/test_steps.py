"""Every operator of a random chain, held to its own accuracy.

Each compiled tile is stored, and what it is compared with is computed from the compiled tiles before it, so that no
error is carried from one operator to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import MEANINGS, Tile
from pypto_jit.dialects.interpreter.tiles import Call, embed
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3, A5
from tests.property.compiled import CompiledModule
from tests.property.programs import APPROXIMATE, CHAIN, SUMS, Program, Step, whole_programs
from tests.property.running import UNTOUCHED, arguments, ulp_distance

# exp, log and rsqrt are computed in FP32 to 2 ulp; rounded to FP16 that is at most the neighbour of the right result.
ULPS = {"FP32": 2, "FP16": 1}
EPSILON = float(numpy.finfo(numpy.float32).eps)


@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_each_operator_is_as_accurate_as_promised(data, seed, edges):
    target = data.draw(st.sampled_from([A2A3, A5]))
    program = data.draw(whole_programs(target, CHAIN))
    program = replace(program, stored=tuple(range(len(program.tiles))))
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        kernel = CompiledModule(ir.Module.parse(str(program.module())), target)
    given_arrays = kernel(arrays)
    assert kernel.violation is None
    check_steps(program, given_arrays[: len(program.inputs)], given_arrays[len(program.inputs) :])


@numpy.errstate(all="ignore")
def check_steps(program: Program, inputs: Sequence[numpy.ndarray], outputs: Sequence[numpy.ndarray]) -> None:
    """Compare what each step stored with its NumPy meaning on what the steps before it stored."""
    tiles: list[Tile] = []
    for k, (kind, stored) in enumerate(zip(program.tiles, outputs, strict=True)):
        box = tuple(slice(extent) for extent in kind.valid)
        outside = numpy.full(kind.shape, True)
        outside[box] = False
        assert (stored[outside] == UNTOUCHED).all(), f"tile {k} was stored outside of its valid region, of\n{program}"
        if k < len(program.inputs):
            expected = inputs[k][box]
            numpy.testing.assert_array_equal(stored[box].view(numpy.uint8), expected.view(numpy.uint8))
        else:
            step = program.steps[k - len(program.inputs)]
            operands = [tiles[position] for position in step.operands]
            assert_step(step, operands, stored[box], program)
        tiles.append(embed(stored[box].copy(), kind.shape, kind.dtype))


def assert_step(step: Step, operands: list[Tile], given_box: numpy.ndarray, program: Program) -> None:
    """Compare one step."""
    values: list[Any] = [*operands]
    if step.scalar is not None:
        dtype = operands[0].dtype if operands else step.result.dtype
        values.append(dtype.numpy.type(step.scalar[0]))
    made = MEANINGS[step.operator](Call(tuple(values), (None,) * len(values), step.result, step.attributes, None))
    assert made is not None
    expected = made.box()
    message = f"{step.operator} of\n{program}"
    if step.operator in APPROXIMATE:
        worst = ulp_distance(given_box, expected, step.result.dtype).max(initial=0)
        assert worst <= ULPS[step.result.dtype.name], f"{worst} ulp in {message}"
    elif step.operator in SUMS and step.result.dtype.is_float:
        axis = -1 if step.operator == "row_sum" else -2
        assert_sum(operands[0].box().astype(numpy.float64), axis, given_box, expected, message)
    else:
        numpy.testing.assert_array_equal(given_box.astype(numpy.float64), expected.astype(numpy.float64), message)


def assert_sum(
    terms: numpy.ndarray, axis: int, given_box: numpy.ndarray, expected: numpy.ndarray, message: str
) -> None:
    """A sum in FP32 in any order: its error is below the number of terms times epsilon times the sum of magnitudes."""
    scale = numpy.abs(terms).sum(axis=axis, keepdims=True)
    # Where a partial sum could overflow, the order decides.
    certain = ~(scale >= 1e38) | ~numpy.isfinite(scale)
    rounding = numpy.spacing(numpy.abs(expected)) if expected.dtype != FP32.numpy else 0
    bound = terms.shape[axis] * EPSILON * scale + rounding
    close = numpy.abs(given_box.astype(numpy.float64) - expected.astype(numpy.float64)) <= bound
    same = (given_box == expected) | (numpy.isnan(given_box) & numpy.isnan(expected))
    assert (close | same | ~certain).all(), message
