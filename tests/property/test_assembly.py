"""What is printed as assembly, parsed back and compiled gives what the interpreter gives, to the last bit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly, print_assembly
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3, A5
from tests.property.compiled import CompiledModule
from tests.property.programs import EXACT, block_programs, carried_programs, whole_programs
from tests.property.running import arguments, assert_same, interpreted


@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "without_buffer_numbers"])
@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@settings(max_examples=40)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_assembly_that_is_parsed_back_runs_the_same(programs, foreign, data, seed):
    target = data.draw(st.sampled_from([A2A3, A5]))
    program = data.draw(programs(target, EXACT))
    arrays = arguments(program, seed)
    with borrowed_context() as context:
        module = ir.Module.parse(str(program.module()))
        expected = interpreted(module, arrays)
        text = print_assembly(lower(module, target))
        if foreign:
            # Which handles share a buffer has to be found from their addresses.
            text = re.sub(r" // pypto: buffer = \d+ : i64", "", text)
        parsed = parse_assembly(text, context)
        if not foreign:
            assert print_assembly(parsed) == text
        kernel = CompiledModule(parsed, target, planned=True)
    result = kernel(arrays)
    assert kernel.violation is None
    assert_same(result, expected, program)
