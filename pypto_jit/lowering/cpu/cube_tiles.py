"""Matrix products on processors with tile registers (Intel AMX): BF16 into float32 and INT8 into int32.

Left and Right keep their dtype and are cut into blocks of 1 KiB, which is what a tile register holds: 16 rows of 16
words of 32 bits. A word holds the elements of one row or column at 2 (BF16) or 4 (INT8) consecutive places of K.
A block of Left is 16 rows of the matrix, its words running along K; a block of Right is 16 columns of the matrix, and
its rows run along K. The blocks of the same rows or columns follow one another along K, which zeros fill up to a whole
block. Acc is row-major. BF16 products are exact and summed in float32, where numbers below 2^-126 become zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, INT8, DType
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.matmul import CubeBuffer, minimum
from pypto_jit.lowering.cpu.outline import call_shared, module_around
from pypto_jit.lowering.cpu.packing import Source, by_orientation, transpose_block

_SIDE = 16
_WORD = 4
_ROW = _SIDE * _WORD
_BLOCK = _SIDE * _ROW
_PRODUCT = {BF16: "tdpbf16ps", INT8: "tdpbssd"}
_CONFIGURED = "__tiles_allowed"
# arch_prctl(ARCH_REQ_XCOMP_PERM, 18): the system saves the tile registers of a process once it has asked for that.
_ASK = "movl $$158, %eax; movl $$0x1023, %edi; movl $$18, %esi; syscall"
_ASK_CLOBBERS = "~{rax},~{rdi},~{rsi},~{rcx},~{r11},~{memory}"


def has_tiles(cpu: CpuDescription, dtype: DType) -> bool:
    """Whether products of a dtype use tile registers, and so which layout its Left and Right have."""
    return cpu.tiles and cpu.vector_bytes == 64 and dtype in _PRODUCT


def _depth(dtype: DType) -> int:
    """Elements of K in a block."""
    return _ROW // dtype.bytes


def _blocks(depth: int, dtype: DType) -> int:
    """Blocks along K, of which the last may be partly zeros."""
    return -(-depth // _depth(dtype))


def emit_pack_left(e: Emitter, source: Source, left: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    """Emit the move of a source's valid ``(m, k)`` elements into the blocks of Left."""
    _check(left.rows, left.columns, source.dtype)
    _emit_shared(e, "left", source, left.address, left.columns, extents)


def emit_pack_right(e: Emitter, source: Source, right: CubeBuffer, extents: tuple[Extent, Extent]) -> None:
    """Emit the move of a source's valid ``(k, n)`` elements into the blocks of Right."""
    _check(right.columns, right.rows, source.dtype)
    rows, columns = source.strides
    turned = Source(source.address, source.dtype, (columns, rows), source.padded)
    _emit_shared(e, "right", turned, right.address, right.rows, (extents[1], extents[0]))


def _check(lines: int, depth: int, dtype: DType) -> None:
    # The plan gives the buffer four bytes an element; whole blocks must fit into them.
    if lines % _SIDE or _blocks(depth, dtype) * _ROW > depth * 4:
        raise InternalError(
            "a cube tile is not whole blocks", found=f"[{lines}, {depth}] of {dtype}", expected="multiples of 16"
        )


def _emit_shared(
    e: Emitter, to: str, source: Source, target: ir.Value, depth: int, extents: tuple[Extent, Extent]
) -> None:
    def body(inner: Emitter, arguments: list[Extent]) -> None:
        start, line_stride, depth_stride, goal, blocks, lines, valid = arguments
        assert isinstance(start, ir.Value)
        assert isinstance(goal, ir.Value)
        given = Source(start, source.dtype, (line_stride, depth_stride), False)
        by_orientation(
            inner, given, lambda known: _Packing(inner, known, goal, blocks, (lines, valid), to == "right").emit()
        )

    arguments = [source.address, *source.strides, target, _blocks(depth, source.dtype), *extents]
    call_shared(e, f"pack_{to}_{source.dtype.mlir}", arguments, body)


@dataclass(frozen=True)
class _Packing:
    """One packing: of lines (rows of Left, columns of Right) which are ``extents[1]`` elements of K long."""

    e: Emitter
    source: Source
    target: ir.Value
    blocks: Extent
    extents: tuple[Extent, Extent]
    across: bool

    def emit(self) -> None:
        """Emit the loops over the blocks."""
        e, (lines, depth) = self.e, self.extents
        unit = _depth(self.source.dtype)
        step: Callable[[ir.Value, ir.Value], None]
        if _is_one(self.source.strides[1]):
            e.each(0, lines, _SIDE, lambda line: e.each(0, depth, unit, lambda k: self._along(line, k)))
            return
        step = self._beside if _is_one(self.source.strides[0]) else self._scattered
        # Whole rows of memory are read before the next ones.
        e.each(0, depth, unit, lambda k: e.each(0, lines, _SIDE, lambda line: step(line, k)))

    def _goal(self, line: ir.Value, k: ir.Value) -> ir.Value:
        e, unit = self.e, _depth(self.source.dtype)
        # Both are whole multiples: line of the side, k of the unit.
        lines = e.mul(e.mul(line, self.blocks), _BLOCK // _SIDE)
        return e.address(self.target, e.add(lines, e.mul(k, _BLOCK // unit)))

    def _store(self, vectors: list[ir.Value], line: ir.Value, k: ir.Value, *, turn: bool) -> None:
        goal = self._goal(line, k)
        for r, words in enumerate(transpose_block(self.e, vectors) if turn else vectors):
            self.e.store(words, self.e.address(goal, r * _ROW))

    def _mask(self, count: Extent, lanes: int) -> ir.Value:
        e = self.e
        limit = e.splat(e.cast("trunci", e.value(count), "i32"), lanes)
        return e.compare("slt", e.lane_numbers(lanes), limit)

    def _along(self, line: ir.Value, k: ir.Value) -> None:
        """A block whose source lies consecutively along K: a vector of memory is a vector of words."""
        e, (lines, depth), dtype = self.e, self.extents, self.source.dtype
        unit = _depth(dtype)
        mask, last = self._mask(e.sub(depth, k), unit), e.sub(lines, 1)
        vectors = []
        for r in range(_SIDE):
            # Beyond the last line that one is read again: it is there, and what it gives is never used.
            place = self.source.at(e, minimum(e, e.add(line, r), last), k)
            loaded = e.load(place, f"i{dtype.bits}", unit, mask)
            vectors.append(e.op("vector.bitcast", e.type("i32", _SIDE), loaded))
        self._store(vectors, line, k, turn=self.across)

    def _beside(self, line: ir.Value, k: ir.Value) -> None:
        """A block whose source has lines side by side: a word is put together from several rows of memory."""
        e, (lines, depth), unit = self.e, self.extents, _depth(self.source.dtype)
        inside = e.value(e.sub(lines, line))

        def whole() -> None:
            mask = self._mask(inside, _SIDE)
            self._store([self._words(line, k, r, lambda _: mask) for r in range(_SIDE)], line, k, turn=not self.across)

        def part() -> None:
            none = e.constant(0, "i64")

            def mask(at: ir.Value) -> ir.Value:
                return self._mask(e.select(e.compare("slt", at, e.value(depth)), inside, none), _SIDE)

            self._store([self._words(line, k, r, mask) for r in range(_SIDE)], line, k, turn=not self.across)

        if isinstance(depth, int) and depth % unit == 0:
            whole()
        else:
            e.when(e.compare("sle", e.value(e.add(k, unit)), e.value(depth)), whole, part)

    def _words(self, line: ir.Value, k: ir.Value, row: int, mask: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """The words of a row of a block of Right, each from as many rows of memory as a word has elements."""
        e, dtype = self.e, self.source.dtype
        group = _WORD // dtype.bytes
        words = None
        for part in range(group):
            at = e.value(e.add(k, row * group + part))
            loaded = e.load(self.source.at(e, line, at), f"i{dtype.bits}", _SIDE, mask(at))
            wide = e.cast("extui", loaded, "i32")
            if part:
                wide = e.same("arith.shli", wide, e.constant(part * dtype.bits, "i32", _SIDE))
            words = wide if words is None else e.same("arith.ori", words, wide)
        assert words is not None
        return words

    def _scattered(self, line: ir.Value, k: ir.Value) -> None:
        """A block whose source is consecutive in no direction, element by element."""
        e, (lines, depth), dtype = self.e, self.extents, self.source.dtype
        goal, element, group = self._goal(line, k), f"i{dtype.bits}", _WORD // dtype.bytes
        zero = e.constant(0, "i32", _SIDE)
        for r in range(_SIDE):
            e.store(zero, e.address(goal, r * _ROW))
        stop = minimum(e, e.sub(lines, line), _SIDE)

        def one(a: ir.Value, b: ir.Value) -> None:
            loaded = e.load(self.source.at(e, e.add(line, a), e.add(k, b)), element)
            within: Extent = e.mul(b, dtype.bytes)
            if self.across:
                row = e.same("arith.divsi", b, e.constant(group, "i64"))
                part = e.same("arith.remsi", b, e.constant(group, "i64"))
                place = e.add(e.add(e.mul(row, _ROW), e.mul(a, _WORD)), e.mul(part, dtype.bytes))
            else:
                place = e.add(e.mul(a, _ROW), within)
            e.store(loaded, e.address(goal, place))

        inner = minimum(e, e.sub(depth, k), _depth(dtype))
        e.each(0, stop, 1, lambda a: e.each(0, inner, 1, lambda b: one(a, b)))


def emit_tile_product(
    e: Emitter,
    left: CubeBuffer,
    right: CubeBuffer,
    acc: CubeBuffer,
    extents: tuple[Extent, Extent, Extent],
    dtype: DType,
    *,
    accumulate: bool = False,
    bias: ir.Value | None = None,
) -> None:
    """Emit ``acc = left @ right``, plus acc where ``accumulate``, plus a row of biases where one is given.

    Args:
        e: emits into a function of a module, which gets private functions that equal products share.
        left, right: placed by `emit_pack_left` and `emit_pack_right`.
        acc: float32, or int32 where the dtype is INT8; row-major.
        extents: the valid ``(m, k, n)``; nothing happens where m or n is 0.
        dtype: of Left and Right.
        bias: address of a row of acc's element type, readable up to the next multiple of 16 elements after n.

    Raises:
        InternalError: the buffers do not fit each other.
    """
    fits = left.columns == right.rows and acc.rows <= left.rows and acc.columns <= right.columns
    if not fits or acc.rows % _SIDE or acc.columns % _SIDE:
        found = ", ".join(f"[{b.rows}, {b.columns}]" for b in (left, right, acc))
        raise InternalError(
            "the buffers of a matrix product do not fit each other", found=found, expected="multiples of 16"
        )
    start, stride = e.op("llvm.mlir.zero", e.pointer), 0
    if bias is not None:
        start = bias
    elif accumulate:
        start, stride = acc.address, acc.columns
    blocks = _blocks(left.columns, dtype)
    arguments = [left.address, right.address, acc.address, start, e.constant(stride * _WORD, "i64")]

    def body(inner: Emitter, given: list[Extent]) -> None:
        a, b, c, initial, initial_stride, blocks, columns, m, k, n = given
        addresses = [x for x in (a, b, c, initial, initial_stride) if isinstance(x, ir.Value)]
        _Product(inner, dtype, addresses, blocks, inner.mul(columns, _WORD), (m, k, n)).emit()

    call_shared(e, f"tiles_{dtype.mlir}", [*arguments, blocks, acc.columns, *extents], body)


@dataclass(frozen=True)
class _Product:
    """The loops of one product. Registers 0 to 3 hold two by two blocks of Acc, 4 and 5 Left, 6 and 7 Right."""

    e: Emitter
    dtype: DType
    addresses: list[ir.Value]
    blocks: Extent
    acc_stride: Extent
    extents: tuple[Extent, Extent, Extent]

    def emit(self) -> None:
        """Emit the product."""
        e, (m, _, n) = self.e, self.extents
        _allow(e)
        _configure(e)
        _by_two(e, n, lambda j, columns: _by_two(e, m, lambda i, rows: self._square(i, j, rows, columns)))
        _assembly(e, "tilerelease", [])

    def _square(self, i: ir.Value, j: ir.Value, rows: int, columns: int) -> None:
        """``rows`` by ``columns`` blocks of Acc, from row i and column j on."""
        e = self.e
        left, right, acc, initial, initial_stride = self.addresses
        lefts, rights = (
            [e.address(base, e.mul(e.add(at, x * _SIDE), e.mul(self.blocks, _ROW))) for x in range(count)]
            for base, at, count in ((left, i, rows), (right, j, columns))
        )
        squares = [(r, c) for r in range(rows) for c in range(columns)]
        acc_stride = e.value(self.acc_stride)

        def places(base: ir.Value, stride: Extent) -> list[ir.Value]:
            offsets = [e.add(e.mul(e.add(i, r * _SIDE), stride), e.mul(e.add(j, c * _SIDE), _WORD)) for r, c in squares]
            return [e.address(base, offset) for offset in offsets]

        def clear() -> None:
            for r, c in squares:
                _assembly(e, f"tilezero %tmm{2 * r + c}", [])

        def begin() -> None:
            for (r, c), place in zip(squares, places(initial, initial_stride), strict=True):
                _assembly(e, f"tileloadd ($0,$1,1), %tmm{2 * r + c}", [place, initial_stride])

        none = e.compare("eq", e.op("llvm.ptrtoint", e.i64, initial), e.constant(0, "i64"))
        e.when(none, clear, begin)
        self._sum(lefts, rights, squares)
        for (r, c), place in zip(squares, places(acc, acc_stride), strict=True):
            _assembly(e, f"tilestored %tmm{2 * r + c}, ($0,$1,1)", [place, acc_stride])

    def _sum(self, lefts: list[ir.Value], rights: list[ir.Value], squares: list[tuple[int, int]]) -> None:
        e, row = self.e, self.e.constant(_ROW, "i64")
        name, unit = _PRODUCT[self.dtype], _depth(self.dtype)

        def step(k: ir.Value) -> None:
            offset = e.mul(k, _BLOCK // unit)
            for base, first in ((lefts, 4), (rights, 6)):
                for x, start in enumerate(base):
                    _assembly(e, f"tileloadd ($0,$1,1), %tmm{first + x}", [e.address(start, offset), row])
            for r, c in squares:
                _assembly(e, f"{name} %tmm{6 + c}, %tmm{4 + r}, %tmm{2 * r + c}", [])

        e.each(0, self.extents[1], unit, step)


def _by_two(e: Emitter, extent: Extent, emit: Callable[[ir.Value, int], None]) -> None:
    """A loop over blocks of 16 places, two at a time and the last one alone where they are odd."""

    def pair(at: ir.Value) -> None:
        emit(at, 2)

    # Two blocks are begun wherever more than one of them holds valid places.
    twos = e.round_down(e.add(extent, _SIDE - 1), 2 * _SIDE)
    e.each(0, twos, 2 * _SIDE, pair)
    e.each(twos, extent, 2 * _SIDE, lambda at: emit(at, 1))


def _allow(e: Emitter) -> None:
    """Ask the system for the tile registers, once in a process; asking twice does no harm."""
    asked = _flag(e)

    def ask() -> None:
        _assembly(e, _ASK, [], _ASK_CLOBBERS)
        e.store(e.constant(1, "i8"), asked)

    e.when(e.compare("eq", e.load(asked, "i8"), e.constant(0, "i8")), ask)


def _flag(e: Emitter) -> ir.Value:
    module = module_around()
    if _CONFIGURED not in ir.SymbolTable(module):
        ir.Operation.create(
            "llvm.mlir.global",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(_CONFIGURED),
                "global_type": ir.TypeAttr.get(e.type("i8")),
                "linkage": e.parsed("#llvm.linkage<internal>"),
                "value": ir.IntegerAttr.get(e.type("i8"), 0),
                "addr_space": e.number(0, 32),
            },
            ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
        )
    return e.op("llvm.mlir.addressof", e.pointer, global_name=ir.FlatSymbolRefAttr.get(_CONFIGURED))


def _configure(e: Emitter) -> None:
    """Set all eight registers to 16 rows of 64 bytes."""
    place = e.reserve(64)
    words = [1, 0, *[0x0040_0040_0040_0040] * 2, 0, 0, 0x1010_1010_1010_1010, 0]
    for k, word in enumerate(words):
        e.store(e.constant(word, "i64"), e.address(place, 8 * k))
    _assembly(e, "ldtilecfg ($0)", [place])


def _assembly(e: Emitter, text: str, operands: Sequence[ir.Value], clobbers: str = "~{memory}") -> None:
    # The registers keep their contents from one instruction to the next: nothing else in a kernel uses them.
    constraints = ",".join([*["r"] * len(operands), clobbers])
    attributes = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get(constraints),
        "has_side_effects": ir.UnitAttr.get(),
    }
    e.effect("llvm.inline_asm", *operands, **attributes)


def _is_one(stride: Extent) -> bool:
    return isinstance(stride, int) and stride == 1
