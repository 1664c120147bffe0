"""What is checked of a random kernel once it is compiled, in one place for short and long runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import MEANINGS, Tile
from pypto_jit.dialects.interpreter.tiles import Call, embed
from pypto_jit.dtypes import BF16, FP32
from pypto_jit.lowering.context import borrowed_context
from tests.property.compiled import CompiledModule
from tests.property.programs import APPROXIMATE, PRODUCTS, SUMS, Program, Step
from tests.property.running import UNTOUCHED, arguments, assert_same, interpreted, ulp_distance
from tests.property.sources import kernel

# exp, log and rsqrt are computed in FP32 to 2 ulp; rounded to FP16 that is at most the neighbour of the right result.
ULPS = {"FP32": 2, "FP16": 1}
EPSILON = float(numpy.finfo(numpy.float32).eps)


def check_chain(program: Program, seed: int, *, edges: bool, blocks: int) -> None:
    """A compiled kernel of exact operators gives what the interpreter gives."""
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        module = ir.Module.parse(str(program.module()))
        expected = interpreted(module, arrays)
        compiled = CompiledModule(module, program.target, blocks)
    result = compiled(arrays)
    assert compiled.violation is None
    assert_same(result, expected, program)


def check_language(program: Program, seed: int, *, edges: bool) -> None:
    """A kernel of exact operators, written in the language and called, gives what the interpreter gives."""
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        expected = interpreted(ir.Module.parse(str(program.module())), arrays)
    jitted = kernel(program)
    tensors = [as_tensor(array.copy()) for array in arrays]
    outputs = tensors[len(program.inputs) :]
    returned = jitted(*tensors)
    assert all(a is b for a, b in zip(returned if len(outputs) > 1 else [returned], outputs, strict=True))
    assert_same([tensor.double().numpy() for tensor in tensors], expected, program)
    again = [array.copy() for array in arrays]
    jitted.interpret(*again)
    assert_same(again, expected, program)


def as_tensor(array: numpy.ndarray) -> torch.Tensor:
    """A tensor over the memory of an array; NumPy and torch do not share a bfloat16."""
    if array.dtype == BF16.numpy:
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def check_steps(program: Program, seed: int, *, edges: bool) -> None:
    """Each operator of a compiled kernel is as accurate as promised.

    Every tile is stored, and what it is compared with is computed from the compiled tiles before it, so that no error
    is carried from one operator to the next.
    """
    program = replace(program, stored=tuple(range(len(program.tiles))))
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        compiled = CompiledModule(ir.Module.parse(str(program.module())), program.target)
    result = compiled(arrays)
    assert compiled.violation is None
    compare_steps(program, result[: len(program.inputs)], result[len(program.inputs) :])


@numpy.errstate(all="ignore")
def compare_steps(program: Program, inputs: Sequence[numpy.ndarray], outputs: Sequence[numpy.ndarray]) -> None:
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
    elif step.operator in PRODUCTS and step.result.dtype.is_float:
        axis = -1 if step.operator == "row_prod" else -2
        assert_product(operands[0].box().astype(numpy.float64), axis, given_box, expected, message)
    else:
        numpy.testing.assert_array_equal(given_box.astype(numpy.float64), expected.astype(numpy.float64), message)


def assert_sum(
    terms: numpy.ndarray, axis: int, given_box: numpy.ndarray, expected: numpy.ndarray, message: str
) -> None:
    """A sum in FP32 in any order: its error is below the number of terms times epsilon times the sum of magnitudes."""
    scale = numpy.abs(terms).sum(axis=axis, keepdims=True)
    # Where a partial sum could overflow, the order decides.
    certain = numpy.where(numpy.isfinite(terms), numpy.abs(terms), 0).sum(axis=axis, keepdims=True) < 1e38
    rounding = numpy.spacing(numpy.abs(expected)) if expected.dtype != FP32.numpy else 0
    bound = terms.shape[axis] * EPSILON * scale + rounding
    close = numpy.abs(given_box.astype(numpy.float64) - expected.astype(numpy.float64)) <= bound
    same = (given_box == expected) | (numpy.isnan(given_box) & numpy.isnan(expected))
    assert (close | same | ~certain).all(), message


def assert_product(
    factors: numpy.ndarray, axis: int, given_box: numpy.ndarray, expected: numpy.ndarray, message: str
) -> None:
    """A product in FP32 in any order: its error is below the number of factors times epsilon times its magnitude."""
    sizes = numpy.abs(factors)
    # Where a partial product could overflow, or lose digits as a subnormal number, the order decides.
    large = numpy.prod(numpy.maximum(sizes, 1), axis=axis, keepdims=True)
    small = numpy.prod(numpy.where(sizes == 0, 1, numpy.minimum(sizes, 1)), axis=axis, keepdims=True)
    certain = (large < 1e38) & (small > 1e-37) & numpy.isfinite(factors).all(axis=axis, keepdims=True)
    rounding = numpy.spacing(numpy.abs(expected)) if expected.dtype != FP32.numpy else 0
    bound = factors.shape[axis] * EPSILON * numpy.prod(sizes, axis=axis, keepdims=True) + rounding
    close = numpy.abs(given_box.astype(numpy.float64) - expected.astype(numpy.float64)) <= bound
    same = (given_box == expected) | (numpy.isnan(given_box) & numpy.isnan(expected))
    assert (close | same | ~certain).all(), message
