"""Numbers as arguments: which dtype a kernel sees, and what it is given."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy

from pypto_jit.dtypes import BOOL, FP32, INDEX, DType
from pypto_jit.errors import ArgumentError
from pypto_jit.signature import FLOAT_LIMITS, integer_range

Number = int | float | bool

_OF_PYTHON: dict[type, DType] = {int: INDEX, float: FP32, bool: BOOL}


def scalar_dtype(value: Any) -> DType | None:
    """The dtype that a number has in a kernel which does not declare one; None for what is no number.

    NumPy's numbers are Python's of the same kind. An enum of integers is no number, but a constant.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    return _OF_PYTHON.get(type(value))


def scalar_value(name: str, value: Any, dtype: DType) -> Number:
    """What a kernel is given for a number.

    Args:
        name: of the parameter.
        value: a number.
        dtype: of the parameter.

    Raises:
        ArgumentError: it is no number, or not one of this dtype.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    if not isinstance(value, Real):
        raise ArgumentError(f"'{name}' is a number", found=f"a {type(value).__qualname__}", expected=_expected(dtype))
    if dtype == BOOL:
        if not isinstance(value, bool):
            raise ArgumentError(f"'{name}' is a bool", found=repr(value), expected="True or False")
        return value
    if dtype.is_float:
        return _float(name, value, dtype)
    if not isinstance(value, Integral):
        hint = f"pass int({name})" if isinstance(value, float) and value.is_integer() else None
        raise ArgumentError(f"'{name}' is an integer", found=repr(value), expected=_expected(dtype), hint=hint)
    number = int(value)
    low, high = integer_range(dtype)
    if not low <= number <= high:
        raise ArgumentError(f"'{name}' does not fit {dtype}", found=number, expected=f"{low} to {high}")
    return number


def _float(name: str, value: Any, dtype: DType) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if abs(number) >= FLOAT_LIMITS[dtype] and not (isinstance(value, float) and math.isinf(value)):
        raise ArgumentError(f"'{name}' does not fit {dtype}", found=value, hint="pass float('inf') if that is meant")
    return number


def _expected(dtype: DType) -> str:
    return "True or False" if dtype == BOOL else f"a number for pl.Scalar[pl.{dtype}]"
