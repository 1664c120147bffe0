"""Compiled kernels that mix cube and vector work, staged or whole, give what the interpreter gives."""

from __future__ import annotations

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3
from tests.property.compiled import CompiledModule
from tests.property.mixed_kernels import EDGE, ROWS, TENSORS, mixed_kernels
from tests.property.running import interpreted


@given(text=mixed_kernels(), seed=st.integers(0, 2**16), blocks=st.integers(1, 3))
def test_compiled_mixed_kernels_agree_with_the_interpreter(text, seed, blocks):
    generator = numpy.random.default_rng(seed)
    arrays = [generator.integers(-2, 3, (ROWS + k, EDGE)).astype("float32") for k in range(TENSORS)]
    with borrowed_context():
        module = ir.Module.parse(str(text))
        expected = interpreted(module, arrays)
        compiled = CompiledModule(module, A2A3, blocks)
    result = compiled(arrays)
    assert compiled.violation is None
    for given_array, wanted in zip(result, expected, strict=True):
        numpy.testing.assert_array_equal(given_array, wanted, str(text))
