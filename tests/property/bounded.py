"""Tensors in double precision, each with a bound on how far a computed one may be from it.

A bound is carried from operator to operator as in running error analysis (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition, section 3.3). With u the unit roundoff of a dtype (section 2.1) and gamma_n = n u / (1 - n u)
(section 3.1), an operator adds

- a correctly rounded one (+ - * / sqrt and conversions): u |result|, and the smallest normal number (2.8), since
  processors may flush;
- a sum of n terms, in any order: gamma_n sum |x| (4.4); a product of n factors: gamma_n prod |x| (lemma 3.1);
- a matrix product over K: gamma_K |A| |B| (3.13);
- ``exp``, ``log`` and the like: the units in the last place that they are documented with.

What the operands may already be off by is carried through: exactly by a monotone function, which is taken at both ends
of its operand's interval, and by the product rule else. All floats are computed in FP32; those of narrower dtypes may
be rounded to their dtype after every operator or only in memory, so that their roundoff is added each time. Integers
wrap, and are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pypto_jit.dtypes import BF16, FP16, FP32, INT16, INT32, DType
from tests.property.subscripts import taken

ROUNDOFF = {FP32: 2.0**-24, FP16: 2.0**-11, BF16: 2.0**-8}
SMALLEST = {FP32: 2.0**-126, FP16: 2.0**-24, BF16: 2.0**-126}
# Values beyond are not drawn: they are close to overflow, where one rounding makes all the difference.
LARGEST = {FP32: 1e30, FP16: 6e4, BF16: 1e30}
# Half a unit in the last place is one unit roundoff.
TABULATED = 4

Function = Callable[[torch.Tensor], torch.Tensor]


class IllConditionedError(Exception):
    """So little is known of the result that comparing it would show nothing."""


def gamma(count: int) -> float:
    """What n roundings in FP32 come to, relative to the result."""
    return count * ROUNDOFF[FP32] / (1 - count * ROUNDOFF[FP32])


class Bounded:
    """A tensor, and how far a computed one may be from it.

    Attributes:
        value: float64; of integers int64.
        radius: float64, of the same shape; infinite where nothing is known.
        dtype: of the computed tensor.
    """

    __slots__ = ("dtype", "radius", "value")

    def __init__(self, value: torch.Tensor, radius: torch.Tensor, dtype: DType) -> None:
        self.value = value
        self.radius = radius
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(self.value.shape)

    @property
    def size(self) -> torch.Tensor:
        """The largest magnitude that each element may have."""
        return self.value.abs().double() + self.radius

    def seen(self, form: Function) -> Bounded:
        """The same elements in another form; a view where torch gives one."""
        return Bounded(form(self.value), form(self.radius), self.dtype)

    def __getitem__(self, subscripts: Any) -> Bounded:
        upwards, backwards = taken(subscripts, self.shape)
        return self.seen(lambda tensor: tensor[upwards].flip(backwards) if backwards else tensor[upwards])

    def __setitem__(self, subscripts: Any, value: Any) -> None:
        given = convert(operand(value, self.dtype), self.dtype)
        upwards, backwards = taken(subscripts, self.shape)
        for own, new in ((self.value, given.value), (self.radius, given.radius)):
            part = own[upwards]
            new = new.reshape(new.shape[max(0, new.dim() - part.dim()) :]).expand(part.shape)
            # What is written may be a part of what it is written to.
            own[upwards] = new.flip(backwards) if backwards else new.clone()

    def __getattr__(self, name: str) -> Any:
        """The function of the language of this name, as a method."""
        if name.startswith("_"):
            raise AttributeError(name)
        from tests.property import bounded_language

        return bounded_language.method(self, name)

    @property
    def T(self) -> Bounded:
        """With the last two dimensions exchanged."""
        return self.seen(lambda tensor: tensor.transpose(-1, -2) if tensor.dim() > 1 else tensor)

    def __add__(self, other: Any) -> Bounded:
        return add(self, other)

    def __radd__(self, other: Any) -> Bounded:
        return add(other, self)

    def __sub__(self, other: Any) -> Bounded:
        return subtract(self, other)

    def __rsub__(self, other: Any) -> Bounded:
        return subtract(other, self)

    def __mul__(self, other: Any) -> Bounded:
        return multiply(self, other)

    def __rmul__(self, other: Any) -> Bounded:
        return multiply(other, self)

    def __truediv__(self, other: Any) -> Bounded:
        return divide(self, other)

    def __rtruediv__(self, other: Any) -> Bounded:
        return divide(other, self)

    def __floordiv__(self, other: Any) -> Bounded:
        return integers().quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Bounded:
        return integers().quotient(other, self)

    def __mod__(self, other: Any) -> Bounded:
        return integers().remainder(self, other)

    def __rmod__(self, other: Any) -> Bounded:
        return integers().remainder(other, self)

    def __and__(self, other: Any) -> Bounded:
        return integers().bits("and", self, other)

    def __rand__(self, other: Any) -> Bounded:
        return integers().bits("and", other, self)

    def __or__(self, other: Any) -> Bounded:
        return integers().bits("or", self, other)

    def __xor__(self, other: Any) -> Bounded:
        return integers().bits("xor", self, other)

    def __lshift__(self, other: Any) -> Bounded:
        return integers().bits("left", self, other)

    def __rshift__(self, other: Any) -> Bounded:
        return integers().bits("right", self, other)

    def __invert__(self) -> Bounded:
        return subtract(-1, self)

    def __matmul__(self, other: Bounded) -> Bounded:
        return self.matmul(other)

    def __neg__(self) -> Bounded:
        return negated(self)

    def __abs__(self) -> Bounded:
        return exact(torch.abs(self.value), self.radius, self.dtype)

    def __lt__(self, other: Any) -> Bounded:
        return compare("lt", self, other)

    def __le__(self, other: Any) -> Bounded:
        return compare("le", self, other)

    def __gt__(self, other: Any) -> Bounded:
        return compare("gt", self, other)

    def __ge__(self, other: Any) -> Bounded:
        return compare("ge", self, other)


def integers() -> Any:
    """The module of what integers only do."""
    from tests.property import bounded_integers

    return bounded_integers


# Making results


def exact(value: torch.Tensor, radius: torch.Tensor, dtype: DType) -> Bounded:
    """A result that is not rounded.

    Raises:
        IllConditionedError: it overflows, or its bound is of no use.
    """
    value, radius = torch.broadcast_tensors(value, radius)
    if dtype.is_float:
        value = value.double()
        if value.numel() and not bool((value.abs() + radius <= LARGEST[dtype]).all()):
            raise IllConditionedError
        scale = value.abs().mean() if value.numel() else 0.0
    else:
        low, high = limits(dtype)
        outside = (value - radius < low) | (value + radius > high)
        if bool((outside & (radius > 0)).any()):
            raise IllConditionedError
        value = (value - low) % (1 << dtype.bits) + low
        scale = 1.0
    if value.numel() and not bool(radius.mean() <= 0.1 * scale + 1e-3):
        raise IllConditionedError
    return Bounded(value.clone(), radius.clone(), dtype)


def rounded(
    value: torch.Tensor, radius: torch.Tensor | float, dtype: DType, units: float = 1, narrowings: int = 1
) -> Bounded:
    """A result that is computed in FP32 and rounded to its dtype.

    Args:
        value: of exact operations on the operands' values.
        radius: what it may be off by as its operands are.
        dtype: of the result.
        units: roundoffs of FP32, relative to the result.
        narrowings: how often it may be rounded to its own dtype, where that is narrower.
    """
    if not dtype.is_float:
        return exact(value, torch.as_tensor(radius, dtype=torch.float64), dtype)
    relative = units * ROUNDOFF[FP32] + (narrowings * ROUNDOFF[dtype] * 1.001 if dtype != FP32 else 0)
    value = value.double()
    return exact(value, radius + relative * (value.abs() + radius) + SMALLEST[dtype], dtype)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the largest integer of a dtype."""
    signed = dtype.kind == "int"
    return (-(1 << (dtype.bits - 1)) if signed else 0, (1 << (dtype.bits - signed)) - 1)


def given(tensor: torch.Tensor, dtype: DType) -> Bounded:
    """An argument, known exactly."""
    value = tensor.double() if dtype.is_float else tensor.long()
    return Bounded(value.clone(), torch.zeros(tensor.shape, dtype=torch.float64), dtype)


def operand(value: Any, dtype: DType) -> Bounded:
    """An operand; a number in a dtype that results have, as exact as this holds it."""
    if isinstance(value, Bounded):
        return value
    if not dtype.is_float:
        return exact(torch.tensor(int(value)), torch.tensor(0.0, dtype=torch.float64), dtype)
    number = torch.tensor(float(value), dtype=torch.float64)
    held = number.to(getattr(torch, dtype.torch)).double()
    return Bounded(number, torch.abs(held - number), dtype)


def promote(first: DType, second: DType) -> DType:
    """A float wins over an integer, then the wider one, then the signed one; FP16 with BF16 gives FP32."""
    if {first, second} == {FP16, BF16}:
        return FP32
    return max(first, second, key=lambda dtype: (dtype.is_float, dtype.bits, dtype.kind == "int"))


def joined(*operands: Any, always_float: bool = False) -> list[Bounded]:
    """Operands in the dtype that they have together."""
    tensors = [each.dtype for each in operands if isinstance(each, Bounded)]
    numbers = [each for each in operands if not isinstance(each, Bounded)]
    dtype = tensors[0] if tensors else INT32
    for other in tensors[1:]:
        dtype = promote(dtype, other)
    if not dtype.is_float and (always_float or any(isinstance(number, float) for number in numbers)):
        dtype = FP32
    if dtype.bits == 8:
        # Computed in INT16: only the result wraps around.
        wide = [operand(each, INT16) for each in operands]
        return [Bounded(each.value, each.radius, dtype) for each in wide]
    return [convert(operand(each, dtype), dtype) for each in operands]


# Conversions

_INTEGRAL: dict[str, Function] = {
    "rint": torch.round,
    "round": lambda x: torch.sign(x) * torch.floor(torch.abs(x) + 0.5),
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
}


def convert(x: Bounded, dtype: DType, mode: str = "rint") -> Bounded:
    """In another dtype: integers keep their low bits, floats saturate to integers."""
    if x.dtype == dtype:
        return x
    if dtype.is_float:
        wider = x.dtype.is_float and (dtype == FP32)
        wider = wider or x.dtype.bits == 8 or (dtype == FP32 and x.dtype.bits == 16)
        if wider:
            return exact(x.value.double(), x.radius, dtype)
        directed = 1 if mode in ("rint", "round") else 2
        return rounded(x.value, x.radius, dtype, units=directed, narrowings=directed)
    if not x.dtype.is_float:
        return exact(x.value, x.radius, dtype)
    low, high = limits(dtype)

    def integral(values: torch.Tensor) -> torch.Tensor:
        return _INTEGRAL[mode](values).clamp(low, high)

    value = integral(x.value)
    return exact(value.long(), spread(integral, x), dtype)


def spread(function: Function, x: Bounded) -> torch.Tensor:
    """How far a monotone function is from its value anywhere in the interval of its operand."""
    value = function(x.value.double())
    ends = (function(x.value - x.radius), function(x.value + x.radius))
    return torch.maximum(*(torch.abs(end - value) for end in ends))


# Elementwise operators


def add(x: Any, y: Any) -> Bounded:
    """x + y."""
    x, y = joined(x, y)
    return rounded(x.value + y.value, x.radius + y.radius, x.dtype)


def negated(x: Any) -> Any:
    """-x, which is exact."""
    return exact(-x.value, x.radius, x.dtype) if isinstance(x, Bounded) else -x


def subtract(x: Any, y: Any) -> Bounded:
    """x - y: the negative is one of the dtype that both are computed in."""
    x, y = joined(x, y)
    return add(x, negated(y))


def multiply(x: Any, y: Any) -> Bounded:
    """x * y."""
    x, y = joined(x, y)
    radius = x.radius * y.size + y.radius * x.value.abs()
    return rounded(x.value * y.value, radius, x.dtype)


def divide(x: Any, y: Any) -> Bounded:
    """x / y; of integers in FP32."""
    x, y = joined(x, y, always_float=True)
    least = y.value.abs() - y.radius
    if bool((least <= 0).any()):
        raise IllConditionedError
    quotient = x.value / y.value
    return rounded(quotient, (x.radius + quotient.abs() * y.radius) / least, x.dtype)


def extreme(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: Any, y: Any) -> Bounded:
    """The larger or the smaller of two."""
    x, y = joined(x, y)
    return exact(function(x.value, y.value), torch.maximum(*torch.broadcast_tensors(x.radius, y.radius)), x.dtype)


def monotone(function: Function, x: Bounded, units: float) -> Bounded:
    """A monotone function; of integers in FP32."""
    (x,) = joined(x, always_float=True)
    return rounded(function(x.value), spread(function, x), x.dtype, units)


def compare(mode: str, x: Any, y: Any) -> Bounded:
    """1 where x and y compare so, 0 elsewhere; either where their intervals meet."""
    x, y = joined(x, y)
    value = getattr(torch, mode)(x.value, y.value).long()
    doubt = x.radius + y.radius
    uncertain = (doubt > 0) & ((x.value - y.value).abs() <= doubt)
    return exact(value, uncertain.double(), x.dtype)


def choose(mask: Bounded, x: Any, y: Any) -> Bounded:
    """x where the mask is not zero, y elsewhere; either where the mask may be zero or not."""
    dtype_of_numbers = any(isinstance(each, float) for each in (x, y))
    x, y = joined(x, y, always_float=dtype_of_numbers)
    value = torch.where(mask.value != 0, x.value, y.value)
    uncertain = (mask.radius > 0) & (mask.value.abs() <= mask.radius)
    either = torch.maximum(x.radius, y.radius) + (x.value - y.value).abs()
    return exact(value, torch.where(uncertain, either, torch.where(mask.value != 0, x.radius, y.radius)), x.dtype)
