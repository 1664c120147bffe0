"""Which inputs may be the very same tensor as an output without changing any result.

A kernel that reads a box of ``x`` and then writes the same box of ``out``, and touches that box in no other iteration,
computes the same whether or not ``x`` is ``out``. That is what elementwise kernels do, and what is proved here, on the
traced module. For every other pair the caller copies the input first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType, TileType, parse_type


@dataclass
class _Access:
    """One load or store: its position in its block, and the box it moves."""

    block: ir.Block
    position: int
    offsets: list[ir.Value]
    extents: tuple[int, ...]


def safe_in_place(function: ir.Operation) -> frozenset[tuple[int, int]]:
    """Pairs (input, output) of argument positions that may be one tensor.

    Args:
        function: a ``func.func`` of the ``pypto`` dialect, as traced.
    """
    block = function.regions[0].blocks[0]
    arguments: list[ir.Value] = list(block.arguments)
    types = [parse_type(str(argument.type)) for argument in arguments]
    accesses = _Accesses(arguments)
    for inner, position, operation in _operations(block):
        accesses.note(inner, position, operation.operation)
    pairs = set()
    for a, loads in accesses.loads.items():
        for b, stores in accesses.stores.items():
            written = accesses.stores[a] or a in accesses.opaque
            if a == b or not stores or written or b in accesses.opaque or not _same_form(types[a], types[b]):
                continue
            if all(_precedes(load, store) for load in loads for store in stores):
                pairs.add((a, b))
    return frozenset(pairs)


def _operations(block: ir.Block) -> Iterator[tuple[ir.Block, int, ir.OpView]]:
    for position, operation in enumerate(block.operations):
        yield block, position, operation
        for region in operation.regions:
            for inner in region.blocks:
                yield from _operations(inner)


class _Accesses:
    """The loads and stores of every argument, and the arguments that are used in another way."""

    def __init__(self, arguments: list[ir.Value]) -> None:
        self._arguments = arguments
        self.loads: dict[int, list[_Access]] = {k: [] for k in range(len(arguments))}
        self.stores: dict[int, list[_Access]] = {k: [] for k in range(len(arguments))}
        self.opaque: set[int] = set()

    def note(self, block: ir.Block, position: int, operation: ir.Operation) -> None:
        """Take one operation into account."""
        operands, name = list(operation.operands), operation.name
        if name == "pypto.load":
            self._add(self.loads, _Access(block, position, operands[1:], ()), operands[0], operation.results[0])
        elif name == "pypto.store" and "atomic" not in operation.attributes:
            self._add(self.stores, _Access(block, position, operands[2:], ()), operands[1], operands[0])
        elif name != "pypto.dim":
            self.opaque.update(k for k, a in enumerate(self._arguments) if any(a == operand for operand in operands))

    def _add(self, table: dict[int, list[_Access]], access: _Access, tensor: ir.Value, tile: ir.Value) -> None:
        number = next((k for k, argument in enumerate(self._arguments) if argument == tensor), None)
        tensor_type, tile_type = parse_type(str(tensor.type)), parse_type(str(tile.type))
        if number is None or not isinstance(tensor_type, TensorType) or not isinstance(tile_type, TileType):
            return
        rank = tensor_type.rank
        # A tile of smaller rank lies right-aligned in the tensor; one of larger rank has leading ones.
        access.extents = ((1,) * rank + tile_type.shape)[-rank:] if rank else ()
        access.offsets = access.offsets[:rank]
        table[number].append(access)


def _same_form(left: object, right: object) -> bool:
    return isinstance(left, TensorType) and left == right


def _precedes(load: _Access, store: _Access) -> bool:
    """Whether the load reads the box before the store writes it, and no iteration touches another one's box."""
    if load.block != store.block or load.position > store.position:
        return False
    if any(a != b for a, b in zip(load.offsets, store.offsets, strict=True)):
        return False
    extents = [max(pair) for pair in zip(load.extents, store.extents, strict=True)]
    return _disjoint(load.block, load.offsets, extents)


def _disjoint(block: ir.Block, offsets: list[ir.Value], extents: list[int]) -> bool:
    """Whether the iterations of every loop around a block move to boxes that do not meet.

    So they do where each loop variable is the offset of a dimension of its own, with steps no smaller than the box.
    """
    free = list(range(len(offsets)))
    while True:
        owner = block.owner.operation
        if owner.name == "func.func":
            return True
        if owner.name == "scf.for":
            variable, step = block.arguments[0], _constant(owner.operands[2])
            axis = next((k for k in free if _advance(offsets[k], variable, step) >= extents[k]), None)
            if axis is None:
                return False
            free.remove(axis)
        elif owner.name != "scf.if":
            return False
        block = owner.block


def _advance(offset: ir.Value, variable: ir.Value, step: int) -> int:
    """By how much an offset moves with each iteration; 0 where that is not plain to see."""
    if offset == variable:
        return step
    owner = offset.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.muli":
        return 0
    left, right = owner.operands
    if right == variable:
        left, right = right, left
    return step * _constant(right) if left == variable else 0


def _constant(value: ir.Value) -> int:
    """The value of a constant; 0 where it is not one."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return 0
    return ir.IntegerAttr(owner.attributes["value"]).value
