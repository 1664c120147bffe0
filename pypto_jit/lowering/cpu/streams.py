"""Which products of few rows read their right operand from global memory, element by element, as they multiply.

Right is packed so that many rows of Left find it in the caches in the order they take it in. Few rows use an element
hardly more often than packing does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.planes import box_plane
from pypto_jit.lowering.cpu.program import Block, Box, Instruction, Program
from pypto_jit.lowering.cpu.staging import Staging, undisturbed

# More rows of Left are quicker with Right packed.
MOST_ROWS = 4


@dataclass(eq=False)
class Streams:
    """What was found in a function.

    Attributes:
        products: for a product the move into Right that it does without, since it reads the box of the load that the
            move has for its source in `Staging`.
        lefts: the moves into Left of such products.
    """

    products: dict[Instruction, Instruction] = field(default_factory=dict)
    lefts: set[Instruction] = field(default_factory=set)


def find_streams(program: Program, staging: Staging) -> Streams:
    """The streams of a function.

    A product is one where its valid rows are known and few, where nothing else reads its Left and Right, where each of
    them comes from one move, that into Right from the box of a load (`Staging`) whose rows or columns are known to lie
    side by side, and where nothing may write to global memory between that load and the product.
    """
    instructions = list(program.body.instructions())
    readers: dict[int, list[Instruction]] = {}
    writers: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        for buffer in instruction.reads:
            readers.setdefault(buffer, []).append(instruction)
        for buffer in instruction.writes:
            writers.setdefault(buffer, []).append(instruction)
    found = Streams()

    def move_of(product: Instruction, name: str) -> Instruction | None:
        buffer = product.tile(name).buffer
        made = writers.get(buffer, [])
        only = len(made) == 1 and made[0].row.rule == "move" and readers[buffer] == [product]
        return made[0] if only else None

    def visit(block: Block) -> None:
        for number, item in enumerate(block.items):
            if not isinstance(item, Instruction):
                for inner in item.blocks:
                    visit(inner)
            elif item.row.rule == "load":
                loads[item] = block, number

    loads: dict[Instruction, tuple[Block, int]] = {}
    visit(program.body)
    for product in instructions:
        if not product.row.rule.startswith("matmul") or not _few_rows(product):
            continue
        left, right = move_of(product, "lhs"), move_of(product, "rhs")
        load = None if right is None else staging.sources.get(right)
        if left is None or right is None or load is None or not _side_by_side(load, right):
            continue
        block, number = loads[load]
        same = right.result.valid == right.tile("src").valid and product.tile("rhs").valid == right.result.valid
        if same and undisturbed([product], block.items[number + 1 :]):
            found.products[product] = right
            found.lefts.add(left)
    return found


def _few_rows(product: Instruction) -> bool:
    rows = product.tile("lhs").valid[0]
    return isinstance(rows, int) and 1 <= rows <= MOST_ROWS


def _side_by_side(load: Instruction, move: Instruction) -> bool:
    box = load.operands["partition"]
    assert isinstance(box, Box)
    plane = box_plane(box, load.result)
    assert plane is not None
    stride: Extent = plane.column_stride
    return isinstance(stride, int) and stride == 1 and move.tile("src").type.shape == move.result.type.shape
