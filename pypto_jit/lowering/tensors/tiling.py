"""The tiles of one kernel: which axes make up their rows, how many rows and columns, and how many blocks that makes.

The model is small: as many elements as fit on chip while all tiles that live at once do, but no more than keep the
CPU's second-level cache useful, and enough blocks to spread over the cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.tensors.extents import estimated
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout, Term
from pypto_jit.targets import FRACTAL_EDGE, ROW_ALIGNMENT, Space, Target

# Elements of a tile that the CPU's caches like; more only if a row alone has more.
CACHED_ELEMENTS = 8192
# Part of a memory that tiles may fill: the planner cannot always pack without gaps.
FILL = 0.85
# Blocks that spread evenly over any number of cores that a call is likely to have.
ENOUGH_BLOCKS = 16
# Where a block does nothing but read, memory wants long runs, and several blocks are enough: each is long.
SEVERAL_BLOCKS, SHORTEST_RUN = 8, 256
# Columns of a tile of rows of any length: some rows are short, and long ones are taken in pieces.
UNKNOWN_COLUMNS = 512
# Columns of a tile that is turned: as many rows make a tile that reads and writes whole cache lines.
TURNED_EDGE = 64
# Full tiles that the machine needs besides operands and result; a selection also makes tiles of scalars, work on bits
# may make one, and the index of an extreme is selected by the comparison of two.
_SCRATCH = {"reduce": 1, "select": 3, "index": 7, "bits": 2}
_BITS = frozenset({"and_", "or_", "xor", "shl", "shr"})
# Every tile is computed in four-byte elements or fewer.
ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Tiling:
    """Tiles of a kernel.

    Attributes:
        group: the row axes that make up the rows of a tile; all but the first as a whole.
        size: of the first of these, in one tile.
        rows: of a tile.
        columns: of a tile.
        live: full tiles that live at once.
    """

    group: tuple[int, ...]
    size: int
    rows: int
    columns: int
    live: int

    def bytes(self) -> int:
        """On-chip bytes that the tiles need at once."""
        return self.live * self.rows * padded(self.columns) * ELEMENT_BYTES


def padded(columns: int) -> int:
    """Columns of a tile in memory, whose rows are multiples of 32 bytes."""
    unit = ROW_ALIGNMENT // ELEMENT_BYTES
    return -(-columns // unit) * unit


def whole_fractals(extent: int) -> int:
    """An extent of a cube tile in memory, which is made of whole fractals."""
    return -(-extent // FRACTAL_EDGE) * FRACTAL_EDGE


def live_tiles(layout: Layout) -> int:
    """How many full tiles there are at once when terms are computed in order, each kept to its last use."""
    last: dict[Term, int] = {}
    for position, term in enumerate(layout.terms):
        for operand in term.terms:
            last[operand] = position
    order = layout.terms
    alive: set[Term] = set()
    most = 1
    for position, term in enumerate(order):
        full = layout.column is None or layout.column in term.axes
        scratch = _SCRATCH.get(term.kind, 0)
        if term.node is not None and term.kind == "map" and text(term.node.op, "row") == "cmp":
            scratch = _SCRATCH["select"]
        if layout.reduced and term.node is not None and text(term.node.op, "row") in ("argmax", "argmin"):
            scratch = _SCRATCH["index"]
        if term.node is not None and text(term.node.op, "row") in _BITS:
            scratch = _SCRATCH["bits"]
        # A conversion has its source beside its result.
        converted = 1 if full and term.kind == "memory" and term.type.dtype.bits != 32 else 0
        if full:
            alive.add(term)
        most = max(most, len(alive) + scratch + converted)
        alive = {other for other in alive if last.get(other, position) > position or other is layout.root}
    return most + 1


def choose(layout: Layout, target: Target, whole_rows: bool) -> Tiling | None:
    """Tiles for elementwise work and reductions; None where a row must be whole and does not fit.

    Args:
        layout: the kernel.
        target: the machine.
        whole_rows: whether a tile must hold whole rows, as reductions along them in one pass need.
    """
    turned = turned_axis(layout)
    # A tile that is turned lies there before, and the machine turns it by way of a third.
    live = live_tiles(layout) + (0 if turned is None else 2)
    least = 1 if turned is None else ROW_ALIGNMENT // ELEMENT_BYTES
    most = int(target.capacity[Space.VEC] * FILL) // (ELEMENT_BYTES * live)
    extents = [estimated(extent) for extent in layout.extents]
    columns = 1 if layout.column is None else max(1, extents[layout.column])
    unknown = layout.column is not None and not isinstance(layout.extents[layout.column], int)
    if (unknown or padded(columns) * least > most) and whole_rows:
        return None
    if not whole_rows and turned is not None:
        columns = min(columns, TURNED_EDGE)
    elif not whole_rows and columns > CACHED_ELEMENTS:
        columns = UNKNOWN_COLUMNS if unknown else CACHED_ELEMENTS
    if not whole_rows and layout.reduced and layout.column is not None and layout.column not in layout.reduced:
        outer = prod(extents[axis] for axis in layout.rows if axis not in layout.reduced)
        columns = _shared_out(columns, outer * extents[layout.column])
    if layout.column in layout.flipped:
        columns = 1
    if padded(columns) > most:
        columns = most // 64 * 64
    rows = [] if layout.reduced else layout.rows
    group = _first_group(layout, turned)
    wanted = max(least, min(most, CACHED_ELEMENTS) // padded(columns))
    for axis in reversed(rows[:-1] if turned is None and not layout.flipped else []):
        whole = prod(extents[a] for a in group)
        if whole * 2 > wanted or not all(_extends(term, (axis, *group), layout.column) for term in _placed(layout)):
            break
        group = (axis, *group)
    backwards = layout.column in layout.flipped
    if not group or (backwards and not all(target.casts.get(term.type.dtype) for term in _placed(layout))):
        # Elements that lie apart are brought together by way of a conversion; without one they come one by one.
        return Tiling((), 1, 1, columns, live)
    inner = prod(extents[axis] for axis in group[1:])
    extent = max(1, extents[group[0]])
    size = max(1, min(wanted // max(1, inner), extent))
    outside = prod(extents[axis] for axis in rows if axis not in group)
    if not layout.reduced:
        size = max(min(least, extent), min(size, extent * outside // ENOUGH_BLOCKS or 1))
        size = _even(extent, size) if isinstance(layout.extents[group[0]], int) else size
    return Tiling(group, size, size * inner, columns, live)


def turned_axis(layout: Layout, group: tuple[int, ...] | None = None) -> int | None:
    """The axis that must make up a tile's rows because a tensor in memory has it last, and its columns before it.

    Args:
        layout: the kernel.
        group: the rows of its tiles where they are settled.

    Raises:
        CannotFuseError: there are several, or another one than is settled.
    """
    found: int | None = None if group is None else (group[0] if len(group) == 1 else -1)
    for term in layout.terms:
        axes = [axis for axis in term.axes if axis is not None]
        if term.kind != "memory" or layout.column not in axes or axes[-1] == layout.column:
            continue
        if found not in (None, axes[-1]):
            raise CannotFuseError(_turned_as(layout, term))
        found = axes[-1]
    return found if group is None else None


def _turned_as(layout: Layout, term: Term) -> ir.Value:
    """The value by which a term comes to lie turned: itself rearranged, or what is computed from it."""
    while not term.seen_as:
        users = [user for user in layout.terms if term in user.terms]
        if not users:
            return term.value
        term = users[0]
    return term.seen_as[-1]


def _shared_out(columns: int, total: int) -> int:
    """Columns of a block that walks down the rows: not above those given, and few enough of all for several blocks."""
    while columns > SHORTEST_RUN and total < columns * SEVERAL_BLOCKS:
        columns = max(SHORTEST_RUN, columns // 2 // 64 * 64)
    return columns


def _even(extent: int, size: int) -> int:
    """A size not above the one given that leaves no remainder, if there is one not much smaller."""
    return next((s for s in range(size, max(1, size // 2), -1) if extent % s == 0), size)


def _first_group(layout: Layout, turned: int | None) -> tuple[int, ...]:
    """The row axis that a tile's rows begin with."""
    if not layout.reduced:
        rows = [axis for axis in layout.rows if axis not in layout.flipped]
        return tuple(rows[-1:]) if turned is None else (turned,)
    rows = [axis for axis in layout.reduced if axis != layout.column]
    if turned is not None and turned not in rows:
        turned_axis(layout, ())
    return tuple(rows[-1:]) if turned is None else (turned,)


def _placed(layout: Layout) -> list[Term]:
    """The terms whose tiles are parts of something as it lies."""
    return [layout.root, *(term for term in layout.terms if term.kind in ("memory", "count"))]


def _extends(term: Term, group: tuple[int, ...], column: int | None) -> bool:
    """Whether these axes make up rows of a term's boxes: all of them, side by side before the columns, or none."""
    present = [axis for axis in term.axes if axis in group]
    if not present:
        return True
    if present != list(group):
        return False
    first = term.axes.index(group[0])
    return term.axes[first : first + len(group)] == group and term.axes[-1] not in group
