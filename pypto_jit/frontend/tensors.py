"""Tensors that are no parameters: those that a kernel creates, and views of a part or of another form of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType, row_major_strides
from pypto_jit.dtypes import DType
from pypto_jit.errors import ShapeError
from pypto_jit.language.extents import Extent, Side, elements, static_shape
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder


class Tensors:
    """Records the tensors that one trace makes."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def create(self, shape: Sequence[int | Scalar], dtype: DType, initial: float | None) -> Tensor:
        """As `Trace.create_tensor`."""
        builder = self._builder
        span = builder.span()
        static = _static(shape)
        kind = TensorType(static, dtype, row_major_strides(static))
        extents = [builder.value(extent) for extent in shape if isinstance(extent, Scalar)]
        attributes: dict[str, ir.Attribute] = {}
        if initial is not None:
            number = builder.type(dtype.signless)
            if dtype.is_float:
                attributes["initial"] = ir.FloatAttr.get(number, float(initial), builder.location)
            else:
                attributes["initial"] = ir.IntegerAttr.get(number, int(initial))
        created = builder.operation("pypto.create_tensor", [builder.type(str(kind))], extents, attributes)
        name = "the created tensor" if span is None else f"the tensor created at line {span.line}"
        return Tensor(created.results[0], name, kind, builder.region)

    def slice(
        self,
        tensor: Tensor,
        offsets: Sequence[int | Scalar],
        shape: Sequence[int],
        valid: Sequence[int | Scalar],
        axes: Sequence[int],
    ) -> Tensor:
        """As `Trace.slice`."""
        kind = self._kind(tensor)
        strides = tuple(kind.strides[axis] for axis in axes)
        inside = TensorType(tuple(_static(valid)[axis] for axis in axes), kind.dtype, strides)
        declared = TensorType(tuple(shape[axis] for axis in axes), kind.dtype, strides)
        view = self._view("slice", tensor, [*offsets, *valid], inside, axes)
        view.type = declared
        extents = tuple(valid[axis] for axis in axes)
        view.valid = None if inside.shape == declared.shape else extents
        return view

    def permute(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """As `Trace.permute`."""
        kind = self._kind(tensor)
        shape = tuple(kind.shape[axis] for axis in axes)
        inside = tuple(_static(tensor.valid or kind.shape)[axis] for axis in axes)
        strides = tuple(kind.strides[axis] for axis in axes)
        view = self._view("transpose", tensor, [], TensorType(inside, kind.dtype, strides), axes)
        view.type = TensorType(shape, kind.dtype, strides)
        view.valid = None if tensor.valid is None else tuple(tensor.valid[axis] for axis in axes)
        return view

    def reshape(self, tensor: Tensor, shape: Sequence[Side]) -> Tensor:
        """As `Trace.reshape`."""
        kind, own = self._kind(tensor), self._builder.extents(tensor)
        span = self._builder.span()
        if tensor.valid is not None:
            raise ShapeError(
                "a tensor that is partly valid is not reshaped", span=span, found=f"valid_shape {list(tensor.valid)}"
            )
        if elements(own) != elements(shape):
            raise ShapeError(
                "reshape keeps the number of elements",
                span=span,
                found=f"{list(own)} to {list(shape)}",
                expected=f"extents whose product is {prod(kind.shape)}" if DYNAMIC not in kind.shape else None,
            )
        new = static_shape(shape)
        extents = [side.make() for side in shape if isinstance(side, Extent)]
        return self._view("reshape", tensor, extents, TensorType(new, kind.dtype, row_major_strides(new)), ())

    def restride(self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
        """As `Trace.restride`."""
        kind = TensorType(tuple(shape), self._kind(tensor).dtype, tuple(strides))
        return self._view("strided", tensor, [], kind, [-1] * len(shape))

    def _kind(self, tensor: Tensor) -> TensorType:
        self._builder.shape(tensor)
        assert tensor.type is not None
        return tensor.type

    def _view(
        self, kind: str, tensor: Tensor, numbers: Sequence[int | Scalar], result: TensorType, axes: Sequence[int]
    ) -> Tensor:
        builder = self._builder
        operands = [builder.value(tensor), *(builder.index(number) for number in numbers)]
        attributes: dict[str, ir.Attribute] = {
            "kind": ir.StringAttr.get(kind, builder.context),
            "axes": ir.DenseI64ArrayAttr.get(list(axes), builder.context),
        }
        created = builder.operation("pypto.view", [builder.type(str(result))], operands, attributes)
        return Tensor(
            created.results[0], tensor.name, result, builder.region, tensor if tensor.root is None else tensor.root
        )


def _static(extents: Sequence[int | Scalar]) -> tuple[int, ...]:
    return tuple(DYNAMIC if isinstance(extent, Scalar) else extent for extent in extents)
