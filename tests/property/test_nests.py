"""Compiled nests of loops and ifs that carry tiles give what the interpreter gives."""

from __future__ import annotations

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3
from tests.property.compiled import CompiledModule
from tests.property.nests import OUTPUTS, SHAPE, TURNS, nests
from tests.property.running import interpreted


@given(text=nests(), seed=st.integers(0, 2**16))
def test_compiled_nests_agree_with_the_interpreter(text, seed):
    source = numpy.random.default_rng(seed).integers(-9, 9, (TURNS * 4, 8)).astype("float32")
    arrays = [source, *(numpy.full(s, 7, "float32") for s in [SHAPE] * OUTPUTS + [(3, 1)] * OUTPUTS)]
    with borrowed_context():
        module = ir.Module.parse(str(text))
        expected = interpreted(module, arrays)
        compiled = CompiledModule(module, A2A3)
    result = compiled(arrays)
    assert compiled.violation is None
    for given_array, wanted in zip(result, expected, strict=True):
        numpy.testing.assert_array_equal(given_array, wanted, str(text))
