"""The meaning of upstream ``arith`` operations on the scalars of a kernel.

A scalar is a Python int (index and integers, wrapped to their width, signed) or a NumPy floating-point scalar.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy

from pypto_jit.dtypes import BY_MLIR

INDEX_BITS = 64


def width(mlir: str) -> int:
    """Bits of an integer or index type by its MLIR text."""
    return INDEX_BITS if mlir == "index" else int(mlir.removeprefix("i"))


def wrap(value: int, bits: int) -> int:
    """Keep the low bits of an integer, as a signed number (``i1`` stays 0 or 1)."""
    value &= (1 << bits) - 1
    return value if bits == 1 or value < 1 << (bits - 1) else value - (1 << bits)


def constant(value: object, mlir: str) -> Any:
    """The run-time value of an ``arith.constant``, or of a scalar parameter: rounded once."""
    if mlir == "bf16":
        return _float_type(mlir)(_rounded_to_odd(float(value)))  # type: ignore[arg-type]
    if mlir in ("f32", "f16", "f64"):
        return _float_type(mlir)(value)
    return wrap(int(value), width(mlir))  # type: ignore[call-overload]


def _rounded_to_odd(value: float) -> numpy.float32:
    """A float from which ml_dtypes, which rounds to float32 first, gives what rounding once would have given."""
    single = numpy.float32(value)
    if not math.isfinite(value) or float(single) == value:
        return single
    if abs(float(single)) > abs(value):
        single = numpy.nextafter(single, numpy.float32(0))
    return (single.view(numpy.uint32) | numpy.uint32(1)).view(numpy.float32)


def _float_type(mlir: str) -> Any:
    return numpy.float64 if mlir == "f64" else BY_MLIR[mlir].numpy.type


def _truncated_quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _truncated_quotient,
    "remsi": lambda a, b: a - b * _truncated_quotient(a, b),
    "floordivsi": lambda a, b: a // b if b else 0,
    "ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "minsi": min,
    "maxsi": max,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
}
_FLOATS: dict[str, Callable[..., Any]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": operator.truediv,
    "remf": numpy.fmod,
    "maximumf": numpy.maximum,
    "minimumf": numpy.minimum,
    "maxnumf": numpy.fmax,
    "minnumf": numpy.fmin,
    "negf": operator.neg,
}
# Order of MLIR's predicates: arith.cmpi (signed ones; unsigned ones compare the low bits) and arith.cmpf.
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_FLOAT_COMPARISONS = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)


def _compare_integers(predicate: int, a: int, b: int, bits: int) -> int:
    if predicate >= len(_COMPARISONS):
        mask = (1 << bits) - 1
        a, b, predicate = a & mask, b & mask, predicate - 4
    return int(_COMPARISONS[predicate](a, b))


def _compare_floats(predicate: int, a: Any, b: Any) -> int:
    unordered = bool(numpy.isnan(a) or numpy.isnan(b))
    if predicate in (0, 15):
        return int(predicate == 15)
    if predicate in (7, 14):
        return int(unordered == (predicate == 14))
    if unordered:
        return int(predicate > 7)
    return int(_FLOAT_COMPARISONS[(predicate - 1) % 7](a, b))


_CONVERSIONS = ("index_cast", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "extf", "truncf")


def known(name: str) -> bool:
    """Whether `evaluate` has a meaning for this operation."""
    return name in _INTEGERS or name in _FLOATS or name in _CONVERSIONS or name in ("cmpi", "cmpf", "select")


def _converted(name: str, value: Any, source: str, target: str) -> Any:
    if name in ("index_cast", "extsi", "trunci"):
        return wrap(value, width(target))
    if name == "extui":
        return value & ((1 << width(source)) - 1)
    if name == "uitofp":
        return _float_type(target)(value & ((1 << width(source)) - 1))
    if name in ("sitofp", "extf", "truncf"):
        return _float_type(target)(value)
    return _saturated(float(value), width(target))  # fptosi


def _saturated(value: float, bits: int) -> int:
    if math.isnan(value):
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return low if value <= low else high if value >= high else int(value)


def evaluate(name: str, operands: list[Any], sources: list[str], target: str, predicate: int = 0) -> Any:
    """Evaluate one ``arith`` operation that is `known`.

    Args:
        name: without the ``arith.``.
        operands: run-time values.
        sources, target: MLIR types of the operands and of the result.
        predicate: of a comparison.
    """
    if name in _INTEGERS:
        return wrap(_INTEGERS[name](*operands), width(target))
    if name in _FLOATS:
        return _float_type(target)(_FLOATS[name](*operands))
    if name == "cmpi":
        return _compare_integers(predicate, *operands, bits=width(sources[0]))
    if name == "cmpf":
        return _compare_floats(predicate, *operands)
    if name == "select":
        return operands[1] if operands[0] else operands[2]
    return _converted(name, operands[0], sources[0], target)
