"""The same checks on many more random kernels, for continuous integration."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_jit.targets import BY_NAME as TARGETS
from tests.property.checks import check_chain, check_language, check_steps
from tests.property.programs import CHAIN, EXACT, block_programs, carried_programs, whole_programs

pytestmark = pytest.mark.slow

each_shape = pytest.mark.parametrize(
    "programs", [whole_programs, block_programs, carried_programs], ids=lambda f: f.__name__
)
each_target = pytest.mark.parametrize("target", sorted(TARGETS))


@each_shape
@each_target
@settings(max_examples=120)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans(), blocks=st.integers(1, 4))
def test_chains(programs, target, data, seed, edges, blocks):
    check_chain(data.draw(programs(TARGETS[target], EXACT, 8)), seed, edges=edges, blocks=blocks)


@each_target
@settings(max_examples=120)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_steps(target, data, seed, edges):
    check_steps(data.draw(whole_programs(TARGETS[target], CHAIN, 9)), seed, edges=edges)


@each_shape
@each_target
@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 2**16), edges=st.booleans())
def test_language(programs, target, data, seed, edges):
    check_language(data.draw(programs(TARGETS[target], EXACT, 8)), seed, edges=edges)
