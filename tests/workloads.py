"""Checks a kernel in every way it can be run: compiled for each target, interpreted, and printed as assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import pypto_jit as pypto

PLATFORMS = ("a2a3sim", "a5sim")


def run(call: Any, arguments: Sequence[Any], results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What a call leaves in its results, which start full of a value that no kernel here computes."""
    for result in results:
        result.fill_(77)
    with torch.no_grad():
        call(*arguments)
    return [result.clone() for result in results]


def check(
    kernel: Any,
    arguments: Sequence[Any],
    expected: dict[int, torch.Tensor],
    tolerance: float,
    *,
    interpreted: bool = True,
    refused: str | None = None,
) -> None:
    """Compare a kernel with a torch computation.

    Args:
        kernel: the jitted function.
        arguments: of the call; those that ``expected`` names are outputs.
        expected: by position of an output, what it holds after the call.
        tolerance: both the relative and the absolute one (0: equal).
        interpreted: whether to run it in the NumPy interpreter, too.
        refused: what the error says that the assembly is refused with; None where there is assembly.
    """
    outputs = [arguments[k] for k in expected]
    calls = {p: lambda *a, p=p: kernel(*a, config=pypto.RunConfig(platform=p)) for p in PLATFORMS}
    if interpreted:
        calls["interpreted"] = kernel.interpret
    for name, call in calls.items():
        for k, (found, right) in enumerate(zip(run(call, arguments, outputs), expected.values(), strict=True)):
            torch.testing.assert_close(
                found.to(right.dtype),
                right,
                rtol=tolerance,
                atol=tolerance,
                msg=lambda m, k=k, n=name: f"{n}, output {k}: {m}",
            )
    for platform in PLATFORMS:
        program = kernel.compile(*arguments, config=pypto.RunConfig(platform=platform))
        if refused is None:
            assert f'pto.target_arch = "{platform.removesuffix("sim")}"' in program.pto
        else:
            with pytest.raises(pypto.PyptoError, match=refused):
                _ = program.pto
