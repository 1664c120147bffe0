"""Compiled kernels of operators that are exact give what the interpreter gives, to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit.targets import BY_NAME as TARGETS
from tests.property.checks import check_chain
from tests.property.programs import EXACT, block_programs, carried_programs, whole_programs


@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans(), blocks=st.integers(1, 4))
def test_compiled_kernels_agree_with_the_interpreter(programs, data, seed, edges, blocks):
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    check_chain(data.draw(programs(target, EXACT)), seed, edges=edges, blocks=blocks)
