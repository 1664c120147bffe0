"""Tiles carried by loops and ifs get right buffers: a slow machine runs random nests beside the interpreter."""

from __future__ import annotations

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3
from tests.property.nests import OUTPUTS, SHAPE, TURNS, nests
from tests.unit.lowering.machine import Machine


@given(text=nests(), seed=st.integers(0, 2**16))
def test_carried_tiles_keep_their_values(text, seed):
    source = numpy.random.default_rng(seed).integers(-9, 9, (TURNS * 4, 8)).astype("float32")
    arrays = [source, *(numpy.full(s, 7, "float32") for s in [SHAPE] * OUTPUTS + [(3, 1)] * OUTPUTS)]
    expected = [array.copy() for array in arrays]
    with borrowed_context():
        module = ir.Module.parse(str(text))
        interpret(module, expected)
        lower(module, A2A3)
        Machine(module, A2A3).run({f"p{k}": array for k, array in enumerate(arrays)})
    for given_array, wanted in zip(arrays, expected, strict=True):
        numpy.testing.assert_array_equal(given_array, wanted, str(text))
