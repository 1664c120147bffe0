"""What a specialization is keyed on, and what an artifact says of its parameters. A leaf module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.errors import DecoratorError, PyptoError, Span


@dataclass(frozen=True)
class DynVar:
    """``pl.dynamic(name)``: an extent that is only known at run time, as ``factor * name + offset``.

    Written in a shape, where one name stands for one number in all tensors of a call: ``M``, ``M * 2``, ``M + 1``.

    Raises:
        DecoratorError: arithmetic that is no positive multiple of the name plus a constant.
    """

    name: str
    factor: int = 1
    offset: int = 0

    def __mul__(self, other: object) -> DynVar:
        if type(other) is not int or other < 1:
            raise self._refused("*", other)
        return DynVar(self.name, self.factor * other, self.offset * other)

    __rmul__ = __mul__

    def __add__(self, other: object) -> DynVar:
        if type(other) is not int:
            raise self._refused("+", other)
        return DynVar(self.name, self.factor, self.offset + other)

    __radd__ = __add__

    def __sub__(self, other: object) -> DynVar:
        if type(other) is not int:
            raise self._refused("-", other)
        return self + -other

    def _refused(self, symbol: str, other: object) -> DecoratorError:
        return DecoratorError(
            "a dynamic dimension is a positive multiple of one name, plus a constant",
            found=f"{self} {symbol} {other}",
            expected=f"such as {self.name} * 2, or {self.name} + 1",
        )

    def __index__(self) -> int:
        raise DecoratorError(
            f"the value of {self} is only known when the kernel runs",
            hint="in the kernel, take the extent from a tensor: x.shape[axis]",
        )

    def value(self, number: int) -> int:
        """The extent where the name stands for a number."""
        return self.factor * number + self.offset

    def solve(self, extent: int) -> int | None:
        """The number that the name stands for, of an extent; None where there is none."""
        number, rest = divmod(extent - self.offset, self.factor)
        return number if not rest and number >= 0 else None

    def __str__(self) -> str:
        text = self.name if self.factor == 1 else f"{self.name} * {self.factor}"
        return text if not self.offset else f"{text} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    __repr__ = __str__


_SPELLED = re.compile(r"([^\W\d]\w*)(?: \* (\d+))?(?: ([+-]) (\d+))?")


def parse_dimension(text: str) -> DynVar | None:
    """The dimension that is spelled so; None where none is."""
    found = _SPELLED.fullmatch(text)
    if found is None:
        return None
    name, factor, sign, offset = found.groups()
    return DynVar(name, int(factor or 1), int(f"{sign}{offset}") if sign else 0)


Dimension = int | DynVar


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument as a specialization sees it.

    Attributes:
        shape: extents; -1 where only known at run time.
        dtype: element type.
        strides: in elements; -1 where the kernel reads the stride at run time. A contiguous tensor has its row-major
            strides here, -1 where they depend on an extent that is not known; any other has -1 for each dimension
            longer than one, except a unit innermost stride.
        dims: of each dimension, the name of an extent of -1, and None for the others; empty where all are known.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]
    dims: tuple[DynVar | None, ...] = ()

    @property
    def shown(self) -> list[Dimension]:
        """The shape as its author would write it."""
        dims = self.dims or (None,) * len(self.shape)
        return [extent if dim is None else dim for dim, extent in zip(dims, self.shape, strict=True)]


def known_extents(shape: Iterable[Dimension]) -> tuple[int, ...]:
    """A declared shape with -1 for what is only known at run time."""
    return tuple(-1 if isinstance(extent, DynVar) else extent for extent in shape)


def named_extents(shape: Iterable[Dimension]) -> tuple[DynVar | None, ...]:
    """Of a declared shape, what is only known at run time; empty where all of it is known."""
    dims = tuple(extent if isinstance(extent, DynVar) else None for extent in shape)
    return dims if any(dims) else ()


@dataclass(frozen=True)
class ScalarSpec:
    """A number that a kernel is given when it runs.

    Attributes:
        dtype: what it is in the kernel: INDEX for a Python int, FP32 for a float, BOOL for a bool, or as declared.
        converts: whether the dtype is a declared float, which takes ints as well.
    """

    dtype: DType
    converts: bool = False


# The smallest magnitudes that round to infinity.
FLOAT_LIMITS = {FP32: float.fromhex("0x1.ffffffp127"), BF16: float.fromhex("0x1.ffp127"), FP16: 65520.0}


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


@dataclass(frozen=True)
class Constant:
    """A Python value the kernel is specialized on, by type and value."""

    value: object


@dataclass(frozen=True)
class ParamInfo:
    """One parameter of a compiled kernel.

    Attributes:
        name: as written.
        direction: ``in``, ``out`` or ``inout``.
        spec: its tensor or scalar specification, or the constant it was specialized on.
        default: of a scalar: what it is where a call leaves it out; None: it must be given.
    """

    name: str
    direction: str
    spec: TensorSpec | ScalarSpec | Constant
    default: float | None = None


@dataclass(frozen=True)
class Runtime:
    """``pl.RUNTIME``: a scalar that the kernel is given when it runs, whatever happens; never specialized on.

    As an annotation, or in the place of a value in ``f.compile(...)`` and ``f.lower(...)``; ``pl.RUNTIME[pl.INT32]``
    gives the dtype as well.
    """

    dtype: DType | None = None

    def __getitem__(self, dtype: DType) -> Runtime:
        return Runtime(dtype)

    def __repr__(self) -> str:
        return "pl.RUNTIME" if self.dtype is None else f"pl.RUNTIME[pl.{self.dtype}]"


RUNTIME = Runtime()


class ValueNeeded(BaseException):
    """A trace came to where it needs the value of a scalar parameter: it is to be made again with that a constant.

    No exception of the user's code, and nothing for it to catch.

    It also ends a trace that comes to where an extent is made dynamic, which is to be made again with that unknown.

    Attributes:
        names: of the parameters.
        span: where in the user's source.
        why: what needs the value.
        cause: the error it takes the place of, where there is one.
        dims: instead of values: parameter, dimension, and the name of its extent.
    """

    def __init__(
        self,
        names: frozenset[str],
        span: Span | None,
        why: str,
        cause: PyptoError | None = None,
        dims: tuple[tuple[str, int, DynVar], ...] = (),
    ) -> None:
        super().__init__(names, span, why)
        self.names = names
        self.dims = dims
        self.span = span
        self.why = why
        self.cause = cause
