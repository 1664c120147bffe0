"""What a kernel returns: tensors that it was given, and new ones for what it computed."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dialects.rules.tensors import tensor_type
from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.frontend.builder import Builder
from pypto_jit.language.expressions import Expression
from pypto_jit.language.extents import static_shape
from pypto_jit.language.parameters import definition_span
from pypto_jit.language.values import Tensor, Tile

# The name of one parameter, or a tuple of them, nested as the kernel returned it.
Returns = str | tuple["Returns", ...]


class Results:
    """The results of one trace.

    A returned tensor that is no parameter (a computed or created one, or a part of one) becomes a parameter that no
    call gives: an output, which the call allocates.

    Args:
        builder: the trace, whose kernel has run, but is still open.
        parameters: the kernel's tensors.
        function: the kernel.

    Attributes:
        tensors: the new parameters.
    """

    def __init__(self, builder: Builder, parameters: Mapping[str, Tensor], function: FunctionType) -> None:
        self._builder = builder
        self._parameters = parameters
        self._function = function
        # A kernel that touches nothing but returns what it is given makes copies, as of any form of it.
        untouched = not builder.access.stores and not builder.access.loads
        kept = builder.outputs if untouched else parameters
        self._names: dict[ir.Value, str] = {parameters[name].handle: name for name in parameters if name in kept}
        self.tensors: dict[str, Tensor] = {}

    def returned(self, result: Any) -> Returns:
        """The names of what the kernel returns.

        Raises:
            TraceError: something else than tensors.
            ShapeError: a new tensor whose extents are only known at run time.
        """
        if isinstance(result, Tensor):
            return self._names.get(result.handle) or self._new(result)
        if isinstance(result, (tuple, list)):
            return tuple(self.returned(item) for item in result)
        hint = "write it to an output parameter: return pl.store(tile, offsets, out)"
        raise TraceError(
            f"kernel '{self._function.__name__}' returns something else than its tensors",
            span=definition_span(self._function),
            found=result if isinstance(result, Tile) else f"{type(result).__name__} {result!r}",
            expected="tensors it was given or computed, or nothing",
            hint=hint if isinstance(result, Tile) else None,
        )

    def _new(self, value: Tensor) -> str:
        builder = self._builder
        sides, kind = builder.extents(value), value.type
        dims = builder.sides.names(sides)
        if kind is None or dims is None:
            raise ShapeError(
                "a returned tensor has extents that are known when the kernel is compiled, or those of an argument",
                span=definition_span(self._function),
                found=list(sides),
                hint="write it to an output parameter",
            )
        name = "result" if not self.tensors else f"result{len(self.tensors)}"
        while name in self._parameters or name in self.tensors:
            name += "_"
        made = tensor_type(static_shape(sides), kind.dtype)
        region = builder.regions[0]
        handle = region.block.add_argument(builder.type(str(made)), builder.location)
        tensor = Tensor(handle, name, made, region)
        builder.needs.dims[name] = dims
        self._write(value, tensor)
        self.tensors[name] = tensor
        self._names[value.handle] = name
        return name

    def _write(self, value: Tensor, tensor: Tensor) -> None:
        """Write a returned tensor to its parameter; to return a part of an output is not to read it."""
        builder, loads = self._builder, dict(self._builder.access.loads)
        permuted = None if isinstance(value, Expression) else builder.permutation(value)
        if permuted is not None:
            source, dims = permuted
            assert value.type is not None
            sides = builder.extents(value)
            kind = tensor_type(static_shape(sides), value.type.dtype)
            value = builder.express("rearrange", [source], {"dims": dims}, kind, sides)
        builder.assign(value, tensor)
        builder.access.loads = loads
