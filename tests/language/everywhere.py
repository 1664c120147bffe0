"""Runs a kernel in every way there is: compiled, interpreted, and compiled from what it prints."""

from __future__ import annotations

import inspect
from typing import Any

import torch

import pypto_jit as pypto

WAYS = ("compiled", "interpreted", "trace", "pto")


def run(kernel: Any, way: str, *arguments: torch.Tensor) -> list[torch.Tensor]:
    """Copies of the arguments as the kernel leaves them.

    Args:
        kernel: a function decorated with ``pypto.jit``, whose parameters are all tensors.
        way: one of `WAYS`; ``trace`` and ``pto`` print this stage and compile the text.
        arguments: all of them, outputs included.
    """
    copies = [argument.clone() for argument in arguments]
    if way == "interpreted":
        kernel.interpret(*copies)
    elif way == "compiled":
        kernel(*copies)
    else:
        pypto.compile(kernel.lower(*copies)[way])(*copies)
    return copies


def check(kernel: Any, *arguments: torch.Tensor, ways: tuple[str, ...] = WAYS, **expected: torch.Tensor) -> None:
    """Compare the named arguments after each way of running the kernel with what they must hold, to the last bit.

    NaN equals NaN.
    """
    names = list(inspect.signature(kernel).parameters)
    for way in ways:
        results = dict(zip(names, run(kernel, way, *arguments), strict=False))
        for name, value in expected.items():
            torch.testing.assert_close(
                results[name], value, rtol=0, atol=0, equal_nan=True, msg=lambda text, w=way, n=name: f"{w} {n}: {text}"
            )
