"""What a kernel declares of its parameters, and whether the arguments fit it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto_jit.dtypes import DType
from pypto_jit.errors import ArgumentError, DecoratorError, Span
from pypto_jit.language.annotations import (
    Constexpr,
    DirectionAnnotation,
    Out,
    ScalarAnnotation,
    TileAnnotation,
    plain_tensor,
    scalar_annotation,
)
from pypto_jit.language.location import user_span
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tile
from pypto_jit.signature import Constant, Dimension, DynVar, Runtime, ScalarSpec, TensorSpec


@dataclass(frozen=True)
class Declaration:
    """What a parameter's annotation says.

    Attributes:
        direction: ``in``, ``out``, ``inout``; None where nothing says so.
        shape, dtype: None where they are the argument's; a scalar has a dtype alone. An extent may be a name.
        kind: ``tensor``, ``constant``, ``scalar``, or None for any.
        runtime: whether it is a scalar that is never specialized on.
    """

    direction: str | None = None
    shape: tuple[Dimension, ...] | None = None
    dtype: DType | None = None
    kind: str | None = None
    runtime: bool = False


def definition_span(function: FunctionType) -> Span:
    """The line a function is defined at."""
    return Span(function.__code__.co_filename, function.__code__.co_firstlineno)


def declarations(function: FunctionType) -> dict[str, Declaration]:
    """The declaration of every parameter, in order.

    Raises:
        DecoratorError: an annotation cannot be evaluated, or a parameter cannot be one of a kernel.
    """
    try:
        annotations = inspect.get_annotations(function)
    except Exception as error:  # an annotation may be any expression of the user's
        raise DecoratorError(f"an annotation fails: {error}", span=definition_span(function)) from error
    result = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DecoratorError(
                "a kernel names each of its parameters", span=definition_span(function), found=str(parameter)
            )
        result[name] = _declaration(function, name, annotations.get(name, parameter.empty))
    return result


def _declaration(function: FunctionType, name: str, annotation: Any) -> Declaration:
    if isinstance(annotation, str):
        annotation = _evaluate(function, name, annotation)
    if isinstance(annotation, DirectionAnnotation):
        return Declaration(annotation.direction, annotation.tensor.shape, annotation.tensor.dtype, "tensor")
    if isinstance(annotation, type) and issubclass(annotation, Out):
        return Declaration(annotation.direction, kind="tensor")
    tensor = plain_tensor(annotation)
    if tensor is not None:
        return Declaration("in", tensor.shape, tensor.dtype, "tensor")
    if isinstance(annotation, Constexpr):
        return Declaration(kind="constant")
    if isinstance(annotation, ScalarAnnotation) or annotation is Scalar:
        return Declaration(dtype=None if annotation is Scalar else annotation.dtype, kind="scalar")
    if isinstance(annotation, DType):
        return Declaration(dtype=scalar_annotation(annotation).dtype, kind="scalar")
    if isinstance(annotation, Runtime):
        return Declaration(dtype=annotation.dtype, kind="scalar", runtime=True)
    if isinstance(annotation, TileAnnotation) or annotation is Tile:
        raise DecoratorError(
            f"parameter '{name}' is a tile",
            span=definition_span(function),
            expected="a tensor in global memory",
            hint=f"{name}: pl.Tensor, and pl.load in the kernel",
        )
    return Declaration()


def _evaluate(function: FunctionType, name: str, text: str) -> Any:
    variables = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[variable] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    try:
        return eval(text, function.__globals__, variables)
    except Exception as error:  # an annotation may be any expression of the user's
        raise DecoratorError(
            f"the annotation of parameter '{name}' cannot be evaluated",
            span=definition_span(function),
            found=f"{text}: {error}",
            hint="annotations are evaluated with the function's globals and the variables it closes over",
        ) from error


def check_argument(name: str, declaration: Declaration, argument: TensorSpec | ScalarSpec | Constant | None) -> None:
    """Raise an ArgumentError where an argument does not fit the declaration of its parameter."""
    if isinstance(argument, (Constant, ScalarSpec)):
        if declaration.kind == "tensor":
            value = getattr(argument, "value", None)
            found = f"{type(value).__name__} {value!r}" if isinstance(argument, Constant) else "a number"
            raise ArgumentError(f"'{name}' is a tensor", span=user_span(), found=found, expected="a tensor")
        return
    if declaration.kind in ("constant", "scalar"):
        found = "nothing" if argument is None else "a tensor"
        raise ArgumentError(f"'{name}' is a number", span=user_span(), found=found, expected="a Python number")
    if argument is None:
        if declaration.direction in ("in", "inout"):
            raise ArgumentError(f"'{name}' is missing: the kernel reads it", span=user_span(), expected="a tensor")
        return
    if declaration.dtype is not None and argument.dtype != declaration.dtype:
        raise ArgumentError(
            f"'{name}' has another dtype than declared",
            span=user_span(),
            found=argument.dtype,
            expected=declaration.dtype,
        )
    if declaration.shape is not None and not _fits(argument.shape, declaration.shape):
        what = "rank" if len(argument.shape) != len(declaration.shape) else "shape"
        raise ArgumentError(
            f"'{name}' has another {what} than declared",
            span=user_span(),
            found=argument.shown,
            expected=list(declaration.shape),
        )


def _fits(shape: tuple[int, ...], declared: tuple[Dimension, ...]) -> bool:
    """Whether extents are those declared; a name stands for any."""
    return len(shape) == len(declared) and all(
        isinstance(expected, DynVar) or extent == expected for extent, expected in zip(shape, declared, strict=True)
    )
