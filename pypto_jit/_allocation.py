"""The tensors that a call leaves out: what they are, and what makes them in generated code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pypto_jit.runtime.arguments import OMITTED, TensorArgument, allocator, inspect_tensor, tensor_argument
from pypto_jit.runtime.binding import BoundCall
from pypto_jit.runtime.caller import ALLOCATED
from pypto_jit.runtime.extents import dynamic_allocator, resolve
from pypto_jit.signature import ParamInfo, TensorSpec


def complete(
    tensors: Sequence[ParamInfo], call: BoundCall, given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[TensorArgument]]:
    """The value of every tensor parameter, omitted outputs allocated, and what is known of each.

    Args:
        tensors: the parameters.
        call: gives those of the signature.
        given: results that are allocated already.
    """
    values: dict[str, Any] = {}
    arguments = []
    extents = call.extents
    for info in tensors:
        assert isinstance(info.spec, TensorSpec)
        # What a kernel computes and returns is no parameter of its signature.
        value = call.values.get(info.name, given.get(info.name, OMITTED))
        argument = call.tensors.get(info.name)
        if argument is None and value is not OMITTED:
            argument = inspect_tensor(info.name, value, info.spec.dims)
        if argument is None:
            shape = resolve(info.name, info.spec, extents)
            argument = tensor_argument(info.spec, call.library, True, shape)
            value = allocator(info.spec, call.library, shape)()
        values[info.name] = value
        arguments.append(argument)
    return values, arguments


def allocators(
    tensors: Sequence[ParamInfo], kinds: Sequence[tuple[str, str]], library: str
) -> tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...]:
    """Name of each output that is left out, what allocates it, and the tensors that tell its extents."""
    known = {
        info.name: info.spec
        for info, (_, kind) in zip(tensors, kinds, strict=True)
        if kind != ALLOCATED and isinstance(info.spec, TensorSpec) and info.spec.dims
    }
    made = []
    for info, (_, kind) in zip(tensors, kinds, strict=True):
        if kind != ALLOCATED or not isinstance(info.spec, TensorSpec):
            continue
        if info.spec.dims:
            make = dynamic_allocator(info.spec, library, list(known.values()))
            made.append((info.name, make, tuple(known)))
        else:
            made.append((info.name, allocator(info.spec, library), ()))
    return tuple(made)
