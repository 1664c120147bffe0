"""Creating operations: where they go, which line they come from, and constants made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import Type
from pypto_jit.lowering.types import TypeTable


class Emitter:
    """Inserts operations into one function.

    Args:
        entry: the function's first block; constants go before its first operation.
        types: the context's types.
    """

    def __init__(self, entry: ir.Block, types: TypeTable) -> None:
        self.types = types
        self._first = entry.operations[0].operation
        self._unknown = ir.Location.unknown(types.context)
        self._constants: dict[int, ir.Value] = {}
        self._point = ir.InsertionPoint(self._first)
        self._location = self._unknown

    @property
    def location(self) -> ir.Location:
        """The line that what follows comes from."""
        return self._location

    def before(self, op: ir.Operation, location: ir.Location | None = None) -> None:
        """Put what follows before an operation, at its line or at the line of the location given."""
        self._point = ir.InsertionPoint(op)
        self._location = location if location is not None else op.location

    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Put what follows at the end of a block, and continue where it was afterwards."""
        point, self._point = self._point, ir.InsertionPoint(block)
        try:
            yield
        finally:
            self._point = point

    def emit(
        self,
        name: str,
        operands: Sequence[ir.Value] = (),
        results: Sequence[ir.Type] = (),
        attributes: Mapping[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """An operation at the current place."""
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=dict(attributes) if attributes else None,
            regions=regions,
            loc=self._location,
            ip=self._point,
        )

    def value(
        self,
        name: str,
        operands: Sequence[ir.Value],
        result: Type | ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        """The result of an operation with one result."""
        mlir = result if isinstance(result, ir.Type) else self.types.build(result)
        return self.emit(name, operands, [mlir], attributes).result

    def entry_value(
        self,
        name: str,
        operands: Sequence[ir.Value],
        result: Type | ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        """Like `value`, but at the start of the function."""
        point, location = self._point, self._location
        self._point, self._location = ir.InsertionPoint(self._first), self._unknown
        try:
            return self.value(name, operands, result, attributes)
        finally:
            self._point, self._location = point, location

    def index(self, number: int) -> ir.Value:
        """An index constant."""
        value = self._constants.get(number)
        if value is None:
            attribute = {"value": ir.IntegerAttr.get(self.types.index, number)}
            value = self._constants[number] = self.entry_value("arith.constant", (), self.types.index, attribute)
        return value

    def number(self, number: int) -> ir.Attribute:
        """An integer attribute."""
        return ir.IntegerAttr.get(self.types.i64, number)

    def arith(self, name: str, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """A two-operand operation on index values."""
        return self.value(f"arith.{name}", (lhs, rhs), self.types.index)


def anchor(entry: ir.Block, types: TypeTable) -> ir.Operation:
    """A constant at the start of a function, for an `Emitter` whose function loses the operations it starts with."""
    attributes: dict[str, ir.Attribute] = {"value": ir.IntegerAttr.get(types.index, 0)}
    unknown = ir.Location.unknown(types.context)
    point = ir.InsertionPoint.at_block_begin(entry)
    return ir.Operation.create("arith.constant", [types.index], [], attributes, loc=unknown, ip=point)
