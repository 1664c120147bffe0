"""Random functions of whole tensors against torch in double precision, within bounds that are derived for each."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from tests.property.bounded import Bounded
from tests.property.tensor_programs import TensorProgram, drawn

PLATFORMS = ("a2a3sim", "a5sim")
# More of them, and others, on request: each number is a program.
PROGRAMS = int(os.environ.get("PYPTO_JIT_PROGRAMS", "20"))
FIRST = int(os.environ.get("PYPTO_JIT_FIRST_PROGRAM", "0"))


def check(program: TensorProgram, platform: str) -> None:
    """The compiled kernel and the interpreter give what the function means."""
    kernel = program.kernel(platform)
    for way, run in (("interpreted", kernel.interpret), ("compiled", kernel)):
        arguments = [argument.made() for argument in program.arguments]
        count = [] if program.count is None else [program.count]
        found = run(*arguments, *count)
        results = found if isinstance(found, tuple) else (found,)
        assert len(results) == len(program.results)
        for number, (result, expected) in enumerate(zip(results, program.results, strict=True)):
            _within(result, expected, f"{way}: result {number} of\n{program.text}")
        for number, (after, expected) in enumerate(zip(arguments, program.memory, strict=True)):
            _within(after, expected, f"{way}: argument {number} of\n{program.text}")


def _within(found: Any, expected: Bounded, message: str) -> None:
    assert tuple(found.shape) == expected.shape, message
    assert found.dtype == getattr(torch, expected.dtype.torch), message
    error = (found.double() - expected.value.double()).abs()
    # Where nothing is known, what is found may be no number.
    wrong = ~((error <= expected.radius) | expected.radius.isinf())
    if bool(wrong.any()):
        place = tuple(wrong.nonzero()[0].tolist())
        numbers = [each[place].item() for each in (found, expected.value, expected.radius)]
        raise AssertionError(f"at {place} of {list(expected.shape)}: found, expected, bound: {numbers}\n{message}")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_tensor_programs(seed):
    check(drawn(seed), PLATFORMS[seed % 2])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10_000, 10_200))
def test_more_tensor_programs(seed):
    check(drawn(seed), PLATFORMS[seed % 2])
