"""Native checks of an entry's scalar arguments, as LLVM IR: an int, a bool or a float in the range of its dtype.

A check that fails branches to the block ``fail<k>`` of the k-th argument, counted from one.
"""

from __future__ import annotations

import struct

from pypto_jit import abi
from pypto_jit.dtypes import BF16, BOOL, FP16, FP32, INDEX, DType
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.signature import FLOAT_LIMITS, ScalarSpec, integer_range

_FLOATS = {FP32: "float", FP16: "half", BF16: "bfloat"}


def llvm_type(dtype: DType) -> str:
    """What a scalar of a dtype is in LLVM IR."""
    if dtype.is_float:
        return _FLOATS[dtype]
    return "i1" if dtype == BOOL else f"i{dtype.bits}"


def check_scalar(text: LlvmText, index: int, spec: ScalarSpec) -> str:
    """Check one argument; the name of its value, of the dtype's type.

    Args:
        text: takes the instructions.
        index: of the argument.
        spec: what it must be.
    """
    failure, dtype = f"fail{index + 1}", spec.dtype
    slot = text.address("%args", index * abi.ARGUMENT_BYTES)
    kind = text.load("i32", slot)
    if dtype == BOOL:
        text.require(text.value(f"icmp eq i32 {kind}, {abi.TYPE_BOOL}"), failure)
        return text.value(f"icmp ne i64 {text.load('i64', slot, 8)}, 0")
    is_integer = text.value(f"icmp eq i32 {kind}, {abi.TYPE_INT}")
    if not dtype.is_float:
        text.require(is_integer, failure)
        return _integer(text, text.load("i64", slot, 8), dtype, failure)
    is_float = text.value(f"icmp eq i32 {kind}, {abi.TYPE_FLOAT}")
    given = text.load("double", slot, 8)
    if spec.converts:
        text.require(text.any([is_float, is_integer]), failure)
        converted = text.value(f"sitofp i64 {text.load('i64', slot, 8)} to double")
        given = text.value(f"select i1 {is_float}, double {given}, double {converted}")
    else:
        text.require(is_float, failure)
    return _float(text, given, dtype, failure)


def _integer(text: LlvmText, value: str, dtype: DType, failure: str) -> str:
    if dtype == INDEX:
        return value
    low, high = integer_range(dtype)
    above = text.value(f"icmp sge i64 {value}, {low}")
    below = text.value(f"icmp sle i64 {value}, {high}")
    text.require(text.every([above, below]), failure)
    return text.value(f"trunc i64 {value} to i{dtype.bits}")


def _bits(number: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _float(text: LlvmText, value: str, dtype: DType, failure: str) -> str:
    """The nearest value of the dtype; a finite one too large for it fails."""
    size = text.value(f"call double @llvm.fabs.f64(double {value})")
    fits = text.value(f"fcmp ult double {size}, {_bits(FLOAT_LIMITS[dtype])}")
    infinite = text.value(f"fcmp oeq double {size}, {_bits(float('inf'))}")
    text.require(text.any([fits, infinite]), failure)
    single = text.value(f"fptrunc double {value} to float")
    if dtype == FP32:
        return single
    odd = _rounded_to_odd(text, value, size, single)
    return text.value(f"fptrunc float {odd} to half") if dtype == FP16 else _narrow(text, odd)


def _rounded_to_odd(text: LlvmText, value: str, size: str, single: str) -> str:
    """A float from which rounding again, to a narrower type, gives what rounding once would have given."""
    back = text.value(f"fpext float {single} to double")
    inexact = text.value(f"fcmp one double {back}, {value}")
    back_size = text.value(f"call double @llvm.fabs.f64(double {back})")
    away = text.value(f"fcmp ogt double {back_size}, {size}")
    bits = text.value(f"bitcast float {single} to i32")
    lower = text.value(f"sub i32 {bits}, {text.value(f'zext i1 {away} to i32')}")
    sticky = text.value(f"or i32 {lower}, 1")
    chosen = text.value(f"select i1 {inexact}, i32 {sticky}, i32 {bits}")
    return text.value(f"bitcast i32 {chosen} to float")


def _narrow(text: LlvmText, single: str) -> str:
    """A float as a bfloat, to nearest even: LLVM would call a library for it."""
    bits = text.value(f"bitcast float {single} to i32")
    last = text.value(f"and i32 {text.value(f'lshr i32 {bits}, 16')}, 1")
    sum_ = text.value(f"add i32 {bits}, {text.value(f'add i32 {last}, 32767')}")
    rounded = text.value(f"trunc i32 {text.value(f'lshr i32 {sum_}, 16')} to i16")
    is_nan = text.value(f"fcmp uno float {single}, {single}")
    chosen = text.value(f"select i1 {is_nan}, i16 32704, i16 {rounded}")
    return text.value(f"bitcast i16 {chosen} to bfloat")
