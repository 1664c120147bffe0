"""Compiled kernels of operators that are exact give what the interpreter gives, to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3, A5
from tests.property.compiled import CompiledModule
from tests.property.programs import EXACT, block_programs, carried_programs, whole_programs
from tests.property.running import arguments, assert_same, interpreted


@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans(), blocks=st.integers(1, 4))
def test_compiled_kernels_agree_with_the_interpreter(programs, data, seed, edges, blocks):
    target = data.draw(st.sampled_from([A2A3, A5]))
    program = data.draw(programs(target, EXACT))
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        module = ir.Module.parse(str(program.module()))
        expected = interpreted(module, arrays)
        kernel = CompiledModule(module, target, blocks)
    result = kernel(arrays)
    assert kernel.violation is None
    assert_same(result, expected, program)
