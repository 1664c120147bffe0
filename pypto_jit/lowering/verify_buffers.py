"""The semantic verifier of the ``pto`` dialect: what the machine can execute. The assembler checks less."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import INSTRUCTIONS, Instruction, Operator
from pypto_jit.dialects.types import DYNAMIC, PartitionType, TileBufType
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32, UINT8
from pypto_jit.errors import CapacityError, DTypeError, InternalError, LayoutError, PyptoError, ShapeError
from pypto_jit.lowering.attributes import number, text
from pypto_jit.lowering.cores import KIND, MIXED
from pypto_jit.lowering.layouts import cube_edge
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.padding import alike
from pypto_jit.lowering.tree import Node
from pypto_jit.targets import COLUMN_VECTOR, ROW_ALIGNMENT, ROW_MAJOR, ZN, Space, Target

# The cube takes extents of 1 to 4095 (ptoas, tmatmul).
MATMUL_LIMIT = 4095
_CUBE = frozenset({Space.MAT, Space.LEFT, Space.RIGHT, Space.ACC, Space.BIAS})


def verify_buffers(module: ir.Operation, lowering: Lowering, *, planned: bool) -> None:
    """Check every function of a module in the ``pto`` dialect.

    Args:
        module: the module.
        lowering: target and types.
        planned: whether addresses must be there.

    Raises:
        DTypeError, ShapeError, LayoutError, CapacityError: an operation the machine cannot execute, with its line.
    """
    checked = lowering.types.verified
    for function, body in lowering.bodies(module):
        mixed = MIXED in function.attributes
        kind = text(function, KIND)
        for node in body.walk():
            if planned and node.name == "pto.alloc_tile":
                _check_address(node, lowering.types.buffer(node.results[0]), lowering.target)
            elif planned and node.name == "pto.treshape":
                raise InternalError("a view of a tile buffer is left in the plan", span=node.span)
            key = (lowering.target.name, mixed, kind, node.name, *(v.type for v in node.operands + node.results))
            if "atomic" in node.op.attributes:
                key = (*key, text(node.op, "atomic"))
            if key in checked:
                continue
            try:
                _check(node, lowering, mixed, kind)
            except PyptoError as error:
                error.span = error.span or node.span
                raise
            checked.add(key)


def _check(node: Node, lowering: Lowering, mixed: bool, kind: str | None) -> None:
    if not node.name.startswith("pto."):
        if node.row is not None:
            raise InternalError(f"{node.name} is left in the pto dialect")
        return
    if node.name in ("pto.alloc_tile", "pto.treshape"):
        buffer = lowering.types.buffer(node.results[0])
        extents = len(node.operands) - (node.name == "pto.treshape")
        if extents != sum(v == DYNAMIC for v in buffer.valid):
            raise InternalError(
                "a tile buffer has another number of valid extents than its type says", found=str(buffer)
            )
        check_buffer(buffer, lowering.target)
        return
    rows = INSTRUCTIONS.get(node.name[4:])
    if rows is None:
        return
    instruction = rows[0].instruction
    assert instruction is not None
    kinds = [lowering.types.of(v) for v in node.operands]
    buffers = [k for k in kinds if isinstance(k, TileBufType)]
    _check_core(node, instruction, buffers, mixed, kind)
    _CHECKS.get(rows[0].rule, _check_vector)(rows, kinds, buffers, lowering.target)
    box = kinds[-1]
    if text(node.op, "atomic") == "add" and isinstance(box, PartitionType) and box.dtype not in lowering.target.atomics:
        raise DTypeError(f"{lowering.target.name} adds no {box.dtype} in global memory", found=node.name)
    if rows[0].name == "move" and (buffers[0].space, buffers[1].space) in lowering.target.crossings and not mixed:
        raise LayoutError("a move between the cube and the vector core outside of a mixed kernel", found=node.name)


def check_buffer(buffer: TileBufType, target: Target) -> None:
    """Raise unless the target can hold such a buffer: layout, padding to 32 bytes and to whole boxes, valid region."""
    rows, columns = buffer.shape
    layout, size = buffer.layout, buffer.dtype.bytes
    if any(v != DYNAMIC and not 0 <= v <= s for v, s in zip(buffer.valid, buffer.shape, strict=True)):
        raise ShapeError("a valid region does not lie in its buffer", found=str(buffer))
    allowed = {target.layouts[buffer.space]}
    if buffer.space is Space.VEC:
        allowed.add(COLUMN_VECTOR)
    elif buffer.space is Space.MAT:
        allowed |= {ZN, ROW_MAJOR}
    if layout not in allowed or (layout == COLUMN_VECTOR and columns != 1):
        raise LayoutError(f"{target.name} has no such layout in {buffer.space.name.capitalize()}", found=str(buffer))
    if layout.slayout == "none_box":
        line = (columns if layout.blayout == "row_major" else rows) * size
        if line % ROW_ALIGNMENT:
            raise LayoutError("rows are not a multiple of 32 bytes", found=f"{line} bytes in {buffer}")
        if buffer.space is not Space.VEC and rows != 1:
            raise LayoutError("only one row lies unboxed outside of Vec", found=str(buffer))
        return
    edge = cube_edge(buffer.dtype, buffer.space)
    if rows % edge or columns % edge:
        raise LayoutError(f"a cube tile is not a multiple of {edge} in both extents", found=str(buffer))


def _check_address(node: Node, buffer: TileBufType, target: Target) -> None:
    address = number(node.op, "addr")
    if address is None or number(node.op, "buffer") is None:
        raise InternalError("a tile buffer without an address", span=node.span)
    if address % target.alignment[buffer.space]:
        raise LayoutError("a misaligned tile buffer", found=address, expected=f"x {target.alignment[buffer.space]}")
    if not 0 <= address <= target.capacity[buffer.space] - buffer.bytes:
        raise CapacityError("a tile buffer outside of its memory", found=f"{address} + {buffer.bytes} bytes")


def _check_core(
    node: Node, instruction: Instruction, buffers: list[TileBufType], mixed: bool, kind: str | None
) -> None:
    core = instruction.core
    if core == "any":
        core = "cube" if any(b.space in _CUBE for b in buffers) else "vector"
    if not mixed and kind is not None and core != kind:
        raise LayoutError(f"{core} work in a {kind} kernel", found=node.name)


Kinds = list
_Rows = tuple[Operator, ...]


_OF_ROWS = frozenset({"row_reduction", "row_index"})
_OF_COLUMNS = frozenset({"column_reduction", "column_index"})
_INDEX_RULES = frozenset({"row_index", "column_index"})


def _check_vector(
    rows: _Rows,
    kinds: Kinds,
    buffers: list[TileBufType],
    target: Target,
    inputs: tuple[str, ...] | None = None,
) -> None:
    """Elementwise, reductions, expansions, casts, transposes: one dtype in, everything in Vec, rows row-major."""
    row = rows[0]
    for buffer in buffers:
        if buffer.space is not Space.VEC:
            raise LayoutError(f"{row.name} works in Vec", found=str(buffer))
    *sources, result = buffers
    first = sources[0] if sources else result
    if not any(first.dtype in r.dtypes[target.name] for r in rows):
        raise DTypeError(f"{row.name} does not take {first.dtype} on {target.name}", found=str(first))
    if row.rule == "cast":
        if result.dtype not in target.casts.get(first.dtype, ()):
            raise DTypeError(f"{target.name} has no conversion from {first.dtype} to {result.dtype}")
    elif row.rule in _INDEX_RULES:
        if any(s.dtype != first.dtype for s in sources) or result.dtype != INT32:
            raise DTypeError(f"{row.name} gives INT32 of elements of one dtype", found=", ".join(map(str, buffers)))
    elif any(s.dtype != result.dtype for s in sources):
        raise DTypeError(f"the operands of {row.name} have several dtypes", found=", ".join(map(str, buffers)))
    instruction = row.instruction
    assert instruction is not None
    names = (*(instruction.inputs if inputs is None else inputs), "dst")
    tiles = [name for name, kind in zip(names, kinds, strict=True) if kind in buffers]
    for name, buffer in zip(tiles, buffers, strict=True):
        column = (name == "vector" and row.rule == "row_expand") or (name == "dst" and row.rule in _OF_ROWS)
        if buffer.is_column_vector and not column:
            raise LayoutError(f"{row.name} takes '{name}' in rows", found=str(buffer))
        if not buffer.is_column_vector and name == "vector" and row.rule == "row_expand":
            raise LayoutError(f"{row.name} takes its vector as a column", found=str(buffer))
    named = dict(zip(tiles, buffers, strict=True))
    _check_alike(row, named, target)
    _check_shapes(row, named)


def _check_alike(row: Operator, named: dict[str, TileBufType], target: Target) -> None:
    shapes = {named[name].shape for name in (*alike(row, target), "dst") if name in named}
    if len(shapes) > 1:
        raise ShapeError(f"{row.name} takes buffers of one shape", found=", ".join(map(str, named.values())))


def _check_shapes(row: Operator, named: dict[str, TileBufType]) -> None:
    result = named["dst"]
    whole = [b for name, b in named.items() if name not in ("dst", "vector", "tmp")]
    if row.rule in ("elementwise", "cast", "row_expand", "col_expand"):
        _agree(row, [*(b.valid for b in whole), result.valid])
    vector = named.get("vector")
    if row.rule == "row_expand" and vector is not None:
        _agree(row, [vector.valid[:1], result.valid[:1]])
    elif row.rule == "col_expand" and vector is not None:
        _agree(row, [vector.valid[1:], result.valid[1:]])
    elif row.rule in _OF_ROWS:
        _agree(row, [whole[0].valid[:1], result.valid[:1]])
        _agree(row, [result.valid[1:], (1,)])
    elif row.rule in _OF_COLUMNS:
        _agree(row, [whole[0].valid[1:], result.valid[1:]])
    elif row.rule == "transpose":
        _agree(row, [whole[0].valid[::-1], result.valid])


def _agree(row: Operator, regions: list[tuple[int, ...]]) -> None:
    for extents in zip(*regions, strict=True):
        if len({e for e in extents if e != DYNAMIC}) > 1:
            raise ShapeError(f"the valid regions of {row.name} do not agree", found=regions)


def _check_transfer(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    row, buffer = rows[0], buffers[0]
    box = next(k for k in kinds if isinstance(k, PartitionType))
    spaces = (Space.VEC, Space.MAT) if row.name == "load" else (Space.VEC, Space.MAT, Space.ACC)
    if buffer.space not in spaces:
        raise LayoutError(f"{row.name} cannot reach {buffer.space.name.capitalize()}", found=str(buffer))
    narrowing = buffer.space is Space.ACC and buffer.dtype == FP32 and box.dtype in (FP16, BF16)
    if buffer.dtype != box.dtype and not narrowing:
        raise DTypeError(f"{row.name} does not convert", found=f"{buffer} and {box}")
    if buffer.dtype not in row.dtypes[target.name]:
        raise DTypeError(f"{row.name} does not take {buffer.dtype} on {target.name}")


def _check_move(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    source, result = buffers
    pair = (source.space, result.space)
    if pair not in target.moves and pair not in target.crossings:
        names = " to ".join(space.name.capitalize() for space in pair)
        raise LayoutError(f"{target.name} cannot move a tile from {names}", found=str(source))
    widens = result.space is Space.BIAS and (source.dtype, result.dtype) == (FP16, FP32)
    if source.dtype != result.dtype and not widens:
        raise DTypeError("a move does not convert", found=f"{source} to {result}")
    # Between the cores the padding changes; no instruction does that move, and mixed kernels only run on the CPU.
    if source.shape != result.shape and pair not in target.crossings:
        raise ShapeError("a move keeps the shape", found=f"{source} to {result}")
    _agree(rows[0], [source.valid, result.valid])
    if pair == (Space.VEC, Space.VEC) and source.is_column_vector:
        raise LayoutError("a move within Vec takes rows", found=str(source))


def _check_counting(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    scratch, result = buffers
    _check_vector(rows, [kinds[0], result], [result], target, ("scalar",))
    if scratch.space is not Space.VEC or scratch.dtype != FP32:
        raise DTypeError("the scratch of ci has floats in Vec", found=str(scratch))


def _check_matmul(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    row = rows[0]
    assert row.instruction is not None
    named = dict(zip((*row.instruction.inputs, "dst"), buffers, strict=True))
    places = {"lhs": Space.LEFT, "rhs": Space.RIGHT, "acc": Space.ACC, "bias": Space.BIAS, "dst": Space.ACC}
    for name, buffer in named.items():
        if buffer.space is not places[name]:
            raise LayoutError(f"{row.name} takes '{name}' from {places[name].name.capitalize()}", found=str(buffer))
    lhs, rhs, result = named["lhs"], named["rhs"], named["dst"]
    accumulator = INT32 if lhs.dtype == INT8 else FP32
    if lhs.dtype != rhs.dtype or result.dtype != accumulator or lhs.dtype not in (FP32, FP16, BF16, INT8):
        raise DTypeError(f"{row.name} does not take these dtypes", found=f"{lhs.dtype}, {rhs.dtype} to {result.dtype}")
    if (lhs.shape[0], rhs.shape[1]) != result.shape or lhs.shape[1] != rhs.shape[0]:
        raise ShapeError(f"the operands of {row.name} do not fit", found=f"{lhs}, {rhs}, {result}")
    _agree(row, [(lhs.valid[0], lhs.valid[1], rhs.valid[1]), (result.valid[0], rhs.valid[0], result.valid[1])])
    if max(*lhs.valid, *rhs.valid) > MATMUL_LIMIT:
        raise ShapeError(f"{row.name} takes extents up to {MATMUL_LIMIT}", found=f"{lhs.valid}, {rhs.valid}")
    for name in ("acc", "bias"):
        extra = named.get(name)
        if extra is not None and (extra.dtype != result.dtype or extra.shape[1] != result.shape[1]):
            raise ShapeError(f"the {name} of {row.name} does not fit the product", found=f"{extra}, {result}")


def _check_fillpad(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    source, result = buffers
    _check_vector(rows, kinds, buffers, target)
    if not result.pad:
        raise LayoutError("fillpad fills with something", found=str(result))
    if any(new < old for new, old in zip(result.shape, source.shape, strict=True)):
        raise ShapeError("fillpad gives at least the buffer's shape", found=f"{source} to {result}")


# Between which memories a part of a tile moves, with its element types (ptoas v0.57, textract and tinsert).
_PART_MOVES = {
    "extract": ((Space.VEC, Space.VEC), (Space.MAT, Space.LEFT), (Space.MAT, Space.RIGHT)),
    "insert": ((Space.VEC, Space.VEC), (Space.ACC, Space.MAT)),
}


def _check_part(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    row = rows[0]
    source, result = buffers
    pair = (source.space, result.space)
    if pair not in _PART_MOVES[row.name]:
        names = " to ".join(space.name.capitalize() for space in pair)
        raise LayoutError(
            f"{target.name} moves no part of a tile from {names}",
            found=str(source),
            hint="use a part of a Mat tile as an operand of a matmul" if pair[0] is Space.MAT else None,
        )
    narrowing = pair == (Space.ACC, Space.MAT) and source.dtype == FP32 and result.dtype in (FP16, BF16)
    if source.dtype != result.dtype and not narrowing:
        raise DTypeError(f"{row.name} does not convert", found=f"{source} to {result}")
    if pair == (Space.ACC, Space.MAT) and not narrowing and not (target.inserts_fp32 and source.dtype == FP32):
        raise DTypeError(
            f"{target.name} writes a part of a Mat tile in FP16 or BF16",
            found=str(result),
            hint="create the target tile in FP16 or BF16",
        )
    part, whole = (result, source) if row.name == "extract" else (source, result)
    boxed = pair != (Space.VEC, Space.VEC)
    if not boxed and any(buffer.is_column_vector for buffer in buffers):
        raise LayoutError(f"{row.name} takes rows", found=f"{source} to {result}")
    if any(v != DYNAMIC and w != DYNAMIC and v > w for v, w in zip(part.valid, whole.valid, strict=True)):
        raise ShapeError(f"the part of {row.name} is larger than the whole", found=f"{source} to {result}")


def _check_predicate(rows: _Rows, kinds: Kinds, buffers: list[TileBufType], target: Target) -> None:
    row = rows[0]
    assert row.instruction is not None
    tiles = [k for k, kind in enumerate(kinds) if isinstance(kind, TileBufType)]
    named = {(*row.instruction.inputs, "dst")[k]: kinds[k] for k in tiles}
    _check_alike(row, named, target)
    mask = named.pop("dst" if row.rule == "compare" else "mask")
    if mask.dtype != UINT8 or any(buffer.space is not Space.VEC or buffer.is_column_vector for buffer in buffers):
        raise LayoutError(f"{row.name} takes rows in Vec and bits in UINT8", found=", ".join(map(str, buffers)))
    scratch = named.pop("tmp", None)
    if row.name == "sel" and scratch is not None and scratch.dtype.bytes != 4:
        raise DTypeError("the scratch of sel has elements of 4 bytes", found=str(scratch))
    if len({buffer.dtype for buffer in named.values()}) != 1:
        raise DTypeError(f"the operands of {row.name} have several dtypes", found=", ".join(map(str, buffers)))
    first = next(iter(named.values()))
    if first.dtype not in row.dtypes[target.name]:
        raise DTypeError(f"{row.name} does not take {first.dtype} on {target.name}", found=str(first))
    _agree(row, [buffer.valid for buffer in named.values()])
    _agree(row, [mask.valid[:1], first.valid[:1]])


_CHECKS = {
    "ci": _check_counting,
    "compare": _check_predicate,
    "select": _check_predicate,
    "fillpad": _check_fillpad,
    "extract": _check_part,
    "insert": _check_part,
    "load": _check_transfer,
    "store": _check_transfer,
    "move": _check_move,
    "matmul": _check_matmul,
    "matmul_acc": _check_matmul,
    "matmul_bias": _check_matmul,
}
