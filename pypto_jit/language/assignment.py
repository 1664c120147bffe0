"""What a tensor in memory is given: ``out[:] = value``."""

from __future__ import annotations

from typing import Any

from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.language.expressions import filled, in_order, operand_of, rearrange, sides_of, type_of
from pypto_jit.language.scalars import Scalar, is_number
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor, Tile


def assign(tensor: Tensor, value: Any) -> None:
    """Write a tensor or a number to a tensor in memory, broadcast to its shape and in its dtype.

    Raises:
        ShapeError: the value does not broadcast to it.
    """
    trace = current("an assignment")
    if isinstance(value, Tensor):
        trace.settle(tensor, value)
    kind, goal = type_of(operand_of("an assignment", tensor)), sides_of(tensor)
    if not isinstance(value, Tensor):
        if not isinstance(value, Scalar) and not is_number(value):
            raise TraceError(
                "a tensor is assigned a tensor or a number",
                span=here(),
                found=value if isinstance(value, Tile) else f"{type(value).__name__} {value!r}",
                hint="write a tile with pl.store(tile, offsets, tensor)" if isinstance(value, Tile) else None,
            )
        value = filled(goal, kind.dtype, value)
    given = sides_of(value)
    leading = given[: max(0, len(given) - kind.rank)]
    aligned = zip(reversed(given), reversed(goal), strict=False)
    if any(extent != 1 for extent in leading) or any(extent not in (1, wanted) for extent, wanted in aligned):
        raise ShapeError(
            "a tensor is assigned values that broadcast to its shape",
            span=here(),
            found=list(given),
            expected=list(goal),
        )
    if leading:
        value = rearrange(value, range(len(leading), len(given)))
    value = in_order(value)
    if _memory_of(value) is _memory_of(tensor):
        # A value, not the memory that it is written to: the two may overlap.
        value = rearrange(value, range(kind.rank if leading else len(given)))
    trace.assign(value, tensor)


def _memory_of(tensor: Tensor) -> Tensor:
    return tensor if tensor.root is None else tensor.root
