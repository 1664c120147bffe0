"""Calls of kernels that come as assembly: each is a task, recorded as the host's call of it.

The assembly itself is read, and held against the call, when the kernel around it has its buffers planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.errors import ArgumentError, DecoratorError, TraceError
from pypto_jit.frontend.builder import Builder
from pypto_jit.language.functions import EXTERN
from pypto_jit.language.parameters import Declaration, definition_span
from pypto_jit.language.scalars import Scalar, cast
from pypto_jit.language.values import Tensor


def call_extern(
    builder: Builder, stub: FunctionType, declared: Mapping[str, Declaration], arguments: Mapping[str, Any]
) -> Any:
    """Record a call; gives the tensors that it writes.

    Raises:
        TraceError: it is within a task, or passes a view.
        ArgumentError: an argument cannot be handed to assembly.
        DecoratorError: a parameter is neither a tensor nor a number of a known dtype.
    """
    name = stub.__name__
    if builder.in_core or builder.task is not None:
        raise TraceError(
            f"{name}() is assembly, a task of its own",
            span=builder.span(),
            found="a call within a task",
            hint="call it from the entry, outside of pl.at, pl.spmd, pl.submit and pl.jit.incore functions",
        )
    builder.helpers.add(stub)
    span = definition_span(stub)
    defined = ir.Location.file(span.filename, span.line, 1, builder.context)
    # An entry is called by nobody whose line could be blamed.
    location = defined if builder.kernel_code is stub.__code__ else builder.location
    values = {key: _value(builder, stub, key, declared[key], value) for key, value in arguments.items()}
    builder.operation("pypto.submit", [builder.type("index")], [], location=location)
    for key, argument in arguments.items():
        if isinstance(argument, Tensor):
            _note(builder, argument, values[key], declared[key].direction or "in", location)
    for value in values.values():
        builder.operation("pypto.argument", [], [value], location=defined)
    text, filename, core = getattr(stub, EXTERN)
    directions = [declared[key].direction or "in" for key in values]
    attributes = {"callee": name, "task": name, "extern": text, "file": filename, "core": core}
    recorded: dict[str, ir.Attribute] = {k: ir.StringAttr.get(v, builder.context) for k, v in attributes.items()}
    for key, texts in (("parameters", list(values)), ("directions", directions)):
        recorded[key] = ir.ArrayAttr.get([ir.StringAttr.get(each, builder.context) for each in texts], builder.context)
    builder.operation("pypto.call", [], [], recorded, location=location)
    written = tuple(v for key, v in arguments.items() if declared[key].direction in ("out", "inout"))
    return written[0] if len(written) == 1 else written


def _value(builder: Builder, stub: FunctionType, name: str, declaration: Declaration, argument: Any) -> ir.Value:
    if declaration.kind == "tensor" and isinstance(argument, Tensor):
        if argument.root is not None:
            raise TraceError(
                f"{stub.__name__}() is assembly, which takes whole tensors: '{name}' is given a view of one",
                span=builder.span(),
                found=argument,
                hint="copy the part to a tensor of its own in a task, and pass that",
            )
        if argument.type is None or DYNAMIC in argument.type.shape:
            raise ArgumentError(
                f"{stub.__name__}() is assembly for tensors of known shapes: that of '{name}' is not known",
                span=builder.span(),
                hint="declare the shape where the tensor comes from, or pass the tensor",
            )
        return builder.value(argument)
    if declaration.kind != "scalar" or declaration.dtype is None:
        raise DecoratorError(
            f"'{name}' of {stub.__name__}() is nothing that assembly takes",
            span=definition_span(stub),
            expected=f"{name}: pl.Tensor, pl.Out[...], pl.InOut[...] or pl.Scalar[dtype]",
        )
    if isinstance(argument, Scalar):
        return builder.value(argument if argument.dtype == declaration.dtype else cast(argument, declaration.dtype))
    dtype = declaration.dtype
    if not isinstance(argument, (bool, int, float)) or (isinstance(argument, float) and not dtype.is_float):
        raise ArgumentError(
            f"'{name}' of {stub.__name__}() is a number", span=builder.span(), found=repr(argument), expected=dtype
        )
    return builder.value(builder.constant(argument, dtype))


def _note(builder: Builder, tensor: Tensor, value: ir.Value, direction: str, location: ir.Location) -> None:
    """Whole tensors are read and written: what the assembly touches within them is not known."""
    assert tensor.type is not None
    corners = [builder.index(0)] * len(tensor.type.shape) + [builder.index(extent) for extent in tensor.type.shape]
    access, span = builder.access, builder.span()
    for mode, noted, is_done in (
        ("read", access.loads, direction != "out"),
        ("write", access.stores, direction != "in"),
    ):
        if is_done:
            noted.setdefault(tensor.name, span)
            attributes: dict[str, ir.Attribute] = {"mode": ir.StringAttr.get(mode, builder.context)}
            builder.operation("pypto.access", [], [value, *corners], attributes, location=location)
    if direction != "in":
        access.replaced.add(tensor.name)
