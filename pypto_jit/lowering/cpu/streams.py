"""Which instructions read global memory themselves, as they compute, rather than what a load has copied of it.

Right is packed so that many rows of Left find it in the caches in the order they take it in: a product of few rows uses
an element hardly more often than packing does. A reduction along columns uses each element once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit.lowering.cpu.planes import box_plane
from pypto_jit.lowering.cpu.program import Block, Box, Instruction, Program
from pypto_jit.lowering.cpu.staging import Staging, undisturbed, uses

# More rows of Left are quicker with Right packed.
MOST_ROWS = 4
_REDUCTIONS = frozenset({"col_sum", "col_max", "col_min", "col_prod"})


@dataclass(eq=False)
class Streams:
    """What was found in a function.

    Attributes:
        products: for a product the move into Right that it does without, since it reads the box of the load that the
            move has for its source in `Staging`.
        lefts: the moves into Left of such products.
        reductions: for a reduction along columns the load that it does without, since it reads its box.
    """

    products: dict[Instruction, Instruction] = field(default_factory=dict)
    lefts: set[Instruction] = field(default_factory=set)
    reductions: dict[Instruction, Instruction] = field(default_factory=dict)

    @property
    def skipped(self) -> set[Instruction]:
        """What nothing needs any more."""
        return {*self.products.values(), *self.reductions.values()}


def find_streams(program: Program, staging: Staging) -> Streams:
    """The streams of a function.

    A product is one where its valid rows are known and few, where nothing else reads its Left and Right, and where each
    of them comes from one move, that into Right from the box of a load (`Staging`). A reduction along columns is one
    where nothing else reads what it reduces, which comes from one load. In either box rows or columns are known to lie
    side by side, and nothing may write to global memory between the load and what reads it.
    """
    return _Finder(program, staging).find()


class _Finder:
    def __init__(self, program: Program, staging: Staging) -> None:
        self._program = program
        self._staging = staging
        self._readers, self._writers = uses(program)
        self._places: dict[Instruction, tuple[Block, int]] = {}

    def find(self) -> Streams:
        """Look at each product and each reduction."""
        self._visit(self._program.body)
        found = Streams()
        for instruction in self._program.body.instructions():
            if instruction.row.rule.startswith("matmul"):
                self._product(instruction, found)
            elif instruction.row.name in _REDUCTIONS:
                self._reduction(instruction, found)
        return found

    def _visit(self, block: Block) -> None:
        for number, item in enumerate(block.items):
            if not isinstance(item, Instruction):
                for inner in item.blocks:
                    self._visit(inner)
            elif item.row.rule == "load":
                self._places[item] = block, number

    def _product(self, product: Instruction, found: Streams) -> None:
        rows = product.tile("lhs").valid[0]
        if not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
            return
        left, right = self._maker(product, "lhs", "move"), self._maker(product, "rhs", "move")
        load = None if right is None else self._staging.sources.get(right)
        if left is None or right is None or load is None:
            return
        source, result = right.tile("src"), right.result
        same = source.type.shape == result.type.shape and source.valid == result.valid == product.tile("rhs").valid
        if same and self._can_be_read(load, product):
            found.products[product] = right
            found.lefts.add(left)

    def _reduction(self, reduction: Instruction, found: Streams) -> None:
        load = self._maker(reduction, "src", "load")
        if load is None:
            return
        tile, source, box = load.result, reduction.tile("src"), load.operands["partition"]
        assert isinstance(box, Box)
        same = tile.type == source.type and tile.valid == source.valid and tile.dtype == box.view.dtype
        if same and tile.strides[1] == 1 and not tile.type.is_column_vector and self._can_be_read(load, reduction):
            found.reductions[reduction] = load

    def _maker(self, reader: Instruction, operand: str, rule: str) -> Instruction | None:
        """The only instruction that writes an operand of what alone reads it, where it is such a one."""
        buffer = reader.tile(operand).buffer
        made = self._writers.get(buffer, [])
        only = len(made) == 1 and made[0].row.rule == rule and self._readers[buffer] == [reader]
        return made[0] if only else None

    def _can_be_read(self, load: Instruction, reader: Instruction) -> bool:
        box = load.operands["partition"]
        assert isinstance(box, Box)
        plane = box_plane(box, load.result)
        if plane is None or plane.extents != load.result.valid:
            return False
        block, number = self._places[load]
        side_by_side = isinstance(plane.column_stride, int) and plane.column_stride == 1
        return side_by_side and undisturbed([reader], block.items[number + 1 :])
