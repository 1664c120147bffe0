"""Random kernels written in the language, compiled and called as a user does, give what the interpreter gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit.targets import BY_NAME as TARGETS
from tests.property.checks import check_language
from tests.property.programs import EXACT, block_programs, carried_programs, whole_programs


@pytest.mark.parametrize("programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_jitted_kernels_agree_with_the_interpreter(programs, data, seed, edges):
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    check_language(data.draw(programs(target, EXACT)), seed, edges=edges)
