"""Views of tensors: what ``pypto.view`` shows of a tensor, and where a box of the view lies in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType
from pypto_jit.lowering.types import TypeTable

VIEW = "pypto.view"

_T = TypeVar("_T")


@dataclass(frozen=True)
class View:
    """One ``pypto.view``.

    Attributes:
        kind: ``slice``, ``transpose``, ``reshape``, or ``strided``: memory under extents and strides of its own, see
            the pass ``views``.
        source: the tensor that it shows.
        numbers: further operands.
        axes: the dimensions of the source that a slice keeps, or in the order that a transpose gives them; -1 where a
            dimension is none of the source's.
    """

    kind: str
    source: ir.Value
    numbers: tuple[ir.Value, ...]
    axes: tuple[int, ...]

    @property
    def offsets(self) -> tuple[ir.Value, ...]:
        """Of the box that a slice shows, one per dimension of the source."""
        return self.numbers[: len(self.numbers) // 2]

    @property
    def extents(self) -> tuple[ir.Value, ...]:
        """Of the box that a slice shows, one per dimension of the source."""
        return self.numbers[len(self.numbers) // 2 :]


def view_of(value: ir.Value) -> View | None:
    """The view that made a tensor; None for a tensor that is none."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    operation = owner.operation
    if operation.name != VIEW:
        return None
    source, *numbers = operation.operands
    attributes = operation.attributes
    return View(
        ir.StringAttr(attributes["kind"]).value,
        source,
        tuple(numbers),
        tuple(ir.DenseI64ArrayAttr(attributes["axes"])),
    )


def root_of(value: ir.Value) -> ir.Value:
    """The tensor that a view of views shows in the end."""
    while (view := view_of(value)) is not None:
        value = view.source
    return value


def locate(
    tensor: ir.Value,
    box: Sequence[_T] | None,
    types: TypeTable,
    shift: Callable[[_T, ir.Value], _T],
    point: Callable[[ir.Value], _T],
    whole: Callable[[ir.Value, ir.Value], _T] | None = None,
) -> tuple[ir.Value, list[_T] | None]:
    """Where a box of a view lies in the tensor that it shows in the end.

    Args:
        tensor: the view, or a tensor that is none.
        box: what is known of each dimension; None where the box is not known.
        types: of the context.
        shift: what a slice's offset makes of that.
        point: what is known of a dimension that a slice drops, by its offset.
        whole: what is known of the whole of a slice's dimension, by its offset and extent.

    Returns:
        The tensor, and the box in it; None where it lies anywhere in it.
    """
    current: list[_T] | None = None if box is None else list(box)
    while (view := view_of(tensor)) is not None:
        tensor = view.source
        kind = types.tensor(tensor)
        assert isinstance(kind, TensorType)
        if view.kind == "reshape" or -1 in view.axes:
            current = None
        elif current is None:
            if view.kind == "slice" and whole is not None:
                current = [whole(*side) for side in zip(view.offsets, view.extents, strict=True)]
        elif view.kind == "transpose":
            at = {axis: k for k, axis in enumerate(view.axes)}
            current = [current[at[axis]] for axis in range(kind.rank)]
        else:
            at = {axis: k for k, axis in enumerate(view.axes)}
            current = [
                shift(current[at[axis]], offset) if axis in at else point(offset)
                for axis, offset in enumerate(view.offsets)
            ]
    return tensor, current
