"""Python's operators on whole tensors."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto_jit.errors import TraceError
from pypto_jit.language.attributes import Attributed
from pypto_jit.language.tracing import here


def _arithmetic(name: str, lhs: Any, rhs: Any) -> Any:
    from pypto_jit.language.values import arithmetic

    return arithmetic(name, lhs, rhs)


def _elementwise(name: str, operand: Any) -> Any:
    from pypto_jit.language.expressions import elementwise

    return elementwise(name, operand)


def _divided(name: str, lhs: Any, rhs: Any) -> Any:
    from pypto_jit.language import division

    return getattr(division, name)(lhs, rhs)


def _compared(mode: str, lhs: Any, rhs: Any) -> Any:
    from pypto_jit.language.selection import compared

    return compared(mode, lhs, rhs)


def _no_number(what: str) -> TraceError:
    return TraceError(
        f"Python needs {what}, and a tensor's elements are only known when the kernel runs",
        span=here(),
        expected="a number that is known when the kernel is compiled",
        hint="x.shape gives extents; one element is a scalar of the kernel: x[i, j]",
    )


def _not_for(name: str, hint: str) -> TraceError:
    return TraceError(f"{name} takes no tensor of a kernel", span=here(), hint=hint)


class TensorOperators(Attributed):
    """What a tensor does with Python's operators: it records what is to be computed, as `expressions` does."""

    __slots__ = ()

    # NumPy scalars and arrays must leave their operators to ours.
    __array_ufunc__ = None

    def __index__(self) -> NoReturn:
        raise _no_number("an integer")

    __int__ = __index__

    def __float__(self) -> NoReturn:
        raise _no_number("a float")

    def __round__(self, digits: object = None) -> NoReturn:
        raise _not_for("round", "pl.cast(x, pl.INT32, mode='rint')")

    def __delitem__(self, subscripts: object) -> NoReturn:
        raise _not_for("del", "write to the part: x[a:b] = 0")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        raise _not_for(f"torch's {name}", "the function of pypto_jit.language, such as pl.exp(x)")

    def __add__(self, other: Any) -> Any:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _arithmetic("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arithmetic("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _divided("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _divided("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _divided("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        return _divided("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _divided("pow", other, self)

    def __and__(self, other: Any) -> Any:
        return _arithmetic("and_", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _arithmetic("or_", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return _arithmetic("xor", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Any:
        return _arithmetic("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _arithmetic("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return _arithmetic("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _arithmetic("shr", other, self)

    def __invert__(self) -> Any:
        return _elementwise("not_", self)

    def __lt__(self, other: Any) -> Any:
        return _compared("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compared("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared("ge", self, other)

    def __matmul__(self, other: Any) -> Any:
        from pypto_jit.language.operators import FUNCTIONS

        return FUNCTIONS["matmul"](self, other)

    def __neg__(self) -> Any:
        return _elementwise("neg", self)

    def __abs__(self) -> Any:
        return _elementwise("abs", self)

    def __pos__(self) -> Any:
        return self

    @property
    def T(self) -> Any:
        """This matrix with rows and columns exchanged; of more dimensions, the last two."""
        from pypto_jit.language.expressions import transposed

        return transposed(self)
