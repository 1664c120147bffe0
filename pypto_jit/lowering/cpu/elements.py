"""What each operator does to one element, as scalar or vector code.

Functions register under the operator's row name and take the row's inputs in order, in computed form (`convert`); the
result is in computed form too and not yet rounded to the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pypto_jit._mlir import ir
from pypto_jit.dialects.rows.families import EXPANDED
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu import math
from pypto_jit.lowering.cpu.emitter import Emitter, Extent

Function = Callable[[Emitter, DType, list[ir.Value]], ir.Value]


@dataclass(frozen=True)
class Element:
    """An operator's function and its rough cost in vector instructions."""

    function: Function
    cost: int


def _add(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.addf" if dtype.is_float else "arith.addi", *x)


def _sub(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.subf" if dtype.is_float else "arith.subi", *x)


def _mul(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.mulf" if dtype.is_float else "arith.muli", *x)


def _div(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    if dtype.is_float:
        return e.same("arith.divf", *x)
    return _divide_integers(e, dtype, x[0], x[1])


def _divide_integers(e: Emitter, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
    """Toward zero; 0 where the divisor is 0; the most negative number by -1 wraps to itself.

    A quotient a / b of n-bit numbers is whole, or at least 1 / b, which is (a / b) * 2**-n, away from a whole number: a
    float of more than n significand bits truncates to the right one.
    """
    element, lanes = e.shape(a)
    wide = "f32" if dtype.bits <= 16 else "f64"
    convert = "uitofp" if dtype.kind == "uint" else "sitofp"
    zero = e.constant(0, element, lanes)
    nothing = e.compare("eq", b, zero)
    divisor = e.select(nothing, e.constant(1, element, lanes), b)
    quotient = e.same("arith.divf", e.cast(convert, a, wide), e.cast(convert, divisor, wide))
    if dtype.bits == 32:
        # 2**31 has no 32-bit form: wrap it through 64 bits.
        whole = e.cast("trunci", e.cast("fptosi", quotient, "i64"), element)
    else:
        whole = e.cast("trunci", e.cast("fptosi", quotient, "i32"), element)
    return e.select(nothing, zero, whole)


def _maximum(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    if dtype.is_float:
        return math.maximum(e, *x)
    return e.same("arith.maxui" if dtype.kind == "uint" else "arith.maxsi", *x)


def _minimum(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    if dtype.is_float:
        return math.minimum(e, *x)
    return e.same("arith.minui" if dtype.kind == "uint" else "arith.minsi", *x)


def _neg(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    if dtype.is_float:
        return e.same("arith.negf", *x)
    return e.same("arith.subi", e.constant(0, *e.shape(x[0])), x[0])


def _relu(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    zero = e.constant(0, *e.shape(x[0]))
    if dtype.is_float:
        return e.select(e.compare("ogt", zero, x[0]), zero, x[0])
    return e.same("arith.maxsi", x[0], zero)


def _and(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.andi", *x)


def _or(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.ori", *x)


def _xor(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.xori", *x)


def _not(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return e.same("arith.xori", x[0], e.constant(-1, *e.shape(x[0])))


def _shift(left: bool) -> Function:
    """A shift by the width or more, or by a negative number, shifts everything out."""

    def function(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
        shape = e.shape(x[0])
        inside = e.compare("ult", x[1], e.constant(dtype.bits, *shape))
        if not left:
            return e.same("arith.shrsi", x[0], e.select(inside, x[1], e.constant(dtype.bits - 1, *shape)))
        zero = e.constant(0, *shape)
        return e.select(inside, e.same("arith.shli", x[0], e.select(inside, x[1], zero)), zero)

    return function


def _first(e: Emitter, dtype: DType, x: list[ir.Value]) -> ir.Value:
    return x[0]


def _math(function: Callable[[Emitter, ir.Value], ir.Value]) -> Function:
    return lambda e, dtype, x: function(e, x[0])


_BINARY: dict[str, Element] = {
    "add": Element(_add, 1),
    "sub": Element(_sub, 1),
    "mul": Element(_mul, 1),
    "div": Element(_div, 6),
    "maximum": Element(_maximum, 3),
    "minimum": Element(_minimum, 3),
}
_BITS: dict[str, Element] = {
    "and": Element(_and, 1),
    "or": Element(_or, 1),
    "xor": Element(_xor, 1),
    "shl": Element(_shift(left=True), 4),
    "shr": Element(_shift(left=False), 3),
}

ELEMENTS: dict[str, Element] = {
    **_BINARY,
    **{f"{name}s": element for name, element in _BINARY.items()},
    "rdivs": _BINARY["div"],
    **{name + ("_" if name in ("and", "or") else ""): element for name, element in _BITS.items()},
    **{f"{name}s": element for name, element in _BITS.items()},
    "not_": Element(_not, 1),
    **{f"{axis}_expand_{name}": _BINARY[base] for axis in ("row", "col") for name, base in EXPANDED.items()},
    "row_expand": Element(_first, 0),
    "col_expand": Element(_first, 0),
    "full": Element(_first, 0),
    "neg": Element(_neg, 1),
    "abs": Element(lambda e, dtype, x: e.same("llvm.intr.fabs", x[0]), 1),
    "exp": Element(_math(math.exp), 14),
    "log": Element(_math(math.log), 30),
    "sqrt": Element(_math(math.sqrt), 5),
    "rsqrt": Element(_math(math.rsqrt), 10),
    "recip": Element(_math(math.recip), 5),
    "relu": Element(_relu, 1),
}


@dataclass(frozen=True)
class Fold:
    """How a reduction combines two partial results, starts, and crosses the lanes of a vector (by dtype kind)."""

    combine: Function
    lanes: tuple[str, str]
    cost: int

    def across(self, e: Emitter, dtype: DType, vector: ir.Value) -> ir.Value:
        """The result over the lanes of a vector."""
        return e.reduction(self.lanes[0] if dtype.is_float else self.lanes[1], vector)


FOLDS: dict[str, Fold] = {
    "sum": Fold(_add, ("add", "add"), 1),
    "prod": Fold(_mul, ("mul", "mul"), 1),
    "max": Fold(_maximum, ("maximumf", "maxsi"), 3),
    "min": Fold(_minimum, ("minimumf", "minsi"), 3),
}


# Of the reductions that are arithmetic: what changes nothing.
_NEUTRAL = {"sum": 0, "prod": 1}


def start(fold: str, dtype: DType) -> int | float:
    """The neutral element of a reduction."""
    if fold in _NEUTRAL:
        return _NEUTRAL[fold]
    if dtype.is_float:
        return -inf if fold == "max" else inf
    return -(2 ** (dtype.bits - 1)) if fold == "max" else 2 ** (dtype.bits - 1) - 1


def unsigned_zero(e: Emitter, fold: str, dtype: DType, result: ir.Value, count: Extent) -> ir.Value:
    """The extreme of ``count`` elements, a number: a zero among several is positive, whatever order it was found in."""
    if fold in _NEUTRAL or not dtype.is_float or count == 1:
        return result
    positive = e.same("arith.addf", result, e.constant(0.0, *e.shape(result)))
    if isinstance(count, int):
        return positive
    several = e.compare("ne", count, e.constant(1, "i64"))
    return e.select(several, positive, result)
