"""A planned ``pto`` function as the CPU lowering sees it: tiles in an arena, boxes of tensors, instructions in blocks.

Extents and offsets are ints, or the ``index`` values of the function; only emission turns the latter into 64-bit
values, so that two extents are the same exactly where they are equal here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import ELEMENT_ROWS, INSTRUCTIONS, Operator
from pypto_jit.dialects.types import (
    DYNAMIC,
    ArrayType,
    PartitionType,
    PointerType,
    TensorViewType,
    TileBufType,
)
from pypto_jit.dtypes import FP32, DType
from pypto_jit.errors import InternalError
from pypto_jit.lowering.attributes import number, numbers, text
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import LOOPS, constant
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space

ARENA_ALIGNMENT = 64
NO_ARRAY = ArrayType(0, FP32)
# Left and Right hold float32 whatever their dtype, or blocks for tile registers, which fit into as many bytes.
_CUBE_SCALE = {Space.LEFT: 4, Space.RIGHT: 4}


@dataclass(eq=False)
class Tile:
    """A handle on a tile buffer.

    Attributes:
        type: of the handle.
        buffer: the plan's number; handles of equal number see each other's writes.
        address: of the buffer within its space, in bytes; `Program.bases` gives where in the arena the space starts.
        valid: rows and columns.
    """

    type: TileBufType
    buffer: int
    address: int
    valid: tuple[Extent, Extent]

    @property
    def space(self) -> Space:
        """The memory."""
        return self.type.space

    @property
    def dtype(self) -> DType:
        """What the elements are on the CPU."""
        return FP32 if self.space in _CUBE_SCALE else self.type.dtype

    @property
    def bytes(self) -> int:
        """Bytes of the buffer in the arena."""
        return self.type.shape[0] * self.type.shape[1] * self.dtype.bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Elements between rows and between columns. Boxes are not simulated: only the order within a box is kept."""
        rows, columns = self.type.shape
        column_major = self.type.layout.slayout == "col_major" or self.type.is_column_vector
        if self.space in _CUBE_SCALE or not column_major:
            return columns, 1
        return 1, rows


@dataclass(eq=False)
class View:
    """A tensor: the function's argument with extents and strides in elements."""

    pointer: ir.Value
    dtype: DType
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]


@dataclass(eq=False)
class Box:
    """A box of a tensor."""

    view: View
    offsets: tuple[Extent, ...]
    sizes: tuple[Extent, ...]


@dataclass(eq=False)
class Instruction:
    """One PTO instruction: operands by the row's names, the destination last."""

    op: ir.Operation
    row: Operator
    operands: dict[str, Tile | Box | ir.Value]
    destination: Tile | Box | None
    mode: str = "none"

    @property
    def adds(self) -> bool:
        """Whether it adds to global memory."""
        return text(self.op, "atomic") == "add"

    @property
    def inputs(self) -> list[Tile]:
        """Tiles whose contents it uses: not the scratch that the machine asks for."""
        found: list[Tile] = []
        for name, operand in self.operands.items():
            if isinstance(operand, Tile) and name != "tmp":
                found.append(operand)
        return found

    @property
    def tiles(self) -> list[Tile]:
        """Tiles that it reads, then the one that it writes."""
        return [*self.inputs, self.destination] if isinstance(self.destination, Tile) else self.inputs

    @property
    def reads(self) -> set[int]:
        """Buffers whose contents it uses."""
        buffers = {tile.buffer for tile in self.inputs}
        return buffers | self.writes if self.row.instruction is not None and self.row.instruction.updates else buffers

    @property
    def writes(self) -> set[int]:
        """Buffers it defines."""
        return {self.destination.buffer} if isinstance(self.destination, Tile) else set()

    def tile(self, name: str) -> Tile:
        """An operand that must be a tile."""
        found = self.operands[name]
        assert isinstance(found, Tile)
        return found

    @property
    def result(self) -> Tile:
        """The destination, which must be a tile."""
        assert isinstance(self.destination, Tile)
        return self.destination


@dataclass(eq=False)
class Element(Instruction):
    """An instruction that reads or writes one element.

    Attributes:
        offset: of the element, in elements.
        bounds: index and extent for each dimension of a tensor; the row and column of a tile as one pair; nothing where
            they are not known.
        dtype: of the tensor's elements.
        array: the type of the array that it is about, if any.
    """

    offset: Extent = 0
    bounds: list[tuple[Extent, Extent]] = field(default_factory=list)
    dtype: DType = FP32
    array: ArrayType = NO_ARRAY

    def scalar(self, name: str) -> ir.Value:
        """An operand that must be a value: a number, a pointer or an array."""
        found = self.operands[name]
        assert isinstance(found, ir.Value)
        return found


@dataclass(eq=False)
class Block:
    """What happens in one block, in order; other operations (index arithmetic, handles) are left out."""

    items: list[Instruction | Nested] = field(default_factory=list)

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, nested ones included."""
        for item in self.items:
            if isinstance(item, Instruction):
                yield item
            else:
                for block in item.blocks:
                    yield from block.instructions()


@dataclass(eq=False)
class Nested:
    """A loop or an if that holds instructions."""

    op: ir.Operation
    blocks: list[Block]

    @property
    def loops(self) -> bool:
        """Whether its blocks run more than once."""
        return self.op.name in LOOPS


class Program:
    """One function.

    Attributes:
        body: its instructions.
        handles: operations that only describe (views, boxes, handles), in order; the lowering erases them at the end.
        limited: handles whose valid extents must be checked, with the largest that they may be.
        checked: operations that check an offset, with the offset, a size and the extent that both must lie in.
        bases: where each space starts in the arena, in bytes.
        arena: bytes of scratch.

    Raises:
        InternalError: the module is not a planned ``pto`` module.
    """

    def __init__(self, function: ir.Operation, types: TypeTable) -> None:
        self._types = types
        self._tiles: dict[ir.Value, Tile] = {}
        self._views: dict[ir.Value, View] = {}
        self._boxes: dict[ir.Value, Box] = {}
        self.handles: list[ir.Operation] = []
        self.limited: list[tuple[ir.Operation, Tile, tuple[int, ...]]] = []
        self.checked: list[tuple[ir.Operation, Extent, Extent, Extent]] = []
        self.block_index: list[ir.Value] = []
        self.block_count: list[ir.Value] = []
        self.body = self._read(function.regions[0].blocks[0])
        self.bases, self.arena = self._lay_out()

    def _lay_out(self) -> tuple[dict[Space, int], int]:
        bases: dict[Space, int] = {}
        end = 0
        for space in Space:
            sizes = [tile.address + tile.bytes for tile in self._tiles.values() if tile.space is space]
            if sizes:
                bases[space] = end
                end += -(-max(sizes) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        # A vector that starts within a tile may end beyond it.
        return bases, end + ARENA_ALIGNMENT

    def position(self, tile: Tile) -> int:
        """Byte offset of a tile in the arena."""
        return self.bases[tile.space] + tile.address

    def _read(self, block: ir.Block) -> Block:
        found = Block()
        for view in block.operations:
            op = view.operation
            name = op.name
            if name.startswith("pto."):
                instruction = self._pto(op, name.removeprefix("pto."))
                if instruction is not None:
                    found.items.append(instruction)
            elif name.startswith("scf.") and len(op.regions):
                blocks = [self._read(inner) for region in op.regions for inner in region.blocks]
                if any(inner.items for inner in blocks):
                    found.items.append(Nested(op, blocks))
            elif name.startswith("pypto."):
                raise InternalError("a function is not lowered to the pto dialect", span=span_of(op), found=name)
        return found

    def _pto(self, op: ir.Operation, name: str) -> Instruction | None:
        if name in INSTRUCTIONS:
            return self._instruction(op, name)
        if name in ELEMENT_ROWS:
            return self._element(op, ELEMENT_ROWS[name])
        if name == "within":
            offset, size, extent = map(_extent, op.operands)
            self.checked.append((op, offset, size, extent))
            return None
        self.handles.append(op)
        operands = list(op.operands)
        if name == "alloc_tile":
            tile = self._tiles[op.result] = self._tile(op, operands, None)
            limits = numbers(op, "pypto.limits")
            if limits is not None:
                self.limited.append((op, tile, limits))
        elif name == "treshape":
            self._tiles[op.result] = self._tile(op, operands[1:], self._tiles[operands[0]])
        elif name == "make_tensor_view":
            kind = self._types.of(op.result)
            assert isinstance(kind, TensorViewType)
            extents = [_extent(v) for v in operands[1:]]
            rank = len(kind.shape)
            self._views[op.result] = View(operands[0], kind.dtype, tuple(extents[:rank]), tuple(extents[rank:]))
        elif name == "partition_view":
            view = self._views[operands[0]]
            extents = [_extent(v) for v in operands[1:]]
            rank = len(view.shape)
            self._boxes[op.result] = Box(view, tuple(extents[:rank]), tuple(extents[rank:]))
        elif name == "get_block_idx":
            self.block_index.append(op.result)
        elif name == "get_block_num":
            self.block_count.append(op.result)
        elif name == "fence":
            # One thread runs the instructions of a block in order.
            pass
        else:
            raise InternalError(f"the CPU engine does not know pto.{name}", span=span_of(op))
        return None

    def _tile(self, op: ir.Operation, extents: list[ir.Value], base: Tile | None) -> Tile:
        kind = self._types.of(op.result)
        assert isinstance(kind, TileBufType)
        dynamic = iter(extents)
        rows, columns = (_extent(next(dynamic)) if v == DYNAMIC else v for v in kind.valid)
        if base is not None:
            return Tile(kind, base.buffer, base.address, (rows, columns))
        address, buffer = number(op, "addr"), number(op, "buffer")
        if address is None or buffer is None:
            raise InternalError("a tile buffer has no address", span=span_of(op), found=str(kind))
        return Tile(kind, buffer, address * _CUBE_SCALE.get(kind.space, 1), (rows, columns))

    def _instruction(self, op: ir.Operation, name: str) -> Instruction:
        values = [self._operand(v) for v in op.operands]
        rows = INSTRUCTIONS[name]
        row = rows[0]
        if len(rows) > 1:
            # Rows that share an instruction differ in which operand is the tile.
            row = next(r for r in rows if _fits(r, values))
        assert row.instruction is not None
        operands = dict(zip(row.instruction.inputs, values[:-1], strict=True))
        destination = values[-1]
        assert isinstance(destination, (Tile, Box))
        default = next((str(a.default) for a in row.attributes if a.name == "mode"), "none")
        return Instruction(op, row, operands, destination, text(op, "mode") or default)

    def _element(self, op: ir.Operation, row: Operator) -> Element:
        assert row.instruction is not None
        names, values = row.instruction.inputs, list(op.operands)
        operands = {name: self._operand(value) for name, value in zip(names, values, strict=False)}
        rest = values[len(names) :]
        destination = self._tiles[rest.pop(0)] if row.instruction.updates else None
        extents = [_extent(value) for value in rest]
        place = next((values[names.index(name)] for name in ("offset", "index") if name in names), None)
        found = Element(op, row, operands, destination, offset=0 if place is None else _extent(place))
        found.bounds = list(zip(extents[::2], extents[1::2], strict=True))
        for value in [*values, *op.results]:
            kind = self._types.of(value)
            if isinstance(kind, ArrayType):
                found.array = kind
            elif isinstance(kind, PointerType):
                found.dtype = kind.dtype
        return found

    def _operand(self, value: ir.Value) -> Tile | Box | ir.Value:
        kind = self._types.of(value)
        if isinstance(kind, TileBufType):
            return self._tiles[value]
        if isinstance(kind, PartitionType):
            return self._boxes[value]
        return value


def _fits(row: Operator, values: list[Tile | Box | ir.Value]) -> bool:
    assert row.instruction is not None
    kinds = {operand.name: operand.kind for operand in row.operands}
    return all(
        isinstance(value, Tile) == (kinds.get(name, "tile") == "tile")
        for name, value in zip(row.instruction.inputs, values, strict=False)
    )


def _extent(value: ir.Value) -> Extent:
    known = constant(value)
    return value if known is None else known
