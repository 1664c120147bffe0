"""Runs a drawn program in the interpreter, and checks what the compiled kernel gives against it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dtypes import DType
from tests.property.programs import Program, array

# What an output holds before the kernel runs: elements outside of what is stored must keep it.
UNTOUCHED = 7


def arguments(program: Program, seed: int, *, edges: bool = False) -> list[numpy.ndarray]:
    """Inputs with data, outputs filled with `UNTOUCHED`."""
    inputs = [
        array(shape, tile.dtype, seed + k, edges=edges)
        for k, (shape, tile) in enumerate(zip(program.input_shapes(), program.inputs, strict=True))
    ]
    outputs = [
        numpy.full(shape, UNTOUCHED, program.tiles[k].dtype.numpy)
        for shape, k in zip(program.output_shapes(), program.stored, strict=True)
    ]
    return inputs + outputs


def interpreted(module: ir.Module, arrays: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
    """The arrays after the interpreter ran on copies of them."""
    copies = [given.copy() for given in arrays]
    interpret(module, copies)
    return copies


def assert_same(given: Sequence[numpy.ndarray], expected: Sequence[numpy.ndarray], program: Program) -> None:
    """Every element equal; NaN equals NaN, and zeros of either sign are equal."""
    for k, (left, right) in enumerate(zip(given, expected, strict=True)):
        numpy.testing.assert_array_equal(
            left.astype(numpy.float64), right.astype(numpy.float64), f"argument {k} of\n{program.module()}"
        )


def ulp_distance(given: numpy.ndarray, expected: numpy.ndarray, dtype: DType) -> numpy.ndarray:
    """Representable numbers between two arrays of a float dtype, 0 where both are NaN."""
    bits = numpy.dtype(f"i{dtype.bytes}")
    mask = numpy.iinfo(bits).max

    def ordered(values: numpy.ndarray) -> numpy.ndarray:
        raw = values.view(bits).astype(numpy.int64)
        return numpy.where(raw < 0, -(raw & mask), raw)

    both = numpy.isnan(given) & numpy.isnan(expected)
    either = numpy.isnan(given) | numpy.isnan(expected)
    distance = numpy.abs(ordered(given) - ordered(expected))
    return numpy.where(both, 0, numpy.where(either, mask, distance))
