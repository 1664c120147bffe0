"""Calls of a kernel by the kernel that is being traced: a task of its own, or a part of the caller."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType as PlainFunction
from types import MethodType
from typing import Any, cast

from pypto_jit.errors import ArgumentError, DirectionError, Span, TraceError
from pypto_jit.frontend.builder import Builder
from pypto_jit.frontend.externs import call_extern
from pypto_jit.language.functions import EXTERN, TASKS, FunctionType, role_of
from pypto_jit.language.parameters import Declaration, check_argument, declarations, definition_span
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor, Tile
from pypto_jit.signature import Constant, DynVar, TensorSpec


def kernel_of(callee: Any) -> PlainFunction | None:
    """The function as written of what a decorator returned; None for anything else."""
    kernel = getattr(callee, "__pypto_kernel__", None)
    return cast(PlainFunction, kernel) if isinstance(kernel, (PlainFunction, MethodType)) else None


def rewritten(builder: Builder, function: PlainFunction) -> PlainFunction:
    """A function of the user's, or a bound method in its place, with staged control flow."""
    if isinstance(function, MethodType):
        original = function.__func__
        assert isinstance(original, PlainFunction)
        builder.helpers.add(original)
        return cast(PlainFunction, MethodType(builder.rewriter.rewrite(original), function.__self__))
    builder.helpers.add(function)
    return builder.rewriter.rewrite(function)


def call_kernel(builder: Builder, kernel: PlainFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Trace a call of a kernel.

    Outputs that are left out and declared with a shape become workspaces. A kernel on the cores returns what it writes
    where its text returns nothing.

    Raises:
        ArgumentError: the arguments do not fit the parameters.
        DirectionError: the kernel does something else with a tensor than it declares.
    """
    role = role_of(kernel)
    if role is FunctionType.Inline:
        return rewritten(builder, kernel)(*args, **kwargs)
    declared = declarations(kernel)
    bound = _bind(builder, kernel, declared, args, kwargs)
    if hasattr(kernel, EXTERN):
        return call_extern(builder, kernel, declared, bound.arguments)
    if role not in TASKS:
        return rewritten(builder, kernel)(*bound.args, **bound.kwargs)
    with _task(builder, kernel.__name__) as alone, _watched(builder, kernel, declared, bound.arguments) as written:
        result = rewritten(builder, kernel)(*bound.args, **bound.kwargs)
        if alone:
            _check_results(builder, kernel, result)
    if result is None:
        return written[0] if len(written) == 1 else tuple(written)
    return result


@contextmanager
def _task(builder: Builder, name: str) -> Iterator[bool]:
    """Records a call as a task, and gives True; within a task or a kernel on the cores, it is part of that."""
    if builder.in_core or builder.task is not None:
        yield False
        return
    task = builder.open_task(name)
    yield True
    builder.close_task(task)


def _check_results(builder: Builder, kernel: PlainFunction, result: Any) -> None:
    """Raise a TraceError where a task gives something that only exists on chip."""
    for value in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(value, (Tile, Scalar)):
            raise TraceError(
                f"{kernel.__name__}() returns what only exists on chip",
                span=builder.span(),
                found=value,
                expected="tensors: a call of a kernel on the cores is a task of its own",
                hint=f"store it to a pl.Out parameter of {kernel.__name__}; or make {kernel.__name__} a plain function",
            )


# Arguments


def _bind(
    builder: Builder,
    kernel: PlainFunction,
    declared: Mapping[str, Declaration],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> inspect.BoundArguments:
    signature = inspect.signature(kernel)
    shown = f"{kernel.__name__}({', '.join(signature.parameters)})"
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{kernel.__name__}(): {error}", span=builder.span(), expected=shown) from None
    bound.apply_defaults()
    for name in signature.parameters:
        declaration = declared[name]
        if name in bound.arguments:
            bound.arguments[name] = _argument(builder, kernel, name, declaration, bound.arguments[name])
        elif declaration.direction == "out":
            bound.arguments[name] = _workspace(builder, kernel, name, declared, bound.arguments)
        else:
            raise ArgumentError(f"{kernel.__name__}() misses '{name}'", span=builder.span(), expected=shown)
    # In the order of the parameters, whichever were left out.
    bound.arguments = {name: bound.arguments[name] for name in signature.parameters}
    return bound


def _argument(builder: Builder, kernel: PlainFunction, name: str, declaration: Declaration, value: Any) -> Any:
    """An argument as its parameter takes it.

    Raises:
        ArgumentError: it is not what the parameter declares.
    """
    if isinstance(value, Tile) and declaration.kind == "tensor":
        raise ArgumentError(
            f"'{name}' of {kernel.__name__}() is a tensor in global memory",
            span=builder.span(),
            found=value,
            hint=f"pass the tensor, and load it in {kernel.__name__}; or make {kernel.__name__} a plain function",
        )
    if isinstance(value, Tensor):
        if value.type is not None:
            check_argument(name, declaration, TensorSpec(value.type.shape, value.type.dtype, value.type.strides))
    elif declaration.kind == "tensor" and not isinstance(value, Scalar):
        check_argument(name, declaration, Constant(value))
    return value


def _workspace(
    builder: Builder,
    kernel: PlainFunction,
    name: str,
    declared: Mapping[str, Declaration],
    arguments: Mapping[str, Any],
) -> Any:
    """An output that a call leaves out: a new tensor, of the shape that its parameter declares."""
    declaration = declared[name]
    if declaration.shape is None or declaration.dtype is None:
        raise ArgumentError(
            f"{kernel.__name__}() misses '{name}', whose shape is not declared",
            span=builder.span(),
            hint=f"pass a tensor, or declare it: {name}: pl.Out[pl.Tensor[[rows, columns], pl.FP32]]",
        )
    shape = [
        _extent(builder, name, extent, declared, arguments) if isinstance(extent, DynVar) else extent
        for extent in declaration.shape
    ]
    return builder.create_tensor(shape, declaration.dtype, None)


def _extent(
    builder: Builder, name: str, dim: DynVar, declared: Mapping[str, Declaration], arguments: Mapping[str, Any]
) -> int | Scalar:
    """An extent of a tensor that a call leaves out, by its name from the tensors that it gives."""
    for other, value in arguments.items():
        for axis, same in enumerate(declared[other].shape or ()):
            if isinstance(value, Tensor) and isinstance(same, DynVar) and (same.name, same.factor) == (dim.name, 1):
                return (value.shape[axis] - same.offset) * dim.factor + dim.offset
    raise ArgumentError(
        f"'{name}' is left out, and no tensor of the call tells its extent {dim.name}",
        span=builder.span(),
        found=f"{name}: {list(declared[name].shape or ())}",
        hint=f"pass {name}",
    )


# Directions


@contextmanager
def _watched(
    builder: Builder, kernel: PlainFunction, declared: Mapping[str, Declaration], arguments: Mapping[str, Any]
) -> Any:
    """What a call does to its tensors is held against what it declares; gives the list of those that it writes."""
    written: list[Tensor] = []
    access, outer = builder.access, (builder.access.loads, builder.access.stores)
    state = (builder.kernel_code, builder.outputs, builder.rebound)
    access.loads, access.stores = {}, {}
    code = rewritten(builder, kernel).__code__
    builder.kernel_code, builder.rebound = code, {}
    builder.outputs = frozenset(name for name, declaration in declared.items() if declaration.direction == "out")
    try:
        yield written
        tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        names = [tensor.name for tensor in tensors.values()]
        for name, tensor in tensors.items():
            # Where two arguments are one tensor, what was done with which cannot be told.
            if names.count(tensor.name) == 1:
                _check_direction(builder, kernel, name, tensor, declared[name].direction)
            direction = declared[name].direction
            if direction in ("out", "inout") or (direction is None and tensor.name in access.stores):
                written.append(tensor)
    finally:
        for mine, all_of_them in zip((access.loads, access.stores), outer, strict=True):
            for name, span in mine.items():
                all_of_them.setdefault(name, span)
        access.loads, access.stores = outer
        builder.kernel_code, builder.outputs, builder.rebound = state


def _check_direction(builder: Builder, kernel: PlainFunction, name: str, tensor: Tensor, direction: str | None) -> None:
    access = builder.access
    loaded, stored = tensor.name in access.loads, tensor.name in access.stores
    if stored and direction == "in":
        raise _misused(
            f"'{name}' is an input of {kernel.__name__}(), which writes it",
            access.stores[tensor.name],
            f"{name}: pl.Tensor",
            f"declare it {name}: pl.Out[pl.Tensor], or pl.InOut[pl.Tensor] if {kernel.__name__} also reads it",
        )
    if loaded and direction == "out":
        raise _misused(
            f"'{name}' is an output of {kernel.__name__}(), which reads it",
            access.loads[tensor.name],
            f"{name}: pl.Out[pl.Tensor]",
            f"declare it {name}: pl.InOut[pl.Tensor]",
        )
    if direction in ("out", "inout") and not stored:
        raise _misused(
            f"{kernel.__name__}() never writes '{name}'",
            builder.rebound.get(name) or definition_span(kernel),
            f"{name}: pl.{'Out' if direction == 'out' else 'InOut'}[pl.Tensor]",
            f"write it: pl.store(tile, offsets, {name})",
        )


def _misused(message: str, span: Span | None, found: str, hint: str) -> DirectionError:
    return DirectionError(message, span=span, found=found, hint=hint)


def caller_of(builder: Builder, kernel: PlainFunction) -> Callable[..., Any]:
    """What stands for a kernel where it is called."""
    return functools.partial(_call, builder, kernel)


def _call(builder: Builder, kernel: PlainFunction, /, *args: Any, **kwargs: Any) -> Any:
    return call_kernel(builder, kernel, args, kwargs)
