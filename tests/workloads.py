"""Checks a kernel in every way it can be run: compiled for each target, interpreted, and printed as assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import pypto_jit as pypto
from examples.catalog import Example

PLATFORMS = ("a2a3sim", "a5sim")


def blank(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An output, full of a value that no kernel here computes."""
    return torch.full(shape, 77, dtype=dtype)


def results(call: Any, arguments: Sequence[Any], outputs: Sequence[int]) -> list[torch.Tensor]:
    """What a call leaves in its outputs; the arguments themselves stay as they are."""
    own = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    with torch.no_grad():
        call(*own)
    return [own[k] for k in outputs]


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
        arguments: of the call.
        expected: by the position of a tensor, what it holds after the call.
        tolerance: both the relative and the absolute one (0: equal).
        interpreted: whether to run it in the NumPy interpreter, too.
        refused: what the error says that the assembly is refused with; None where there is assembly.
    """
    calls = {p: lambda *a, p=p: kernel(*a, config=pypto.RunConfig(platform=p)) for p in PLATFORMS}
    if interpreted:
        calls["interpreted"] = kernel.interpret
    for name, call in calls.items():
        for k, found in zip(expected, results(call, arguments, list(expected)), strict=True):
            torch.testing.assert_close(
                found.to(expected[k].dtype),
                expected[k],
                rtol=tolerance,
                atol=tolerance,
                msg=lambda text, k=k, name=name: f"{name}, argument {k}: {text}",
            )
    for platform in PLATFORMS:
        program = kernel.compile(*arguments, config=pypto.RunConfig(platform=platform))
        if refused is None:
            assert f'pto.target_arch = "{platform.removesuffix("sim")}"' in program.pto
        else:
            with pytest.raises(pypto.PyptoError, match=refused):
                _ = program.pto


def check_example(example: Example, seed: int = 0) -> None:
    """Compare an example with torch: compiled for every machine that has it, interpreted, and as assembly."""
    arguments = example.arguments(seed)
    right = example.expected(arguments).double()
    runs = {m: lambda *a, m=m: example.kernel(*a, config=pypto.RunConfig(platform=f"{m}sim")) for m in example.machines}
    with torch.no_grad():
        for name, call in {**runs, "interpreted": example.kernel.interpret}.items():
            found = torch.as_tensor(call(*(argument.clone() for argument in arguments)))
            assert (found.shape, found.dtype) == example.output
            torch.testing.assert_close(
                found.double(),
                right,
                rtol=0,
                atol=example.tolerance,
                msg=lambda text, name=name: f"{name}: {text}",
            )
    for machine in example.machines:
        program = example.kernel.compile(*arguments, config=pypto.RunConfig(platform=f"{machine}sim"))
        assert f'pto.target_arch = "{machine}"' in program.pto
