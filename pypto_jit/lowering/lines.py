"""Transfers of boxes whose columns lie apart in global memory.

The machine moves rows of consecutive elements, a single one at least. A piece of a row whose elements lie apart is
therefore moved as a column of rows of one element, and turned on chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TileBufType, TileType
from pypto_jit.lowering.buffers import Buffers, TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.layouts import buffer_type
from pypto_jit.lowering.transposes import Transposes
from pypto_jit.lowering.tree import constant
from pypto_jit.lowering.views import TURNED, Tensors
from pypto_jit.targets import Space, Target

# Each of its elements takes 32 bytes on chip before it is turned.
_LONGEST = 256


class Lines:
    """The transfers of one function that move pieces of rows.

    Args:
        emitter, buffers, tensors, transposes: of the function.
        target: the machine.
    """

    def __init__(
        self, emitter: Emitter, buffers: Buffers, tensors: Tensors, transposes: Transposes, target: Target
    ) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._tensors = tensors
        self._transposes = transposes
        self._target = target

    def load(self, tensor: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[ir.Value], goal: TileRef) -> None:
        """Emit what reads a box."""

        def move(place: tuple[ir.Value, ir.Value] | None, box: ir.Value, kind: TileBufType, length: ir.Value) -> None:
            line = goal if place is None else self._line(kind, length)
            near = self._transposes.room(line)
            self._emitter.emit("pto.tload", (box, near.handle))
            self._transposes.write(near, line)
            if place is not None:
                self._move("tinsert", line, place, goal)

        self._visit(tensor, offsets, sizes, goal.type, move)

    def store(
        self,
        source: TileRef,
        tensor: ir.Value,
        offsets: Sequence[ir.Value],
        sizes: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute],
    ) -> None:
        """Emit what writes a box."""

        def move(place: tuple[ir.Value, ir.Value] | None, box: ir.Value, kind: TileBufType, length: ir.Value) -> None:
            line = source
            if place is not None:
                line = self._line(kind, length)
                self._move("textract", source, place, line)
            self._emitter.emit("pto.tstore", (self._transposes.of(line).handle, box), attributes=attributes)

        self._visit(tensor, offsets, sizes, source.type, move)

    def _move(self, name: str, source: TileRef, place: tuple[ir.Value, ir.Value], goal: TileRef) -> None:
        line = source if name == "tinsert" else goal
        if not self._buffers.moves_width(line.type) and line.type.valid[1] != DYNAMIC:
            # The last piece of a row; what lies behind it is outside of the valid region.
            source, goal = self._buffers.whole_rows(source), self._buffers.whole_rows(goal)
        self._buffers.move_part(name, source, place, goal)

    def _line(self, kind: TileBufType, length: ir.Value) -> TileRef:
        return self._buffers.allocate(kind, (None, length if kind.valid[1] == DYNAMIC else None))

    def _visit(
        self,
        tensor: ir.Value,
        offsets: Sequence[ir.Value],
        sizes: Sequence[ir.Value],
        tile: TileBufType,
        move: Callable[[tuple[ir.Value, ir.Value] | None, ir.Value, TileBufType, ir.Value], None],
    ) -> None:
        """Move every piece of the rows of a box.

        Args:
            move: takes the piece's row and column in the tile, or None where it is all of the tile; its box; its
                buffer's type; its length.
        """
        emitter = self._emitter
        one = emitter.index(1)
        leading = [axis for axis, size in enumerate(sizes[:-1]) if constant(size) != 1]

        def piece(row: ir.Value | None, base: list[ir.Value], start: ir.Value | None, length: ir.Value) -> None:
            number = constant(length)
            shape = (1, number or min(tile.shape[1], _LONGEST))
            kind = buffer_type(TileType(shape, tile.dtype, Space.VEC, (1, number or DYNAMIC)), self._target)
            end = base[-1] if start is None else emitter.arith("addi", base[-1], start)
            box = self._tensors.box(tensor, TURNED, [*base[:-1], end], [one] * (len(base) - 1) + [length])
            zero = emitter.index(0)
            place = None if row is None and start is None else (row or zero, start or zero)
            move(place, box, kind, length)

        def rows(axes: list[int], row: ir.Value | None, base: list[ir.Value]) -> None:
            if not axes:
                self._pieces(sizes[-1], tile.shape[1], lambda start, length: piece(row, base, start, length))
                return
            axis, *rest = axes
            with self._loop(sizes[axis], one) as index:
                moved = [*base]
                moved[axis] = emitter.arith("addi", base[axis], index)
                inner = index
                if row is not None:
                    inner = emitter.arith("addi", emitter.arith("muli", row, sizes[axis]), index)
                rows(rest, inner, moved)

        rows(leading, None, list(offsets))

    def _pieces(self, count: ir.Value, width: int, move: Callable[[ir.Value | None, ir.Value], None]) -> None:
        """Visit the pieces of a row: where each starts, None for the only one, and its length."""
        emitter, number = self._emitter, constant(count)
        if width <= _LONGEST or (number is not None and number <= _LONGEST):
            move(None, count)
            return
        longest = emitter.index(_LONGEST)
        if number is None:
            with self._loop(count, longest) as start:
                move(start, emitter.arith("minsi", longest, emitter.arith("subi", count, start)))
            return
        whole = number // _LONGEST * _LONGEST
        with self._loop(emitter.index(whole), longest) as start:
            move(start, longest)
        if whole < number:
            move(emitter.index(whole), emitter.index(number - whole))

    @contextmanager
    def _loop(self, end: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
        emitter = self._emitter
        loop = emitter.emit("scf.for", [emitter.index(0), end, step], regions=1)
        block = loop.regions[0].blocks.append(emitter.types.index, arg_locs=[emitter.location])
        with emitter.inside(block):
            yield block.arguments[0]
            emitter.emit("scf.yield")
