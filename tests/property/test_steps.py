"""Every operator of a random chain, held to its own accuracy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pypto_jit.targets import BY_NAME as TARGETS
from tests.property.checks import check_steps
from tests.property.programs import CHAIN, whole_programs


@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_each_operator_is_as_accurate_as_promised(data, seed, edges):
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    check_steps(data.draw(whole_programs(target, CHAIN)), seed, edges=edges)
