"""Integers of whole tensors that the machine's vector unit does not compute with, or not with every operator.

INT8 and UINT8 are computed in INT16 and wrap around as torch's do. What a machine has no instruction for is computed
from what it has, bit by bit the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto_jit.dtypes import INT8, INT16, UINT8, DType
from pypto_jit.language.expressions import convert, elementwise
from pypto_jit.language.values import Tensor

# What short integers are computed in.
WIDER = {INT8: INT16, UINT8: INT16}
# Rows whose results lie within the range of their operands.
_INSIDE = frozenset({"maximum", "minimum", "max", "min", "and_", "or_", "xor", "shr", "relu"})


def widened(operands: Sequence[Any], dtype: DType) -> list[Any]:
    """Operands of a result of a short dtype, in what it is computed in."""
    return [convert(each, WIDER[dtype], "rint") if isinstance(each, Tensor) else each for each in operands]


def narrowed(name: str, wide: Tensor, dtype: DType) -> Tensor:
    """The result of a row, wrapped around into a short dtype."""
    if name not in _INSIDE and dtype == UINT8:
        wide = elementwise("and_", wide, 255)
    elif name not in _INSIDE:
        wide = elementwise("shr", elementwise("shl", wide, 8), 8)
    return convert(wide, dtype, "rint")


def _absolute(x: Any) -> Tensor:
    return elementwise("maximum", x, elementwise("neg", x))


def _rectified(x: Any) -> Tensor:
    return elementwise("maximum", x, 0)


def _inverted(x: Any) -> Tensor:
    return elementwise("sub", elementwise("neg", x), 1)


def _exclusive(x: Any, y: Any) -> Tensor:
    return elementwise("sub", elementwise("or_", x, y), elementwise("and_", x, y))


# Row -> what it is the same as for integers.
SUBSTITUTES: dict[str, Callable[..., Tensor]] = {
    "abs": _absolute,
    "relu": _rectified,
    "not_": _inverted,
    "xor": _exclusive,
}
