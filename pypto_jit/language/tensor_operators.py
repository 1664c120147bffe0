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
