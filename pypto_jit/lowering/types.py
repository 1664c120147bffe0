"""Between MLIR types and their Python values, in both directions, each distinct type converted once."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import PartitionType, TensorType, TileBufType, TileType, Type, parse_type
from pypto_jit.dtypes import DType


class TypeTable:
    """The types of one context.

    Printing an IRDL type takes about 10 us and parsing one about 50 us; a kernel has tens of values and few types.
    """

    def __init__(self, context: ir.Context) -> None:
        self.context = context
        self._python: dict[ir.Type, Type | None] = {}
        self._mlir: dict[object, ir.Type] = {}
        self._scalars: dict[DType, ir.Type] = {}
        # Operations of these names, types and attributes were found right before.
        self.verified: set[tuple] = set()
        with context:
            self.index = ir.IndexType.get()
            self.i64 = ir.IntegerType.get_signless(64)
        self._python[self.index] = None

    def of(self, value: ir.Value) -> Type | None:
        """The Python type of a value; None where it is no type of ours."""
        return self.parse(value.type)

    def parse(self, mlir: ir.Type) -> Type | None:
        """The Python type of an MLIR type; None where it is no type of ours."""
        try:
            return self._python[mlir]
        except KeyError:
            parsed = self._python[mlir] = parse_type(str(mlir))
            return parsed

    def build(self, python: Type) -> ir.Type:
        """The MLIR type of a Python type."""
        mlir = self._mlir.get(python)
        if mlir is None:
            mlir = self._mlir[python] = ir.Type.parse(str(python), self.context)
            self._python[mlir] = python
        return mlir

    def scalar(self, dtype: DType) -> ir.Type:
        """The type of a scalar of a dtype."""
        mlir = self._scalars.get(dtype)
        if mlir is None:
            mlir = self._scalars[dtype] = ir.Type.parse(dtype.signless, self.context)
        return mlir

    def tile(self, value: ir.Value) -> TileType | None:
        """The type of a value that is a tile, else None."""
        found = self.parse(value.type)
        return found if isinstance(found, TileType) else None

    def tensor(self, value: ir.Value) -> TensorType:
        """The type of a value that must be a tensor."""
        found = self.parse(value.type)
        assert isinstance(found, TensorType), found
        return found

    def buffer(self, value: ir.Value) -> TileBufType:
        """The type of a value that must be a tile buffer."""
        found = self.parse(value.type)
        assert isinstance(found, TileBufType), found
        return found

    def partition(self, value: ir.Value) -> PartitionType:
        """The type of a value that must be a box of a tensor."""
        found = self.parse(value.type)
        assert isinstance(found, PartitionType), found
        return found
