"""The cube's instructions: moves into Left and Right, and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INT8
from pypto_jit.lowering.cpu.cube_tiles import emit_pack_left, emit_pack_right, emit_tile_product, has_tiles
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.matmul import CubeBuffer, Piece, emit_matmul, minimum
from pypto_jit.lowering.cpu.packing import Source, emit_move_to_left, emit_move_to_right
from pypto_jit.lowering.cpu.planes import box_plane
from pypto_jit.lowering.cpu.program import Box, Instruction, Tile
from pypto_jit.lowering.cpu.row_products import emit_row_product
from pypto_jit.lowering.cpu.staging import is_transposed
from pypto_jit.lowering.cpu.transfer import box_address, check_box, copy_elements, tile_area
from pypto_jit.targets import Space


def emit_move(frame: Frame, instruction: Instruction) -> None:
    """A move from Mat into Left or Right; element by element where it goes elsewhere."""
    source, result = instruction.tile("src"), instruction.result
    if result.space in (Space.LEFT, Space.RIGHT):
        _emit_move(frame, instruction, Source(frame.address(source), source.dtype, source.strides, padded=True))
        return
    rows, columns = _extents(frame, instruction)
    copy_elements(frame, tile_area(frame, source), tile_area(frame, result), rows, columns)


def emit_lent_left(frame: Frame, instruction: Instruction, load: Instruction) -> None:
    """A move into Left of what global memory has in the same form (`staging.Staging.in_place`): it stays there.

    Where the box is not known to lie within its tensor, it moves.
    """
    _from_box(
        frame,
        instruction,
        load,
        lambda source: _emit_move(frame, instruction, source),
        lambda source: frame.lend(instruction.result, source.address),
    )


def emit_staged_move(frame: Frame, instruction: Instruction, load: Instruction, *, as_rows: bool = False) -> None:
    """A move into Left or Right that reads the box of a load itself (`staging.find_staging`).

    The load's bounds are checked here; nothing moves where the check fails.

    Args:
        frame: the function.
        instruction: the move.
        load: of what it moves.
        as_rows: whether Left takes rows of float32 even where tile registers multiply its dtype.
    """
    _from_box(frame, instruction, load, lambda source: _emit_move(frame, instruction, source, as_rows=as_rows))


def _from_box(
    frame: Frame,
    move: Instruction,
    load: Instruction,
    emit: Callable[[Source], None],
    certain: Callable[[Source], None] | None = None,
) -> None:
    """Emit what reads the box of a load as a move sees it, once the box is known to lie within its tensor.

    Args:
        frame: the function.
        move, load: where it goes, and comes from.
        emit: what reads it.
        certain: what to do instead where that is known while compiling.
    """
    box = load.operands["partition"]
    assert isinstance(box, Box)
    condition = check_box(frame, load, box, load.result)
    plane = box_plane(box, load.result)
    assert plane is not None
    rows, columns = frame.number(plane.row_stride), frame.number(plane.column_stride)
    strides = (columns, rows) if is_transposed(load.result, move.tile("src")) else (rows, columns)
    source = Source(box_address(frame, box), box.view.dtype, strides, padded=False)
    if condition is None:
        (certain or emit)(source)
    else:
        frame.e.when(condition, lambda: emit(source))


def emit_rows_to_left(frame: Frame, instruction: Instruction, load: Instruction | None) -> None:
    """A move into the Left of a product of few rows, which takes rows of float32 (`streams.find_streams`).

    Args:
        frame: the function.
        instruction: the move.
        load: of what it moves, where it reads global memory itself.
    """
    if load is None:
        source = instruction.tile("src")
        given = Source(frame.address(source), source.dtype, source.strides, padded=True)
        _emit_move(frame, instruction, given, as_rows=True)
    else:
        emit_staged_move(frame, instruction, load, as_rows=True)


def emit_streamed_product(frame: Frame, instruction: Instruction, load: Instruction, move: Instruction) -> None:
    """A product of few rows that reads the box of a load as its right operand.

    The load's bounds are checked here; nothing is multiplied where the check fails.

    Args:
        frame: the function.
        instruction: the product.
        load, move: those of its right operand.
    """
    extents, bias = _begin(frame, instruction)
    left, acc = _buffer(frame, instruction.tile("lhs")), _buffer(frame, instruction.result)
    rows, *rest = extents
    assert isinstance(rows, int)
    accumulate = instruction.row.rule == "matmul_acc"

    def emit(source: Source) -> None:
        emit_row_product(frame.e, left, source, acc, (rows, rest[0], rest[1]), accumulate=accumulate, bias=bias)

    _from_box(frame, move, load, emit)


def emit_part(frame: Frame, instruction: Instruction, offset: Extent) -> None:
    """A part of a Mat tile, from some bytes into it on, moves into Left or Right."""
    tile, result = instruction.tile("src"), instruction.result
    source = Source(frame.address(tile, offset), tile.dtype, tile.strides, padded=False)
    rows, columns = (frame.bounded(v, s) for v, s in zip(result.valid, result.type.shape, strict=True))
    _pack(frame, result, source, (rows, columns))


def _emit_move(frame: Frame, instruction: Instruction, source: Source, *, as_rows: bool = False) -> None:
    tile, result = instruction.tile("src"), instruction.result
    if tile.type.shape != result.type.shape:
        source = Source(source.address, source.dtype, source.strides, padded=False)
    _pack(frame, result, source, _extents(frame, instruction), as_rows=as_rows)


def _pack(frame: Frame, result: Tile, source: Source, extents: tuple[Extent, Extent], *, as_rows: bool = False) -> None:
    if has_tiles(frame.e.cpu, result.type.dtype) and not as_rows:
        emit = emit_pack_left if result.space is Space.LEFT else emit_pack_right
    else:
        emit = emit_move_to_left if result.space is Space.LEFT else emit_move_to_right
    emit(frame.e, source, _buffer(frame, result), extents)


def _extents(frame: Frame, instruction: Instruction) -> tuple[Extent, Extent]:
    """Valid rows and columns of a move, certainly within both buffers."""
    tile, limits = instruction.tile("src"), instruction.result.type.shape
    rows, columns = (
        _bounded(frame, valid, min(extent, limit))
        for valid, extent, limit in zip(tile.valid, tile.type.shape, limits, strict=True)
    )
    return rows, columns


def _bounded(frame: Frame, extent: Extent, limit: int) -> Extent:
    """An extent as a number not above a limit; the limit itself where the extent certainly reaches it."""
    return limit if frame.ranges.at_most(limit, extent) else frame.bounded(extent, limit)


def emit_product(frame: Frame, instruction: Instruction, earlier: Sequence[Instruction] = ()) -> None:
    """A matrix product, added to an accumulator or a row of biases where the instruction has one.

    Args:
        frame: the function.
        instruction: the product.
        earlier: products that it adds to, and that are computed with it (`joined.find_joined`).
    """
    first, *others = *earlier, instruction
    extents, bias = _begin(frame, first)
    left, right = _operands(frame, first)
    acc = _buffer(frame, first.result)
    dtype, accumulate = first.tile("lhs").type.dtype, first.row.rule == "matmul_acc"
    if has_tiles(frame.e.cpu, dtype):
        emit_tile_product(frame.e, left, right, acc, extents, dtype, accumulate=accumulate, bias=bias)
        return
    more = [Piece(*_operands(frame, each), _depth(frame, each)) for each in others]
    integer = dtype == INT8
    emit_matmul(frame.e, left, right, acc, extents, integer=integer, accumulate=accumulate, bias=bias, more=more)


def _operands(frame: Frame, instruction: Instruction) -> tuple[CubeBuffer, CubeBuffer]:
    return _buffer(frame, instruction.tile("lhs")), _buffer(frame, instruction.tile("rhs"))


def _begin(frame: Frame, instruction: Instruction) -> tuple[tuple[Extent, Extent, Extent], ir.Value | None]:
    """The valid extents of a product, whose accumulator is where its result will be, and the address of its biases."""
    lhs, rhs, result = instruction.tile("lhs"), instruction.tile("rhs"), instruction.result
    m = _within(frame, lhs.valid[0], result.valid[0], result.type.shape[0])
    n = _within(frame, rhs.valid[1], result.valid[1], result.type.shape[1])
    k = _depth(frame, instruction)
    rule = instruction.row.rule
    if rule == "matmul_acc" and frame.program.position(instruction.tile("acc")) != frame.program.position(result):
        copy_elements(frame, tile_area(frame, instruction.tile("acc")), tile_area(frame, result), m, n)
    return (m, k, n), frame.address(instruction.tile("bias")) if rule == "matmul_bias" else None


def _depth(frame: Frame, instruction: Instruction) -> Extent:
    lhs, rhs = instruction.tile("lhs"), instruction.tile("rhs")
    return _within(frame, lhs.valid[1], rhs.valid[0], min(lhs.type.shape[1], rhs.type.shape[0]))


def _within(frame: Frame, extent: Extent, other: Extent, limit: int) -> Extent:
    """The smaller of two extents that agree in a correct kernel, and not above a limit."""
    number = _bounded(frame, extent, limit)
    return number if extent == other else minimum(frame.e, number, _bounded(frame, other, limit))


def _buffer(frame: Frame, tile: Tile) -> CubeBuffer:
    return CubeBuffer(frame.address(tile), *tile.type.shape)
