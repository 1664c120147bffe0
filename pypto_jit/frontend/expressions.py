"""Records tensor-level operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pypto_jit._mlir import ir
from pypto_jit.dialects.rules.tensors import tensor_type
from pypto_jit.dialects.types import TensorType
from pypto_jit.errors import ShapeError, Span, TraceError
from pypto_jit.language.expressions import Expression
from pypto_jit.language.extents import static_shape
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder


def check_memory(tensor: Tensor, span: Span | None) -> None:
    """Raise a TraceError where what is to be written is computed, and so no memory of the author's."""
    if isinstance(tensor if tensor.root is None else tensor.root, Expression):
        raise TraceError(
            "what is computed is not written to",
            span=span,
            found=f"{tensor.name}: a computed tensor, or a part or another form of one",
            hint="write to a parameter, or to a tensor of pl.create_tensor(shape, dtype)",
        )


class Expressions:
    """What one trace computes from whole tensors."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        # Tensors that are another one with its dimensions in another order.
        self._permuted: dict[ir.Value, tuple[Tensor, tuple[int, ...]]] = {}

    def express(
        self,
        operation: str,
        operands: Sequence[Tensor | Scalar],
        attributes: Mapping[str, str | int | tuple[int, ...]],
        result: TensorType,
    ) -> Expression:
        """As `Trace.express`."""
        builder = self._builder
        span = builder.span()
        for operand in operands:
            if isinstance(operand, Tensor) and not isinstance(operand, Expression):
                builder.access.loads.setdefault(operand.name, span)
        recorded = {name: self._attribute(value) for name, value in attributes.items()}
        values = [builder.value(operand) for operand in operands]
        created = builder.operation(f"pypto.{operation}", [builder.type(str(result))], values, recorded)
        name = "a computed tensor" if span is None else f"the tensor computed at line {span.line}"
        expression = Expression(created.results[0], name, result, builder.region)
        dims = attributes.get("dims")
        if isinstance(dims, tuple) and isinstance(operands[0], Tensor):
            ordered = sorted(dims) == list(range(result.rank))
            if ordered and "flipped" not in attributes:
                self.note_permuted(expression, operands[0], dims)
        return expression

    def _attribute(self, value: str | int | tuple[int, ...]) -> ir.Attribute:
        builder = self._builder
        if isinstance(value, str):
            return ir.StringAttr.get(value, builder.context)
        if isinstance(value, int):
            return ir.IntegerAttr.get(builder.type("i64"), value)
        return ir.DenseI64ArrayAttr.get(list(value), builder.context)

    def assign(self, value: Tensor, tensor: Tensor) -> None:
        """As `Trace.assign`."""
        builder = self._builder
        span = builder.span()
        check_memory(tensor, span)
        if not isinstance(value, Expression):
            builder.access.loads.setdefault(value.name, span)
        builder.access.stores.setdefault(tensor.name, span)
        builder.operation("pypto.assign", [], [builder.value(value), builder.value(tensor)])

    def settle(self, tensor: Tensor, value: Tensor) -> None:
        """As `Trace.settle`."""
        builder = self._builder
        if builder.access.omitted.get(tensor.name) != [] or tensor.root is not None:
            return
        sides, span = builder.extents(value), builder.span()
        assert value.type is not None
        kind = tensor_type(static_shape(sides), value.type.dtype)
        dims = builder.sides.names(sides)
        if dims is None:
            raise ShapeError(
                f"the extents of '{tensor.name}', which the call leaves out, are not those of another tensor",
                span=span,
                found=list(sides),
                hint=f"pass it, or annotate it: {tensor.name}: pl.Out[pl.Tensor[[rows, columns], pl.{kind.dtype}]]",
            )
        del builder.access.omitted[tensor.name]
        builder.needs.dims[tensor.name] = dims
        tensor.type = kind
        tensor.handle.set_type(builder.type(str(kind)))

    def note_permuted(self, permuted: Tensor, source: Tensor, dims: Sequence[int]) -> None:
        """Remember that a tensor is another one with its dimensions in another order."""
        self._permuted[permuted.handle] = (source, tuple(dims))

    def source(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
        """As `Trace.permutation`."""
        return self._permuted.get(tensor.handle)
