"""Every example computes what torch computes in float64, on inputs of several seeds."""

from __future__ import annotations

import pytest

from examples.catalog import EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_example_agrees_with_torch(example, seed):
    arguments = example.arguments(seed)
    found = example.kernel(*arguments)
    assert (found.shape, found.dtype) == example.output
    assert example.returns or found is arguments[-1]
    error = (found.double() - example.expected(arguments).double()).abs().max().item()
    assert error <= example.tolerance


def test_names_are_unique():
    names = [example.name for example in EXAMPLES]
    assert len(set(names)) == len(names)
