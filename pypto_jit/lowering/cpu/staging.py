"""Which moves into Left and Right may skip the Mat tile in between, and read global memory themselves.

On the machine an operand of the cube goes through Mat. On the CPU that is one more copy of memory which the caches may
have let go before the move reads it. Left as a product reads it is rows of float32: where global memory has just these,
there is no need to move them at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit.dtypes import FP32
from pypto_jit.lowering.cpu.planes import box_plane
from pypto_jit.lowering.cpu.program import Block, Box, Instruction, Nested, Program, Tile
from pypto_jit.targets import Space

_CUBE_OPERANDS = (Space.LEFT, Space.RIGHT)
_PRODUCTS = frozenset({"matmul", "matmul_acc", "matmul_bias"})


@dataclass(eq=False)
class Staging:
    """What staging found in a function.

    Attributes:
        sources: for a move into Left or Right the load whose box it reads itself.
        skipped: those loads; nothing reads the Mat tiles they would fill.
        in_place: the moves into Left that need not be made, if the box lies within its tensor: products may read that.
    """

    sources: dict[Instruction, Instruction] = field(default_factory=dict)
    skipped: set[Instruction] = field(default_factory=set)
    in_place: set[Instruction] = field(default_factory=set)


def uses(program: Program) -> tuple[dict[int, list[Instruction]], dict[int, list[Instruction]]]:
    """Of each buffer the instructions that read it, and those that write it."""
    readers: dict[int, list[Instruction]] = {}
    writers: dict[int, list[Instruction]] = {}
    for instruction in program.body.instructions():
        for buffer in instruction.reads:
            readers.setdefault(buffer, []).append(instruction)
        for buffer in instruction.writes:
            writers.setdefault(buffer, []).append(instruction)
    return readers, writers


def find_staging(program: Program) -> Staging:
    """The staging of a function.

    A Mat tile is skipped where one load fills it, and all that read it are moves into Left or Right, later in the
    load's block and with nothing that may write to global memory between the load and them.
    """
    readers, writers = uses(program)
    found = Staging()

    def visit(block: Block) -> None:
        for number, item in enumerate(block.items):
            if isinstance(item, Nested):
                for inner in item.blocks:
                    visit(inner)
            elif _fills_mat(item) and writers[item.result.buffer] == [item]:
                moves = readers.get(item.result.buffer, [])
                same = all(_same_matrix(item.result, move) for move in moves)
                if same and moves and undisturbed(moves, block.items[number + 1 :]):
                    found.skipped.add(item)
                    found.sources.update((move, item) for move in moves)
            elif item in found.sources and _is_left(item, found.sources[item]):
                products = readers.get(item.result.buffer, [])
                alone = writers[item.result.buffer] == [item] and all(p.row.rule in _PRODUCTS for p in products)
                if alone and products and undisturbed(products, block.items[number + 1 :]):
                    found.in_place.add(item)

    visit(program.body)
    return found


def _is_left(move: Instruction, load: Instruction) -> bool:
    """Whether the box of a load is all of a Left tile, as that lies in memory on the CPU."""
    box, result = load.operands["partition"], move.result
    assert isinstance(box, Box)
    plane = box_plane(box, load.result)
    rows, columns = result.type.shape
    return (
        result.space is Space.LEFT
        and (box.view.dtype, result.dtype) == (FP32, FP32)
        and plane is not None
        and not is_transposed(load.result, move.tile("src"))
        and (plane.row_stride, plane.column_stride) == (columns, 1)
        and plane.extents == result.valid == (rows, columns)
    )


def is_transposed(tile: Tile, view: Tile) -> bool:
    """Whether a handle on the buffer of a Mat tile sees its transpose."""
    return tile.type.layout.slayout != view.type.layout.slayout


def _fills_mat(instruction: Instruction) -> bool:
    """Whether the instruction loads evenly spaced rows of a tensor as a Mat tile."""
    if instruction.row.rule != "load" or instruction.result.space is not Space.MAT:
        return False
    box = instruction.operands["partition"]
    assert isinstance(box, Box)
    plane = box_plane(box, instruction.result)
    return plane is not None and plane.extents == instruction.result.valid


def _same_matrix(tile: Tile, move: Instruction) -> bool:
    """Whether a reader moves the whole tile, as it is or transposed, into Left or Right."""
    if move.row.rule != "move" or move.result.space not in _CUBE_OPERANDS:
        return False
    source = move.tile("src")
    shape, valid = tile.type.shape, tile.valid
    if is_transposed(tile, source):
        shape, valid = shape[::-1], valid[::-1]
    return source.type.shape == shape and source.valid == valid


def undisturbed(moves: list[Instruction], following: list[Instruction | Nested]) -> bool:
    """Whether the moves are among the following items themselves, with no store before the last of them."""
    left = set(moves)
    for item in following:
        if isinstance(item, Instruction):
            left.discard(item)
        if not left:
            return True
        inside = [item] if isinstance(item, Instruction) else [i for block in item.blocks for i in block.instructions()]
        if any(isinstance(other.destination, Box) or other.row.name == "write" for other in inside):
            return False
    return False
