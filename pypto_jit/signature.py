"""What a specialization is keyed on, and what an artifact says of its parameters. A leaf module."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.errors import PyptoError, Span


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument as a specialization sees it.

    Attributes:
        shape: extents.
        dtype: element type.
        strides: in elements; -1 where the kernel reads the stride at run time. A contiguous tensor has its row-major
            strides here; any other has -1 for each dimension longer than one, except a unit innermost stride.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]


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

    Attributes:
        names: of the parameters.
        span: where in the user's source.
        why: what needs the value.
        cause: the error it takes the place of, where there is one.
    """

    def __init__(self, names: frozenset[str], span: Span | None, why: str, cause: PyptoError | None = None) -> None:
        super().__init__(names, span, why)
        self.names = names
        self.span = span
        self.why = why
        self.cause = cause
