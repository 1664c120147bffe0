"""Moves into Left and Right on the CPU: convert to float32 and lay out as the matrix product reads.

A move reads a Mat tile buffer, or global memory directly where the Mat tile in between has no other reader. Left is one
row-major float32 matrix and every panel of Right is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu.convert import stored, widen
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.matmul import CubeBuffer, Panels, blocking_for, minimum, panels
from pypto_jit.lowering.cpu.outline import call_shared

_F32 = 4
_UNROLLED_VECTORS = 4
_CACHE_LINE = 64
# How many rows ahead of the one being moved global memory is prefetched: rows lie pages apart, so hardware does not.
_ROWS_AHEAD = 8


@dataclass(frozen=True)
class Source:
    """A matrix to move: element ``(row, column)`` lies ``row * strides[0] + column * strides[1]`` elements in.

    Attributes:
        address: ``!llvm.ptr`` to the first element.
        dtype: FP32, FP16, BF16 or INT8.
        strides: of a row and of a column, in elements.
        padded: whether elements outside the valid region, up to the destination's physical extents, may be read.
    """

    address: ir.Value
    dtype: DType
    strides: tuple[Extent, Extent]
    padded: bool

    def at(self, e: Emitter, row: Extent, column: Extent) -> ir.Value:
        """The address of an element."""
        offset = e.add(e.mul(row, self.strides[0]), e.mul(column, self.strides[1]))
        return e.address(self.address, e.mul(offset, self.dtype.bytes))


def emit_move_to_left(e: Emitter, source: Source, left: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    """Emit the move of a source's valid ``(m, k)`` elements into Left. Nothing moves where an extent is 0."""
    _emit_shared(e, "left", source, left, extents, _move_left)


def emit_move_to_right(e: Emitter, source: Source, right: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    """Emit the move of a source's valid ``(k, n)`` elements into the panels of Right (`matmul.panels`)."""
    _emit_shared(e, "right", source, right, extents, _move_right)


Move = Callable[[Emitter, Source, CubeBuffer, tuple[Extent, Extent]], None]


def _emit_shared(
    e: Emitter, to: str, source: Source, buffer: CubeBuffer, extents: tuple[Extent, Extent], move: Move
) -> None:
    def body(inner: Emitter, arguments: list[Extent]) -> None:
        start, row_stride, column_stride, target, rows, columns, *valid = arguments
        given = Source(start, source.dtype, (row_stride, column_stride), source.padded)
        destination = CubeBuffer(target, rows, columns)
        by_orientation(inner, given, lambda known: move(inner, known, destination, (valid[0], valid[1])))

    name = f"move_{to}_{source.dtype.mlir}_{'tile' if source.padded else 'memory'}"
    arguments = [source.address, *source.strides, buffer.address, buffer.rows, buffer.columns, *extents]
    call_shared(e, name, arguments, body)


def by_orientation(e: Emitter, source: Source, emit: Callable[[Source], None]) -> None:
    """Emit a move for each orientation that strides known only at run time may turn out to have."""
    rows, columns = source.strides

    def any_rows() -> None:
        _if_one(e, rows, lambda: emit(replace(source, strides=(1, columns))), lambda: emit(source))

    if _is_one(rows):
        emit(source)
    else:
        _if_one(e, columns, lambda: emit(replace(source, strides=(rows, 1))), any_rows)


def _if_one(e: Emitter, stride: Extent, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    if isinstance(stride, int):
        (then if stride == 1 else otherwise)()
    else:
        e.when(e.compare("eq", stride, e.constant(1, "i64")), then, otherwise)


def _move_left(e: Emitter, source: Source, left: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    rows, columns = extents
    if not _is_one(source.strides[1]):
        _move_across(e, source, left.address, left.columns, extents)
        return

    def copy(row: ir.Value) -> None:
        target = e.address(left.address, e.mul(row, left.columns * _F32))
        _Line(e, source, source.at(e, row, 0), target).copy(columns)

    e.each(0, rows, 1, copy)


def _move_right(e: Emitter, source: Source, right: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    rows, columns = extents
    blocking = blocking_for(e.cpu)
    runs = panels(right.columns, blocking)
    if not _is_one(source.strides[1]):
        for run in runs:
            _move_panels_across(e, source, right, run, extents)
        return

    def copy_row(row: ir.Value) -> None:
        first = source.at(e, row, 0)
        for run in runs:
            width = run.vectors * blocking.lanes
            row_target = e.address(right.address, e.mul(row, width * _F32))
            stop = minimum(e, run.stop, columns)
            # A panel is read whole where its padding may be read too; else the last one is read as far as it goes.
            whole = stop if source.padded else e.add(run.start, _whole(e, e.sub(stop, run.start), width))

            def line(column: ir.Value, row_target: ir.Value = row_target) -> _Line:
                start = e.address(first, e.mul(column, source.dtype.bytes))
                return _Line(e, source, start, e.address(row_target, e.mul(column, right.rows * _F32)))

            e.each(run.start, whole, width, lambda column, line=line, width=width: line(column).copy(width))
            if not source.padded:
                e.each(whole, stop, width, lambda column, line=line: line(column).copy(e.sub(columns, column)))

    # Row by row across all panels: global memory is read in the order it lies in.
    e.each(0, rows, 1, copy_row)


def _move_panels_across(
    e: Emitter, source: Source, right: CubeBuffer, run: Panels, extents: tuple[Extent, Extent]
) -> None:
    rows, columns = extents
    width = run.vectors * e.lanes

    def panel(column: ir.Value) -> None:
        inside = minimum(e, e.sub(columns, column), width)
        target = e.address(right.address, e.mul(e.mul(column, right.rows), _F32))
        _move_across(e, replace(source, address=source.at(e, 0, column)), target, width, (rows, inside))

    e.each(run.start, minimum(e, run.stop, columns), width, panel)


def _is_one(stride: Extent) -> bool:
    return isinstance(stride, int) and stride == 1


def _whole(e: Emitter, count: Extent, unit: int) -> Extent:
    """The count rounded to a multiple of the unit toward zero."""
    if isinstance(count, int):
        return max(0, count) // unit * unit
    return e.mul(e.same("arith.divsi", count, e.constant(unit, "i64")), unit)


@dataclass(frozen=True)
class _Line:
    """Consecutive elements of a row of a source, from an address on, and where they go as float32."""

    e: Emitter
    source: Source
    first: ir.Value
    target: ir.Value

    def copy(self, count: Extent) -> None:
        """Copy so many elements, rounded up to whole vectors where padding may be read."""
        e, lanes = self.e, self.e.lanes
        if self.source.padded and isinstance(count, int):
            count = -(-count // lanes) * lanes
        vectors = count if self.source.padded else _whole(e, count, lanes)
        at_once = 1
        if isinstance(vectors, int):
            total = vectors // lanes
            at_once = next(d for d in range(_UNROLLED_VECTORS, 0, -1) if total % d == 0)
        if isinstance(vectors, int) and vectors == at_once * lanes:
            self._vectors(0, at_once)
        else:
            e.each(0, vectors, at_once * lanes, lambda offset: self._vectors(offset, at_once))
        if not self.source.padded:
            e.each(vectors, count, 1, self._scalar)

    def _vectors(self, offset: Extent, count: int) -> None:
        e, dtype = self.e, self.source.dtype
        step = e.lanes * dtype.bytes
        first, target = self._at(offset)
        if not self.source.padded:
            ahead = e.address(first, e.mul(self.source.strides[0], _ROWS_AHEAD * dtype.bytes))
            for byte in range(0, count * step, _CACHE_LINE):
                _prefetch(e, e.address(ahead, byte))
        for k in range(count):
            loaded = e.load(e.address(first, k * step), stored(dtype), e.lanes)
            e.store(to_float32(e, loaded, dtype), e.address(target, k * e.lanes * _F32))

    def _scalar(self, offset: Extent) -> None:
        first, target = self._at(offset)
        loaded = self.e.load(first, stored(self.source.dtype))
        self.e.store(to_float32(self.e, loaded, self.source.dtype), target)

    def _at(self, offset: Extent) -> tuple[ir.Value, ir.Value]:
        e, size = self.e, self.source.dtype.bytes
        return e.address(self.first, e.mul(offset, size)), e.address(self.target, e.mul(offset, _F32))


def _prefetch(e: Emitter, address: ir.Value) -> None:
    read, keep, data = e.number(0, 32), e.number(3, 32), e.number(1, 32)
    e.effect("llvm.intr.prefetch", address, rw=read, hint=keep, cache=data)


def _move_across(e: Emitter, source: Source, target: ir.Value, stride: int, extents: tuple[Extent, Extent]) -> None:
    """Move a matrix whose rows do not lie consecutively to a row-major one, in square blocks where its columns do."""
    rows, columns = extents
    lanes, dtype = e.lanes, source.dtype

    def to(row: Extent, column: Extent) -> ir.Value:
        return e.address(target, e.mul(e.add(e.mul(row, stride), column), _F32))

    def elements(first: Extent) -> None:
        def element(row: ir.Value, column: ir.Value) -> None:
            loaded = e.load(source.at(e, row, column), stored(dtype))
            e.store(to_float32(e, loaded, dtype), to(row, column))

        e.each(first, rows, 1, lambda row: e.each(0, columns, 1, lambda column: element(row, column)))

    if not _is_one(source.strides[0]):
        elements(0)
        return
    whole = rows if source.padded else _whole(e, rows, lanes)
    clamped = not source.padded and not (isinstance(columns, int) and columns % lanes == 0)

    def block(row: ir.Value, column: ir.Value) -> None:
        pitch = e.value(e.mul(source.strides[1], dtype.bytes))
        last = e.value(e.sub(e.sub(columns, 1), column) if clamped else lanes)
        arguments = [source.at(e, row, column), pitch, last, to(row, column), e.value(stride * _F32)]
        # A function of its own: each address in a loop costs the code generator far more than a call costs here.
        name = f"transpose_{dtype.mlir}_{'tile' if source.padded else 'memory'}"
        call_shared(e, name, arguments, lambda inner, given: _transpose(inner, source, given))

    e.each(0, columns, lanes, lambda column: e.each(0, whole, lanes, lambda row: block(row, column)))
    if not source.padded:
        elements(whole)


def _transpose(e: Emitter, source: Source, arguments: list[Extent]) -> None:
    """Move a square block: its address, bytes from column to column, the last column to read, then target and pitch."""
    first, pitch, last, target, target_pitch = (e.value(a) for a in arguments)
    loaded = []
    for k in range(e.lanes):
        # Beyond the last column of global memory the last one is read again: it is there, and lands in padding.
        at = e.same("arith.minsi", e.constant(k, "i64"), last)
        address = e.address(first, e.mul(at, pitch))
        if not source.padded:
            _prefetch(e, e.address(address, e.mul(pitch, e.lanes)))
        loaded.append(to_float32(e, e.load(address, stored(source.dtype), e.lanes), source.dtype))
    for transposed in transpose_block(e, loaded):
        e.store(transposed, target)
        target = e.address(target, target_pitch)


def transpose_block(e: Emitter, block: list[ir.Value]) -> list[ir.Value]:
    """The transpose of a square block given as its rows, a power of two many, by perfect shuffles.

    Interleaving row ``i`` with row ``i + n/2``, log2(n) times over, exchanges the bits of the row with those of the
    column.
    """
    count = len(block)
    low = ", ".join(str(k // 2 + count * (k % 2)) for k in range(count))
    high = ", ".join(str(k // 2 + count * (k % 2) + count // 2) for k in range(count))
    masks = [e.parsed(f"array<i64: {mask}>") for mask in (low, high)]
    for _ in range(count.bit_length() - 1):
        pairs = zip(block[: count // 2], block[count // 2 :], strict=True)
        block = [e.op("vector.shuffle", a.type, a, b, mask=mask) for a, b in pairs for mask in masks]
    return block


def to_float32(e: Emitter, loaded: ir.Value, dtype: DType) -> ir.Value:
    """A stored scalar or vector as float32, which holds every value of the dtype exactly."""
    return widen(e, loaded, dtype) if dtype.is_float else e.cast("sitofp", loaded, "f32")
