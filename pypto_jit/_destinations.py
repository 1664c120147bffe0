"""``out=``: tensors that a call gives for what its kernel computes and returns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch

from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import allocator, inspect_tensor, is_tensor
from pypto_jit.runtime.extents import resolve
from pypto_jit.runtime.launch import as_array, check_autograd, check_writable, share_memory
from pypto_jit.signature import ParamInfo, TensorSpec

OUT = "out"


class Destinations:
    """The tensors that the results of one call are written to.

    Attributes:
        given: by the name of the result.
        written: what the kernel writes: the tensor itself where it lies in memory as the kernel's results do, and
            otherwise a new one, which `settle` copies.
    """

    def __init__(self, given: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        self.given = given
        self.written = written

    @property
    def direct(self) -> bool:
        """Whether the kernel writes to all of them itself."""
        return all(self.written[name] is value for name, value in self.given.items())

    def settle(self) -> None:
        """Copy what the kernel could not write itself."""
        for name, value in self.given.items():
            made = self.written[name]
            if made is value:
                continue
            if isinstance(value, numpy.ndarray):
                value[...] = made
                continue
            tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
            with torch.no_grad():
                tensor.copy_(made if isinstance(made, torch.Tensor) else torch.from_numpy(made))


def destinations(
    kernel: str,
    tensors: Sequence[ParamInfo],
    parameters: Mapping[str, Any],
    extents: Mapping[str, int],
    out: Any,
) -> Destinations:
    """Match what a call gives as ``out=`` with the results of its kernel.

    Args:
        kernel: its name.
        tensors: what the traced kernel takes: its results come in the order in which it returns them.
        parameters: the values of what is in its signature.
        extents: what the names of extents stand for.
        out: a tensor, or a tuple of as many as there are results.

    Raises:
        ArgumentError: the kernel computes nothing that it returns; or they are not what it returns, cannot be written,
            or share memory.
    """
    results = [info for info in tensors if info.name not in parameters]
    if not results:
        raise ArgumentError(
            f"{kernel}() takes no out=: it returns nothing but its own parameters",
            expected=f"{kernel}({', '.join(parameters)})",
        )
    values = list(out) if isinstance(out, (tuple, list)) else [out]
    if len(values) != len(results) or not all(is_tensor(value) for value in values):
        one = len(results) == 1
        raise ArgumentError(
            f"out= of {kernel}() takes " + ("the result" if one else "the results"),
            found=", ".join(f"a {type(value).__qualname__}" for value in values) or "nothing",
            expected="a tensor" if one else f"a tuple of {len(results)} tensors",
        )
    given, written = {}, {}
    for k, (info, value) in enumerate(zip(results, values, strict=True)):
        name = OUT if len(results) == 1 else f"{OUT}[{k}]"
        given[info.name] = value
        written[info.name] = _written(name, info.spec, value, extents)  # type: ignore[arg-type]
    for (first, left), (second, right) in itertools.combinations(enumerate(values), 2):
        if share_memory(as_array(left), as_array(right)):
            raise ArgumentError(
                f"'{OUT}[{first}]' and '{OUT}[{second}]' are both written and share memory", hint="pass a clone of one"
            )
    return Destinations(given, written)


def _written(name: str, spec: TensorSpec, value: Any, extents: Mapping[str, int]) -> Any:
    """What the kernel writes for one tensor that is given."""
    argument = inspect_tensor(name, value, spec.dims)
    shape = resolve(name, spec, extents)
    if argument.shape != shape or argument.spec.dtype != spec.dtype:
        raise ArgumentError(
            f"'{name}' is not what the kernel returns",
            found=f"{list(argument.shape)} {argument.spec.dtype.torch}",
            expected=f"{list(shape)} {spec.dtype.torch}",
            hint="leave it out to get a new tensor",
        )
    check_autograd([name], [value])
    check_writable(name, value, argument)
    if argument.spec == spec:
        return value
    return allocator(spec, "numpy" if isinstance(value, numpy.ndarray) else "torch", shape)()
