"""The extents of tensors in one trace, and which of them are known to be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import INDEX
from pypto_jit.frontend.bounds import sum_of
from pypto_jit.language.extents import Extent, Side
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor
from pypto_jit.signature import DynVar

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder


class Extents:
    """What one trace knows of extents."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        # Of tensors that are no parameters.
        self._noted: dict[ir.Value, tuple[Side, ...]] = {}
        # The scalars that are extents of parameters.
        self._names: dict[ir.Value, DynVar] = {}

    def note(self, tensor: Tensor, sides: Sequence[int | Scalar | Extent]) -> None:
        """Remember the extents of a tensor that the trace makes."""
        self._noted[tensor.handle] = tuple(self.side(side) for side in sides)

    def of(self, tensor: Tensor) -> tuple[Side, ...]:
        """The extents of a tensor; of a view that ends before its shape does, those within it."""
        noted = self._noted.get(tensor.handle)
        if noted is not None:
            return noted
        shape = self._builder.shape(tensor)
        return tuple(self._unnoted(tensor, axis) if extent == DYNAMIC else extent for axis, extent in enumerate(shape))

    def _unnoted(self, tensor: Tensor, axis: int) -> Extent:
        name = self._name(tensor, axis)
        return Extent((tensor.handle, axis) if name is None else name, lambda: self._dim(tensor, axis))

    def _name(self, tensor: Tensor, axis: int) -> DynVar | None:
        dims = self._builder.needs.dims.get(tensor.name, ()) if tensor.root is None else ()
        return dims[axis] if dims else None

    def scalar(self, tensor: Tensor, axis: int) -> Scalar:
        """As `Trace.extent`."""
        noted = self._noted.get(tensor.handle)
        side = None if noted is None else noted[axis]
        return side.make() if isinstance(side, Extent) else self._dim(tensor, axis)

    def _dim(self, tensor: Tensor, axis: int) -> Scalar:
        builder = self._builder
        attribute = ir.IntegerAttr.get(builder.type("i64"), axis)
        operands = [builder.value(tensor)]
        created = builder.operation("pypto.dim", [builder.type("index")], operands, {"axis": attribute})
        name = self._name(tensor, axis)
        if name is not None:
            self._names[created.results[0]] = name
        return Scalar(created.results[0], INDEX, builder.region)

    def side(self, value: int | Scalar | Extent) -> Side:
        """An extent that is given as a number or a traced scalar."""
        if not isinstance(value, Scalar):
            return value
        total = sum_of(value)
        if not total.factors:
            return total.constant
        factors: dict[object, int] = {}
        for each, times in total.factors.items():
            name = self._names.get(each)
            key = each if name is None else name
            factors[key] = factors.get(key, 0) + times
        key, times = next(iter(factors.items()))
        if len(factors) == 1 and isinstance(key, DynVar) and times > 0:
            return Extent(key * times + total.constant, lambda: value)
        return Extent((total.constant, frozenset(factors.items())), lambda: value)

    def names(self, sides: Sequence[Side]) -> tuple[DynVar | None, ...] | None:
        """The names of extents as a specification has them; None where one has no name."""
        keys = [None if isinstance(side, int) else side.key for side in sides]
        if any(key is not None and not isinstance(key, DynVar) for key in keys):
            return None
        return tuple(key if isinstance(key, DynVar) else None for key in keys) if any(keys) else ()
