"""Extents that tensors share by name: whether those of a call agree, and those of outputs that it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import allocator
from pypto_jit.signature import DynVar, TensorSpec

# A tensor of a call: name, specification, extents.
Given = tuple[str, TensorSpec, Sequence[int]]
# Where the number of a name is read: position of the tensor, dimension, and what its extent is.
Source = tuple[int, int, DynVar]


def numbers(tensors: Iterable[Given]) -> dict[str, int]:
    """What each name of a dimension stands for in a call.

    Raises:
        ArgumentError: two extents of one name do not agree, or no number gives an extent.
    """
    found: dict[str, tuple[int, str]] = {}
    for name, spec, shape in tensors:
        for axis, dim in enumerate(spec.dims):
            if dim is None:
                continue
            number = dim.solve(shape[axis])
            here = f"{name}.shape[{axis}] = {shape[axis]}"
            before = found.setdefault(dim.name, (number if number is not None else -1, here))
            if number is None:
                raise ArgumentError(
                    f"dimension {axis} of '{name}' is no {dim}",
                    found=f"{here}",
                    expected=f"{dim} for some {dim.name} >= 0",
                )
            if before[0] != number:
                raise ArgumentError(
                    f"'{dim.name}' stands for two extents in this call",
                    found=f"{before[1]} and {here}",
                    expected=f"{dim.value(before[0])} as dimension {axis} of '{name}', which is {dim}",
                )
    return {name: number for name, (number, _) in found.items()}


def resolve(name: str, spec: TensorSpec, known: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of an output that a call leaves out.

    Raises:
        ArgumentError: no tensor of the call tells one of them.
    """
    if not spec.dims:
        return spec.shape
    shape = []
    for axis, (dim, extent) in enumerate(zip(spec.dims, spec.shape, strict=True)):
        if dim is not None and dim.name not in known:
            raise ArgumentError(
                f"'{name}' is left out, and no tensor of the call tells its extent {dim.name}",
                found=f"{name}: {spec.shown}",
                hint=f"pass {name}: dimension {axis} is {dim}, and {dim.name} names no dimension of another tensor",
            )
        shape.append(extent if dim is None else dim.value(known[dim.name]))
    if min(shape, default=0) < 0:
        raise ArgumentError(f"'{name}' is left out, and would have a negative extent", found=shape, expected=spec.shown)
    return tuple(shape)


def sources(output: TensorSpec, tensors: Sequence[TensorSpec]) -> dict[str, Source]:
    """Where the numbers of an output's names are read, by name."""
    wanted = {dim.name for dim in output.dims if dim is not None}
    found: dict[str, Source] = {}
    for position, spec in enumerate(tensors):
        for axis, dim in enumerate(spec.dims):
            if dim is not None and dim.name in wanted:
                found.setdefault(dim.name, (position, axis, dim))
    return found


def dynamic_allocator(output: TensorSpec, kind: str, tensors: Sequence[TensorSpec]) -> Callable[..., Any]:
    """What makes an output of a shape that the tensors it is called with tell; it raises whatever if they do not.

    Args:
        output: what is made.
        kind: of which library.
        tensors: the specifications of what it is called with.
    """
    found = sources(output, tensors)
    plan = tuple(
        (0, 0, dim, extent) if dim is None else (*found[dim.name][:2], _between(found[dim.name][2], dim), extent)
        for dim, extent in zip(output.dims, output.shape, strict=True)
    )

    def make(*values: Any) -> Any:
        shape = tuple(extent if of is None else of(values[position].shape[axis]) for position, axis, of, extent in plan)
        return allocator(output, kind, shape)()

    return make


def _between(source: DynVar, target: DynVar) -> Callable[[int], int]:
    """From an extent of one dimension to that of another one of the same name."""
    if source == target:
        return int

    def convert(extent: int) -> int:
        number = source.solve(extent)
        if number is None:
            raise ArgumentError(f"no {source.name} makes {source} equal to {extent}")
        return target.value(number)

    return convert
