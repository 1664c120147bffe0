"""Quotients rounded down, remainders, powers and roundings of whole tensors, from the rows of the operator table."""

from __future__ import annotations

import math
from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules.tensors import map_type
from pypto_jit.dtypes import FP32, INT32, DType
from pypto_jit.errors import DTypeError, TraceError
from pypto_jit.language.expressions import convert, elementwise, filled, kinds_of, operand_of, sides_of
from pypto_jit.language.needs import need
from pypto_jit.language.scalars import Scalar, as_number, is_number
from pypto_jit.language.selection import compared, where
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor

# From here on all floats are integers.
_ALL_INTEGERS = 2.0**23
_LARGEST_POWER = 64


def _rounded(name: str, x: Any, mode: str) -> Tensor:
    if not operand_of(name, x).dtype.is_float:
        return x
    wide = convert(x, FP32, "rint")
    whole = convert(convert(wide, INT32, mode), FP32, "rint")
    return convert(where(compared("lt", elementwise("abs", wide), _ALL_INTEGERS), whole, wide), x.dtype, "rint")


@checked
def floor(x: Any) -> Tensor:
    """The largest integers that are not above the elements, in their dtype."""
    return _rounded("floor", x, "floor")


@checked
def ceil(x: Any) -> Tensor:
    """The smallest integers that are not below the elements, in their dtype."""
    return _rounded("ceil", x, "ceil")


@checked
def trunc(x: Any) -> Tensor:
    """The elements without what follows the point, in their dtype."""
    return _rounded("trunc", x, "trunc")


@checked
def round(x: Any) -> Tensor:
    """The nearest integers, of two the even one, in the dtype of the elements."""
    return _rounded("round", x, "rint")


@checked
def floor_divide(x: Any, y: Any) -> Tensor:
    """The quotient rounded down, as ``//``: of integers exact, by 0 unspecified; of floats that of the FP32 quotient.

    Args:
        x, y: tensors or numbers, at least one tensor; shapes broadcast.
    """
    dtype = _common(x, y)
    if dtype.is_float:
        return floor(elementwise("div", x, y))
    return _quotient(x, y, dtype)[0]


@checked
def remainder(x: Any, y: Any) -> Tensor:
    """``x - x // y * y``, as ``%``: it has the sign of ``y``.

    Args:
        x, y: tensors or numbers, at least one tensor; shapes broadcast.
    """
    dtype = _common(x, y)
    if dtype.is_float:
        return elementwise("sub", x, elementwise("mul", floor(elementwise("div", x, y)), y))
    return _quotient(x, y, dtype)[1]


def _common(x: Any, y: Any) -> DType:
    """The dtype that two operands are computed in."""
    return map_type(BY_NAME["sub"], kinds_of("//", (x, y))).dtype


def _quotient(x: Any, y: Any, dtype: DType) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of integers, computed in INT32.

    The FP32 quotient is off by a part in 2**22, and so is that of what it leaves: two of them and a last step of one
    are exact.
    """
    x, y = (convert(each, INT32, "rint") if isinstance(each, Tensor) else each for each in (x, y))
    sign = 1 - compared("lt", y, 0) * 2 if isinstance(y, Tensor) else 1 - 2 * (y < 0)
    quotient = convert(elementwise("div", x, y), INT32, "trunc")
    rest = elementwise("sub", x, elementwise("mul", quotient, y))
    more = convert(elementwise("div", rest, y), INT32, "trunc")
    quotient, rest = quotient + more, rest - elementwise("mul", more, y)
    for _ in range(2):
        # The remainder goes the other way than the divisor.
        below = compared("lt", elementwise("mul", rest, sign), 0)
        quotient, rest = quotient - below, rest + elementwise("mul", below, y)
    above = compared("ge", elementwise("mul", elementwise("sub", rest, y), sign), 0)
    quotient, rest = quotient + above, rest - elementwise("mul", above, y)
    return _wrapped(quotient, dtype), _wrapped(rest, dtype)


def _wrapped(x: Tensor, dtype: DType) -> Tensor:
    """INT32 wrapped around into a signed dtype; into an unsigned one only a quotient by 0 would not fit."""
    surplus = INT32.bits - dtype.bits
    if surplus and dtype.kind != "uint":
        x = elementwise("shr", elementwise("shl", x, surplus), surplus)
    return convert(x, dtype, "rint")


@checked
def square(x: Any) -> Tensor:
    """The elements times themselves."""
    return elementwise("mul", x, x)


@checked
def clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """The elements, none below ``min`` and none above ``max``.

    Args:
        x: a tensor.
        min, max: tensors or numbers, or None for no bound.
    """
    low = operand_of("clamp", x) if min is None else elementwise("maximum", x, min)
    return low if max is None else elementwise("minimum", low, max)


@checked
def pow(x: Any, exponent: Any) -> Tensor:
    """A power: of a tensor with a constant exponent, by products where that is an integer, or of a positive number.

    Args:
        x: a tensor; or a positive number, with a tensor of floats as exponent.
        exponent: a number. With one that is no integer, negative elements give NaN. Errors are about ``exponent`` times
            those of a product, or of ``exp(exponent * log(x))``.

    Raises:
        TraceError: neither is a constant.
        DTypeError: integers have no such power.
    """
    if isinstance(exponent, Tensor):
        return _exponential(x, exponent)
    need(exponent, "an exponent")
    if isinstance(exponent, Scalar) or not is_number(exponent):
        raise TraceError(
            "a tensor has powers with a constant exponent",
            span=here(),
            found=exponent,
            hint="of positive elements: pl.exp(exponent * pl.log(x))",
        )
    number, dtype = as_number(exponent), operand_of("pow", x).dtype
    if not dtype.is_float and (int(number) != number or number < 0):
        raise DTypeError(
            f"{dtype} has no such power", span=here(), found=f"** {number}", hint="convert first: x.float()"
        )
    if number == 0:
        return filled(sides_of(x), dtype, 1)
    if abs(number) == 0.5:
        return elementwise("sqrt" if number > 0 else "rsqrt", x)
    if int(number) != number or abs(number) > _LARGEST_POWER:
        powers = elementwise("exp", elementwise("mul", elementwise("log", elementwise("abs", x)), float(number)))
        odd, whole = number % 2 == 1, number == int(number)
        if whole and not odd:
            return powers
        return where(compared("lt", x, 0), elementwise("neg", powers) if odd else math.nan, powers)
    result = elementwise("mul", x, 1) if abs(number) == 1 else _product(x, abs(int(number)))
    return elementwise("recip", result) if number < 0 else result


def _product(x: Tensor, times: int) -> Tensor:
    half = x if times < 2 else _product(x, times // 2)
    if times < 2:
        return half
    even = elementwise("mul", half, half)
    return elementwise("mul", even, x) if times % 2 else even


def _exponential(base: Any, exponent: Tensor) -> Tensor:
    if not is_number(base) or as_number(base) <= 0 or not exponent.dtype.is_float:
        raise TraceError(
            "a tensor of floats is the exponent of a positive number",
            span=here(),
            found=f"{base!r} ** {exponent!r}",
            hint="of positive elements: pl.exp(exponent * pl.log(x))",
        )
    return elementwise("exp", elementwise("mul", exponent, math.log(as_number(base))))


__all__ = ["ceil", "clamp", "floor", "floor_divide", "pow", "remainder", "round", "square", "trunc"]
