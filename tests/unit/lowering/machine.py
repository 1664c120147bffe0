"""A slow machine that executes planned tile buffers: real memories, real addresses, real fractal layouts.

It knows nothing of how the passes came to their result. What an instruction computes is the interpreter's meaning of
its row; where operands lie and what is destroyed is taken from the buffers' addresses and layouts: a result fills the
whole physical buffer, with poison outside of its valid region, and scratch is poisoned entirely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import scalars
from pypto_jit.dialects.interpreter.tiles import MEANINGS, Call, Tile, poison
from pypto_jit.dialects.operators import INSTRUCTIONS, Operator
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileBufType, TileType, parse_type
from pypto_jit.targets import Space, Target


def positions(buffer: TileBufType) -> numpy.ndarray:
    """Element number of every row and column (pto-isa, linear offsets of ND, DN, NZ, ZN and ZZ)."""
    rows, columns = buffer.shape
    r, c = numpy.indices(buffer.shape)
    layout, size = buffer.layout, buffer.dtype.bytes
    if layout.slayout == "none_box":
        return r * columns + c if layout.blayout == "row_major" else c * rows + r
    if layout.fractal == 1024:
        ir_, ic = 16, 16
    elif layout.slayout == "row_major":
        ir_, ic = 16, 32 // size
    else:
        ir_, ic = 32 // size, 16
    inner = (r % ir_) * ic + c % ic if layout.slayout == "row_major" else (c % ic) * ir_ + r % ir_
    if layout.blayout == "col_major":
        return (c // ic) * rows * ic + (r // ir_) * ir_ * ic + inner
    return (r // ir_) * columns * ir_ + (c // ic) * ir_ * ic + inner


@dataclass
class Handle:
    """A tile buffer at an address."""

    type: TileBufType
    address: int
    valid: tuple[int, int]


@dataclass
class Box:
    """A box of a flat array."""

    array: numpy.ndarray
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def indices(self) -> numpy.ndarray:
        grid = numpy.indices(self.sizes) if self.sizes else numpy.zeros((0,), int)
        return self.offset + sum(g * s for g, s in zip(grid, self.strides, strict=True))


class Machine:
    """Runs the functions of a planned module.

    Args:
        module: a module in the ``pto`` dialect, with addresses.
        target: whose memories it has.
    """

    def __init__(self, module: ir.Module, target: Target) -> None:
        self.module = module
        self.memories = {s: numpy.full(n, 0xA5, numpy.uint8) for s, n in target.capacity.items()}

    def run(self, arrays: dict[str, numpy.ndarray], *, blocks: int = 1) -> None:
        """Run every function in order, each with so many blocks; arrays are given by parameter, contiguous or not."""
        workspaces: dict[int, numpy.ndarray] = {}
        with self.module.context:
            for view in self.module.body.operations:
                function = view.operation
                arguments = self._arguments(function, arrays, workspaces)
                # A function whose work is not dealt to blocks is launched as one.
                launched = 1 if function.attributes["pypto.trips"].value == 1 else blocks
                for block in range(launched):
                    values = dict(zip(function.regions[0].blocks[0].arguments, arguments, strict=True))
                    self._block(function.regions[0].blocks[0], values, (block, launched))

    def _arguments(self, function: ir.Operation, arrays: dict, workspaces: dict[int, numpy.ndarray]) -> list:
        arguments: list[Any] = []
        for k, attributes in enumerate(function.attributes["arg_attrs"]):
            if "pypto.argument" in attributes:
                array = arrays[attributes["pypto.argument"].value]
                arguments.append(numpy.lib.stride_tricks.as_strided(array, (_reach(array),), (array.itemsize,)))
            elif "pypto.dim" in attributes:
                name, axis = attributes["pypto.dim"]
                arguments.append(arrays[name.value].shape[axis.value])
            elif "pypto.stride" in attributes:
                name, axis = attributes["pypto.stride"]
                arguments.append(arrays[name.value].strides[axis.value] // arrays[name.value].itemsize)
            else:
                size = attributes["pypto.workspace"].value
                raw = workspaces.setdefault(k, numpy.full(size, 0xFF, numpy.uint8))
                kind = parse_type(str(function.regions[0].blocks[0].arguments[k].type))
                arguments.append(raw.view(kind.dtype.numpy))
        return arguments

    def _block(self, block: ir.Block, values: dict, place: tuple[int, int]) -> list:
        for view in block.operations:
            op = view.operation
            name = op.name
            operands = [values[v] for v in op.operands]
            if name in ("scf.yield", "scf.condition", "func.return"):
                return operands
            results = self._operation(op, name, operands, values, place)
            values.update(zip(op.results, results, strict=True))
        return []

    def _operation(self, op: ir.Operation, name: str, operands: list, values: dict, place: tuple[int, int]) -> list:
        if name.startswith("arith."):
            return [_scalar(op, name[6:], operands)]
        if name == "scf.for":
            carried = operands[3:]
            body = op.regions[0].blocks[0]
            for turn in range(*operands[:3]):
                values.update(zip(body.arguments, [turn, *carried], strict=True))
                carried = self._block(body, values, place)
            return carried
        if name == "scf.while":
            before, after = (region.blocks[0] for region in op.regions)
            while True:
                values.update(zip(before.arguments, operands, strict=True))
                goes_on, *passed = self._block(before, values, place)
                if not goes_on:
                    return passed
                values.update(zip(after.arguments, passed, strict=True))
                operands = self._block(after, values, place)
        if name == "scf.if":
            region = op.regions[0 if operands[0] else 1]
            return self._block(region.blocks[0], values, place) if len(region.blocks) else []
        if name == "pto.within":
            offset, size, extent = operands
            assert 0 <= offset <= extent - size <= extent
            return [offset]
        if name == "pto.get_block_idx":
            return [place[0]]
        if name == "pto.get_block_num":
            return [place[1]]
        if name == "pto.make_tensor_view":
            rank = (len(operands) - 1) // 2
            return [(operands[0], tuple(operands[1 + rank :]))]
        if name == "pto.partition_view":
            (array, strides), rank = operands[0], (len(operands) - 1) // 2
            offset = sum(o * s for o, s in zip(operands[1:], strides, strict=False))
            return [Box(array, offset, tuple(operands[1 + rank :]), strides)]
        if name == "pto.alloc_tile":
            kind = parse_type(str(op.results[0].type))
            assert isinstance(kind, TileBufType)
            left = iter(operands)
            valid = [next(left) if v == DYNAMIC else v for v in kind.valid]
            return [Handle(kind, op.attributes["addr"].value, (valid[0], valid[1]))]
        self._instruction(op, name, operands)
        return []

    # Tiles in memory

    def _elements(self, handle: Handle) -> numpy.ndarray:
        kind = handle.type
        raw = self.memories[kind.space][handle.address : handle.address + kind.bytes]
        return raw.view(kind.dtype.numpy)

    def _read(self, handle: Handle) -> Tile:
        return Tile(self._elements(handle)[positions(handle.type)], handle.type.dtype, handle.valid)

    def _write(self, handle: Handle, box: numpy.ndarray) -> None:
        kind = handle.type
        assert box.shape == handle.valid, (box.shape, handle)
        whole = numpy.full(kind.shape, poison(kind.dtype), kind.dtype.numpy)
        whole[: box.shape[0], : box.shape[1]] = box
        self._elements(handle)[positions(kind)] = whole

    def _instruction(self, op: ir.Operation, name: str, operands: list) -> None:
        if name == "pto.tload":
            box, handle = operands
            self._write(handle, box.array[box.indices()].reshape(handle.valid))
            return
        if name == "pto.tstore":
            handle, box = operands
            stored = self._read(handle).box().reshape(box.sizes)
            box.array[box.indices()] = stored.astype(box.array.dtype)
            return
        rows = INSTRUCTIONS[name[4:]]
        row = rows[0] if len(rows) == 1 or isinstance(operands[0], Handle) else rows[1]
        self._compute(row, op, operands)

    def _compute(self, row: Operator, op: ir.Operation, operands: list) -> None:
        instruction = row.instruction
        assert instruction is not None
        named = dict(zip((*instruction.inputs, "dst"), operands, strict=True))
        result = named.pop("dst")
        read = {k: self._read(v) if isinstance(v, Handle) and k != "tmp" else v for k, v in named.items()}
        if "tmp" in named:
            self._elements(named["tmp"])[:] = poison(named["tmp"].type.dtype)
        kind = TileType(result.type.shape, result.type.dtype, result.type.space, result.valid)
        shape = numpy.zeros(result.type.shape, result.type.dtype.numpy)
        read.setdefault("target", Tile(shape, result.type.dtype, result.valid))
        inputs = tuple(read[operand.name] for operand in row.operands)
        types = tuple(self._type(value) for value in inputs)
        attributes = {a.name: op.attributes[a.name].value for a in row.attributes if a.name in op.attributes}
        made = MEANINGS[row.name](Call(inputs, types, kind, attributes, None))
        assert made is not None
        box = made.box()
        assert box.shape == result.valid, (row.name, box.shape, result)
        self._write(result, box.astype(result.type.dtype.numpy))

    def _type(self, value: Any) -> TensorType | TileType | None:
        if not isinstance(value, Tile):
            return None
        return TileType(value.array.shape, value.dtype, Space.VEC, value.valid)


def _reach(array: numpy.ndarray) -> int:
    """Elements from the first to the last one of a strided array."""
    return 1 + sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides, strict=True))


def _scalar(op: ir.Operation, name: str, operands: list) -> Any:
    target = str(op.results[0].type)
    if name == "constant":
        attribute = op.attributes["value"]
        return scalars.constant(attribute.value if hasattr(attribute, "value") else attribute, target)
    sources = [str(operand.type) for operand in op.operands]
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value if name.startswith("cmp") else 0
    return scalars.evaluate(name, operands, sources, target, predicate)
