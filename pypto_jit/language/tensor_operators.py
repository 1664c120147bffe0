"""Python's operators on whole tensors."""

from __future__ import annotations

from typing import Any

from pypto_jit.language.attributes import Attributed


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


class TensorOperators(Attributed):
    """What a tensor does with Python's operators: it records what is to be computed, as `expressions` does."""

    __slots__ = ()

    # NumPy scalars and arrays must leave their operators to ours.
    __array_ufunc__ = None

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
