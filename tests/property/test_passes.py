"""The passes before destination passing keep the meaning of a kernel: the interpreter runs both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.targets import BY_NAME as TARGETS
from tests.property.programs import CHAIN, block_programs, carried_programs, whole_programs
from tests.property.running import arguments, assert_same, interpreted

VALUES = tuple(entry for entry in PASSES if entry.level in ("values", "flat", "placed"))


@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_passes_on_values_keep_the_meaning(programs, data, seed, edges):
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    program = data.draw(programs(target, CHAIN))
    arrays = arguments(program, seed, edges=edges)
    with borrowed_context():
        module = ir.Module.parse(str(program.module()))
        before = interpreted(module, arrays)
        lower(module, target, passes=VALUES)
        assert_same(interpreted(module, arrays), before, program)
