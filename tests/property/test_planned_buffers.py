"""Destination passing and the memory plan keep the meaning of a kernel: a slow machine runs what they give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3, A5
from tests.property.programs import CHAIN, block_programs, carried_programs, whole_programs
from tests.property.running import arguments, assert_same, interpreted
from tests.unit.lowering.machine import Machine


@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@given(data=st.data(), seed=st.integers(0, 2**16), blocks=st.integers(1, 3))
def test_planned_buffers_keep_the_meaning(programs, data, seed, blocks):
    target = data.draw(st.sampled_from([A2A3, A5]))
    program = data.draw(programs(target, CHAIN))
    arrays = arguments(program, seed)
    with borrowed_context():
        module = ir.Module.parse(str(program.module()))
        expected = interpreted(module, arrays)
        lower(module, target)
        outcome = [array.copy() for array in arrays]
        Machine(module, target).run({f"p{k}": array for k, array in enumerate(outcome)}, blocks=blocks)
    assert_same(outcome, expected, program)
