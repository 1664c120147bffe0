"""Conversions between dtypes: what memory holds, what arithmetic computes in, and casts by rounding mode.

Memory holds the *stored* form (bf16 as its 16 bits); arithmetic works on the *computed* form, which is f32 for every
float dtype and the stored integer for every integer dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.lowering.cpu.emitter import Emitter

_MAGNITUDE = 0x7FFF
_BF16_NAN_QUIET = 0x0040


def stored(dtype: DType) -> str:
    """Element name of a dtype in memory."""
    return "i16" if dtype == BF16 else dtype.signless


def computed(dtype: DType) -> str:
    """Element name of a dtype in arithmetic."""
    return "f32" if dtype.is_float else dtype.signless


def widen(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """The computed form of a stored value; exact."""
    if dtype == FP16:
        return e.cast("extf", value, "f32")
    if dtype == BF16:
        bits = e.cast("extui", value, "i32")
        shifted = e.same("arith.shli", bits, e.constant(16, "i32", e.shape(bits)[1]))
        return e.cast("bitcast", shifted, "f32")
    return value


def narrow(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """The stored form of a computed value, rounded to nearest even."""
    if dtype == FP16:
        return e.cast("truncf", value, "f16")
    if dtype == BF16:
        return _narrow_bf16(e, value)
    return value


def _narrow_bf16(e: Emitter, value: ir.Value) -> ir.Value:
    lanes = e.shape(value)[1]
    bits = e.cast("bitcast", value, "i32")
    sixteen = e.constant(16, "i32", lanes)
    high = e.same("arith.shrui", bits, sixteen)
    last = e.same("arith.andi", high, e.constant(1, "i32", lanes))
    rounded = e.same("arith.addi", bits, e.same("arith.addi", last, e.constant(0x7FFF, "i32", lanes)))
    rounded = e.same("arith.shrui", rounded, sixteen)
    quiet = e.same("arith.ori", high, e.constant(_BF16_NAN_QUIET, "i32", lanes))
    return e.cast("trunci", e.select(e.compare("uno", value, value), quiet, rounded), "i16")


def round_to(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """A computed value rounded to what its dtype can hold, still in computed form."""
    if dtype in (FP16, BF16):
        return widen(e, narrow(e, value, dtype), dtype)
    return value


def cast(e: Emitter, value: ir.Value, source: DType, target: DType, mode: str) -> ir.Value:
    """A computed value of one dtype as a computed value of another.

    Args:
        mode: ``none`` (nearest even to a float, toward zero to an integer), ``rint`` (nearest even), ``round``
            (nearest, ties away from zero), ``floor``, ``ceil``, ``trunc``, ``odd`` (an inexact result is the odd
            neighbour). Floats saturate to an integer's range and NaN becomes 0; integers wrap to a narrower integer.
    """
    if source == target:
        return value
    if source.is_float and target.is_float:
        return value if target == FP32 else _float_to_float(e, value, target, mode)
    if source.is_float:
        return _float_to_int(e, value, target, mode)
    if target.is_float:
        return _int_to_float(e, value, source, target, mode)
    if source.bits > target.bits:
        return e.cast("trunci", value, target.signless)
    if source.bits == target.bits:
        return value
    return e.cast("extui" if source.kind == "uint" else "extsi", value, target.signless)


# -- to floats


def _float_to_float(e: Emitter, value: ir.Value, target: DType, mode: str) -> ir.Value:
    if mode in ("none", "rint"):
        return round_to(e, value, target)
    bits = narrow(e, value, target)
    if target == FP16:
        bits = e.cast("bitcast", bits, "i16")

    def real(pattern: ir.Value) -> ir.Value:
        half = e.cast("bitcast", pattern, "f16") if target == FP16 else pattern
        return widen(e, half, target)

    return real(_adjust(e, value, bits, real, mode))


def _int_to_float(e: Emitter, value: ir.Value, source: DType, target: DType, mode: str) -> ir.Value:
    convert = "uitofp" if source.kind == "uint" else "sitofp"
    if source.bits < 32:
        return cast(e, e.cast(convert, value, "f32"), FP32, target, mode)
    exact = e.cast(convert, value, "f64")
    # On the way to a narrower float, rounding to odd first keeps the second rounding correct.
    first = mode if target == FP32 else "odd"
    single = e.cast("truncf", exact, "f32")
    if first not in ("none", "rint"):

        def real(pattern: ir.Value) -> ir.Value:
            return e.cast("extf", e.cast("bitcast", pattern, "f32"), "f64")

        single = e.cast("bitcast", _adjust(e, exact, e.cast("bitcast", single, "i32"), real, first), "f32")
    return cast(e, single, FP32, target, mode)


def _adjust(e: Emitter, exact: ir.Value, bits: ir.Value, real: Callable[[ir.Value], ir.Value], mode: str) -> ir.Value:
    """Turn a result rounded to nearest even, as a pattern, into the neighbour another mode asks for.

    Args:
        exact: the value before rounding, in a type that holds it and both neighbours.
        bits: the pattern of the rounded result; stepping its magnitude gives the neighbours, up to infinity.
        real: from a pattern to ``exact``'s type.
    """
    element, lanes = e.shape(bits)
    one = e.constant(1, element, lanes)
    back = real(bits)
    absolute, absolute_back = e.same("llvm.intr.fabs", exact), e.same("llvm.intr.fabs", back)
    down = e.same("arith.subi", bits, one)
    up = e.same("arith.addi", bits, one)
    if mode == "round":
        # Nearest even and nearest away differ at ties that went toward zero: both neighbours are then equally far.
        below = e.same("arith.subf", absolute, absolute_back)
        above = e.same("arith.subf", e.same("llvm.intr.fabs", real(up)), absolute)
        zero = e.constant(0.0, *e.shape(below))
        tie = e.same("arith.andi", e.compare("ogt", below, zero), e.compare("oeq", below, above))
        return e.select(tie, up, bits)
    if mode in ("trunc", "odd"):
        toward_zero = e.select(e.compare("ogt", absolute_back, absolute), down, bits)
        if mode == "trunc":
            return toward_zero
        return e.select(e.compare("one", exact, back), e.same("arith.ori", toward_zero, one), toward_zero)
    # A rounded zero keeps the sign of the exact value, so a step away from zero goes the way of that sign.
    negative = e.compare("slt", bits, e.constant(0, element, lanes))
    if mode == "floor":
        return e.select(e.compare("ogt", back, exact), e.select(negative, up, down), bits)
    return e.select(e.compare("olt", back, exact), e.select(negative, down, up), bits)


# -- to integers


def _float_to_int(e: Emitter, value: ir.Value, target: DType, mode: str) -> ir.Value:
    lanes = e.shape(value)[1]
    whole = _round_whole(e, value, mode)
    lowest, highest = _range(target)
    # The largest f32 that converts without overflow; beyond it the result is the largest integer.
    largest = float(highest) if target.bits < 32 else float(2**31 - 128)
    low, high = e.constant(float(lowest), "f32", lanes), e.constant(largest, "f32", lanes)
    bounded = e.select(e.compare("olt", whole, low), low, whole)
    bounded = e.select(e.compare("ogt", whole, high), high, bounded)
    bounded = e.select(e.compare("uno", whole, whole), e.constant(0.0, "f32", lanes), bounded)
    result = e.cast("fptosi", bounded, "i32")
    if target.bits == 32:
        return e.select(e.compare("ogt", whole, high), e.constant(highest, "i32", lanes), result)
    return e.cast("trunci", result, target.signless)


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _round_whole(e: Emitter, value: ir.Value, mode: str) -> ir.Value:
    simple = {"rint": "rint", "round": "round", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "none": "trunc"}
    if mode in simple:
        return e.same(f"llvm.intr.{simple[mode]}", value)
    lanes = e.shape(value)[1]
    below, above = e.same("llvm.intr.floor", value), e.same("llvm.intr.ceil", value)
    # Of the two neighbours one is even: it is twice its half, rounded down.
    half = e.same("llvm.intr.floor", e.same("arith.mulf", below, e.constant(0.5, "f32", lanes)))
    even = e.compare("oeq", e.same("arith.addf", half, half), below)
    return e.select(even, above, below)
