"""Traced scalars: loop variables, extents and numbers that are only known when the kernel runs.

Python's operators on them record arithmetic; constants stay Python numbers and fold. ``//`` and ``%`` round toward
minus infinity, as Python's do; division by zero gives 0 for integers (``a % 0`` is ``a``), and inf or NaN for floats.

A scalar parameter, and what is computed from scalar parameters and constants alone, knows these parameters. Where
Python or the language needs its value, the kernel is traced again with them as constants.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NoReturn

from pypto_jit.dtypes import ALL, BOOL, FP32, INDEX, DType
from pypto_jit.errors import DTypeError, TraceError
from pypto_jit.language.annotations import ScalarAnnotation, scalar_annotation
from pypto_jit.language.attributes import Attributed
from pypto_jit.language.needs import called_by_us, need
from pypto_jit.language.tracing import current, here

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_LOGICAL = frozenset({"and", "or", "xor"})
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "min": "min", "max": "max"}


def is_number(value: object) -> bool:
    """Whether this is a number that the trace may fold: Python's, or another library's scalar."""
    return isinstance(value, (int, float, Real))


def as_number(value: Any) -> int | float:
    """A number as a Python int or float."""
    if isinstance(value, (int, float)):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


class Scalar(Attributed):
    """A number that is only known when the kernel runs.

    ``pl.Scalar[dtype]`` annotates a parameter.

    Attributes:
        dtype: INDEX for loop variables and extents, BOOL for comparisons, else a float or integer dtype.
        parameters: the kernel's scalar parameters that alone decide its value (none: a constant); None where more does.
    """

    __slots__ = ("dtype", "handle", "parameters", "region")
    _called = "a scalar"

    def __init__(self, handle: Any, dtype: DType, region: Any, parameters: frozenset[str] | None = None) -> None:
        self.handle = handle
        self.dtype = dtype
        self.region = region
        self.parameters = parameters

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and (hasattr(int, name) or hasattr(float, name)):
            need(self, f"the attribute '{name}' of a number")
        return super().__getattr__(name)

    def __class_getitem__(cls, dtype: DType) -> ScalarAnnotation:
        return scalar_annotation(dtype)

    def __repr__(self) -> str:
        return f"Scalar[{self.dtype}]"

    def __add__(self, other: Any) -> Any:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return binary("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return binary("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return binary("mod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return binary("floordiv", self, other), binary("mod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return binary("floordiv", other, self), binary("mod", other, self)

    def __pow__(self, exponent: object) -> Any:
        need(exponent, "an exponent")
        if not isinstance(exponent, int) or not 0 <= exponent <= 8:
            raise TraceError(
                "a traced scalar has no such power",
                span=here(),
                found=f"** {exponent!r}",
                expected="a constant exponent from 0 to 8",
            )
        result: Any = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __rpow__(self, base: object) -> NoReturn:
        need(self, "an exponent")
        raise TraceError("a traced scalar is no exponent", span=here(), found=f"{base!r} ** a traced scalar")

    def __neg__(self) -> Any:
        # For floats 0 - x would lose the sign of zero.
        return binary("mul", self, -1.0) if self.dtype.is_float else binary("sub", 0, self)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Any:
        return binary("max", self, -self)

    def __and__(self, other: Any) -> Any:
        return binary("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return binary("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return binary("xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return binary("xor", self, True)

    def __lt__(self, other: Any) -> Any:
        return binary("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return binary("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return binary("ge", self, other)

    def __eq__(self, other: object) -> Any:
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return binary("ne", self, other)

    def __hash__(self) -> int:
        if self.parameters and not called_by_us():
            need(self, "a key of a dict or set")
        return object.__hash__(self)

    # Our own messages show what it is; a user's text shows its value.

    def __str__(self) -> str:
        if self.parameters and not called_by_us():
            need(self, "a text")
        return repr(self)

    def __format__(self, spec: str) -> str:
        if self.parameters and not called_by_us():
            need(self, "a text")
        return format(repr(self), spec)

    def __bool__(self) -> NoReturn:
        need(self, "the truth of a value")
        raise current("a traced scalar").unstaged(
            "Python needs the truth of a value that is only known when the kernel runs",
            "use it in an `if` statement or a conditional expression; loop with pl.range; take minima with pl.min",
        )

    def __index__(self) -> NoReturn:
        need(self, "an integer")
        raise current("a traced scalar").unstaged(
            "Python needs an integer, and this one is only known when the kernel runs",
            "loop with pl.range instead of range; give tiles a static shape and a valid_shape",
        )

    __int__ = __index__
    __trunc__ = __index__
    __floor__ = __index__
    __ceil__ = __index__

    def __round__(self, digits: object = None) -> NoReturn:
        self.__index__()

    def __float__(self) -> NoReturn:
        need(self, "a float")
        self.__index__()


def binary(name: str, left: Any, right: Any) -> Any:
    """One operation on two scalars, of which at least one is traced. NotImplemented for an operand of another kind."""
    for operand in (left, right):
        if not isinstance(operand, Scalar) and not is_number(operand):
            return NotImplemented
    left, right, dtype = _unify(name, left, right)
    if name == "div" and not dtype.is_float:
        left, right, dtype = cast(left, FP32), cast(right, FP32), FP32
    folded = _identity(name, left, right)
    if folded is not None:
        return folded
    if name == "mod":
        return left - binary("floordiv", left, right) * right
    if name == "floordiv":
        return _floor_division(left, right, dtype)
    trace = current("a traced scalar")
    operands = [operand if isinstance(operand, Scalar) else trace.constant(operand, dtype) for operand in (left, right)]
    return trace.scalar(name, operands, BOOL if name in _COMPARISONS else dtype)


def _unify(name: str, left: Any, right: Any) -> tuple[Any, Any, DType]:
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        dtype = left.dtype if left.dtype == right.dtype else _common(name, left.dtype, right.dtype)
        _check_kind(name, dtype)
        return cast(left, dtype), cast(right, dtype), dtype
    scalar, number = (left, right) if isinstance(left, Scalar) else (right, left)
    number = as_number(number)
    dtype = scalar.dtype
    if isinstance(number, float) and not dtype.is_float:
        dtype = FP32
    elif dtype == BOOL and not isinstance(number, bool):
        raise _mixed(name, dtype, type(number).__name__)
    elif dtype.is_float:
        number = float(number)
    elif dtype != BOOL:
        number = int(number)
    _check_kind(name, dtype)
    scalar = cast(scalar, dtype)
    return (scalar, number, dtype) if isinstance(left, Scalar) else (number, scalar, dtype)


def _common(name: str, left: DType, right: DType) -> DType:
    if BOOL in (left, right):
        raise _mixed(name, left, right)
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if INDEX in (left, right):
        return INDEX
    raise _mixed(name, left, right)


def _mixed(name: str, left: object, right: object) -> DTypeError:
    return DTypeError(
        f"'{_SYMBOLS.get(name, name)}' has scalars of different dtypes",
        span=here(),
        found=f"{left} and {right}",
        expected="one dtype",
        hint="convert one of them with pl.cast(scalar, dtype)",
    )


def _check_kind(name: str, dtype: DType) -> None:
    logical = name in _LOGICAL
    if logical != (dtype == BOOL) and name not in ("eq", "ne"):
        raise DTypeError(
            f"'{_SYMBOLS.get(name, name)}' does not take {dtype} scalars",
            span=here(),
            expected="BOOL, as a comparison gives" if logical else "integers or floats",
        )
    if dtype.kind == "uint":
        raise DTypeError(
            f"'{_SYMBOLS.get(name, name)}' does not take {dtype} scalars",
            span=here(),
            expected="signed integers or floats",
            hint="convert it with pl.cast(scalar, pl.INT32)",
        )
    if dtype.is_float and name in ("floordiv", "mod"):
        raise DTypeError(
            f"'{_SYMBOLS[name]}' takes integer scalars", span=here(), found=dtype, expected="INDEX or INT32"
        )


def _identity(name: str, left: Any, right: Any) -> Any:
    # Exact for integers. For floats x + 0 and 0 * x are not (signed zeros, NaN), x * 1 and x / 1 are.
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return None
    if isinstance(right, Scalar):
        if isinstance(left, bool):
            return _logical_identity(name, right, left)
        if (name == "mul" and left == 1) or (name == "add" and type(left) is int and left == 0):
            return right
        return None
    if isinstance(right, bool):
        return _logical_identity(name, left, right)
    if right == 1 and name in ("mul", "div", "floordiv"):
        return left
    if type(right) is int and right == 0 and name in ("add", "sub"):
        return left
    return None


def _logical_identity(name: str, scalar: Scalar, value: bool) -> Any:
    if name == "and":
        return scalar if value else False
    if name == "or":
        return True if value else scalar
    return scalar if name == "xor" and not value else None


def _floor_division(left: Any, right: Any, dtype: DType) -> Any:
    trace = current("a traced scalar")
    dividend = left if isinstance(left, Scalar) else trace.constant(left, dtype)
    if not isinstance(right, Scalar):
        if right == -1:
            return -dividend
        if right == 0:
            raise TraceError("a traced scalar is divided by zero", span=here())
        return trace.scalar("floordiv", (dividend, trace.constant(right, dtype)), dtype)
    zero = trace.constant(0, dtype)
    is_zero = trace.scalar("eq", (right, zero), BOOL)
    divisor = trace.scalar("select", (is_zero, trace.constant(1, dtype), right), dtype)
    quotient = trace.scalar("floordiv", (dividend, divisor), dtype)
    return trace.scalar("select", (is_zero, zero, quotient), dtype)


def cast(value: Any, dtype: DType) -> Any:
    """A scalar in another dtype; integers from floats are rounded toward zero. Python numbers stay Python numbers."""
    if not isinstance(value, Scalar):
        return float(value) if dtype.is_float else int(value)
    if value.dtype == dtype:
        return value
    if dtype not in (*ALL, INDEX):
        raise DTypeError("a scalar cannot be cast to this dtype", span=here(), found=dtype)
    return current("a traced scalar").scalar("cast", (value,), dtype)


def fold(name: str, values: tuple[Any, ...]) -> Any:
    """The smallest (``min``) or largest (``max``) of scalars: a Python number where all are, else traced."""
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = tuple(values[0])
    if not values:
        raise TraceError(f"pl.{name} takes at least one scalar", span=here())
    for value in values:
        if not isinstance(value, Scalar) and not is_number(value):
            raise TraceError(
                f"pl.{name} takes scalars",
                span=here(),
                found=value,
                expected="Python numbers and traced scalars",
                hint=f"for tiles use pl.{name}imum, pl.row_{name} or pl.col_{name}",
            )
    numbers = [as_number(value) for value in values if not isinstance(value, Scalar)]
    result: Any = None
    if numbers:
        result = min(numbers) if name == "min" else max(numbers)
    for value in values:
        if isinstance(value, Scalar):
            result = value if result is None else _extreme(name, result, value)
    return result


def _extreme(name: str, left: Any, right: Scalar) -> Any:
    """The smaller or larger of two scalars: one of them, where the loops around them tell which it is."""
    if right.dtype == INDEX and (isinstance(left, int) or getattr(left, "dtype", None) == INDEX):
        trace = current("a traced scalar")
        for small, large in ((left, right), (right, left)):
            if trace.at_most(small, large):
                return small if name == "min" else large
    return binary(name, left, right)
