"""Launches and stages keep the meaning of kernels that mix cube and vector work."""

from __future__ import annotations

import numpy
from hypothesis import event, given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3
from tests.property.mixed_kernels import EDGE, ROWS, TENSORS, mixed_kernels
from tests.unit.lowering.machine import Machine


@given(text=mixed_kernels(), seed=st.integers(0, 2**16), blocks=st.integers(1, 3))
def test_stages_keep_the_meaning(text, seed, blocks):
    generator = numpy.random.default_rng(seed)
    arrays = [generator.integers(-2, 3, (ROWS + k, EDGE)).astype("float32") for k in range(TENSORS)]
    expected = [array.copy() for array in arrays]
    with borrowed_context():
        module = ir.Module.parse(str(text))
        interpret(module, expected)
        lower(module, A2A3)
        functions = list(module.body.operations)
        whole = any("pypto.mixed" in function.attributes for function in functions)
        event("whole" if whole else f"{min(len(functions), 5)} functions")
        named = {f"p{k}": array for k, array in enumerate(arrays)}
        Machine(module, A2A3).run(named, blocks=blocks)
    for outcome, wanted in zip(arrays, expected, strict=True):
        numpy.testing.assert_array_equal(outcome, wanted, str(text))
