"""The matrix product on the CPU: a register-blocked micro-kernel over packed operands.

Operands of the cube are float32 on the CPU whatever their dtype (but for products in `cube_tiles`). Left is row-major.
Right is packed: its columns are cut into panels a few vectors wide (`panels`), each panel is row-major, and panels
follow one another. Acc is row-major. A micro-kernel keeps a block of Acc in registers while it walks over K. Physical
extents of cube tiles are multiples of 16, so whole vectors and whole row blocks always fit; what they compute outside
the valid region is unspecified, and padding along K is never read into a sum.

INT8 products are exact: a product is at most 2^14, so 1024 of them sum to at most 2^24, which float32 still holds
exactly; each such chunk of K is converted and added in int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.outline import call_shared

EXACT_PRODUCTS = 1024
_F32 = 4


@dataclass(frozen=True)
class Blocking:
    """What a micro-kernel holds in registers: ``rows`` by at most ``vectors`` vectors of ``lanes`` float32 of Acc."""

    rows: int
    vectors: int
    lanes: int


def blocking_for(cpu: CpuDescription) -> Blocking:
    """The block for a processor.

    Three quarters of its registers hold Acc, three more a row of Right, and the rest a broadcast of Left: 8 or 4 rows
    of 3 vectors, which need fewer loads than fused multiply-adds. The rows divide a fractal's 16.
    """
    return Blocking(cpu.registers // 4, 3, cpu.lanes)


@dataclass(frozen=True)
class Panels:
    """A run of equal panels of Right: columns ``start`` to ``stop``, each panel ``vectors`` vectors wide."""

    start: int
    stop: int
    vectors: int


def panels(columns: int, blocking: Blocking) -> tuple[Panels, ...]:
    """How the physical columns of a Right buffer are cut into panels, in order.

    Panels are three vectors wide; the rest is made of two-vector panels where possible, because a panel of one vector
    leaves the multipliers waiting for loads.

    Raises:
        InternalError: the columns are not whole vectors.
    """
    lanes = blocking.lanes
    if columns % lanes:
        raise InternalError("columns are not whole vectors", found=columns, expected=f"a multiple of {lanes}")
    count, wide = columns // lanes, blocking.vectors
    narrow = count % wide
    if narrow == 1 and count > 1:
        narrow += wide
    split = (count - narrow) * lanes
    runs = [Panels(0, split, wide)] if split else []
    if narrow:
        runs.append(Panels(split, columns, min(narrow, wide - 1)))
    return tuple(runs)


@dataclass(frozen=True)
class CubeBuffer:
    """A cube tile in the arena: the address of its first element (``!llvm.ptr``) and its physical extents."""

    address: ir.Value
    rows: int
    columns: int


@dataclass(frozen=True)
class Piece:
    """More of K: ``depth`` columns of Left and rows of Right."""

    left: CubeBuffer
    right: CubeBuffer
    depth: Extent


def emit_matmul(
    e: Emitter,
    left: CubeBuffer,
    right: CubeBuffer,
    acc: CubeBuffer,
    extents: tuple[Extent, Extent, Extent],
    *,
    integer: bool = False,
    accumulate: bool = False,
    bias: ir.Value | None = None,
    more: Sequence[Piece] = (),
) -> None:
    """Emit ``acc = left @ right``, plus acc where ``accumulate``, plus a row of biases where one is given.

    Args:
        e: emits into a function of a module, which gets private functions that equal products share.
        left, right: float32, placed by `packing.emit_move_to_left` and `packing.emit_move_to_right`.
        acc: float32, or int32 where ``integer``; row-major.
        extents: the valid ``(m, k, n)``; nothing happens where m or n is 0.
        integer: whether the operands hold INT8 values and the sum is exact in int32.
        bias: address of a row of acc's element type, readable up to the next multiple of 16 elements after n.
        more: pieces that are added besides, of the same shape; not of integers.

    Raises:
        InternalError: a physical extent is not whole vectors, or the buffers do not fit each other.
    """
    blocking = blocking_for(e.cpu)
    _check(left, right, acc, blocking)
    for piece in more:
        _check(piece.left, piece.right, acc, blocking)
    start, stride = e.op("llvm.mlir.zero", e.pointer), 0
    if bias is not None:
        start = bias
    elif accumulate:
        start, stride = acc.address, acc.columns
    pointers = [left.address, right.address, acc.address, start, e.constant(stride, "i64")]
    shape = [left.rows, left.columns, right.columns, acc.rows, acc.columns]
    others = [part for piece in more for part in (piece.left.address, piece.right.address, piece.depth)]

    def body(inner: Emitter, arguments: list[Extent]) -> None:
        a, b, c, initial, initial_stride, rows, depth, right_columns, acc_rows, acc_columns, m, k, n, *rest = arguments
        first = Piece(CubeBuffer(a, rows, depth), CubeBuffer(b, depth, right_columns), k)
        pieces = [first]
        for x, y, z in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            pieces.append(Piece(replace(first.left, address=x), replace(first.right, address=y), z))
        acc = CubeBuffer(c, acc_rows, acc_columns)
        _emit_product(inner, pieces, acc, _Initial(initial, initial_stride), (m, n), integer)

    call_shared(e, f"matmul_{'i32' if integer else 'f32'}", [*pointers, *shape, *extents, *others], body)


def minimum(e: Emitter, a: Extent, b: Extent) -> Extent:
    """The smaller of two extents."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return e.same("arith.minsi", e.value(a), e.value(b))


def _check(left: CubeBuffer, right: CubeBuffer, acc: CubeBuffer, blocking: Blocking) -> None:
    fits = left.columns == right.rows and acc.rows <= left.rows and acc.columns <= right.columns
    if not fits or acc.columns % blocking.lanes or acc.rows % blocking.rows:
        raise InternalError(
            "the buffers of a matrix product do not fit each other",
            found=", ".join(f"[{b.rows}, {b.columns}]" for b in (left, right, acc)),
            expected=f"[M, K], [K, N], [M, N], M a multiple of {blocking.rows} and N of {blocking.lanes}",
        )


@dataclass(frozen=True)
class _Initial:
    """What a product is added to: address or null, and elements from row to row."""

    address: ir.Value
    stride: Extent


def _emit_product(
    e: Emitter,
    pieces: Sequence[Piece],
    acc: CubeBuffer,
    initial: _Initial,
    extents: tuple[Extent, Extent],
    integer: bool,
) -> None:
    m, n = extents
    left, k = pieces[0].left, pieces[0].depth
    blocking = blocking_for(e.cpu)
    # A product with fewer known rows than a block has computes just those.
    rows = min(blocking.rows, m) if isinstance(m, int) else blocking.rows
    if rows <= 0:
        return
    product = _Product(e, blocking, rows, pieces, acc, integer)
    if not integer or left.columns <= EXACT_PRODUCTS:
        product.emit(m, 0, [piece.depth for piece in pieces], n, initial)
        return
    product.emit(m, 0, [minimum(e, k, EXACT_PRODUCTS)], n, initial)

    def chunk(first: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
        depth = minimum(e, e.sub(k, first), EXACT_PRODUCTS)
        product.emit(m, first, [depth], n, _Initial(acc.address, acc.columns))
        return ()

    e.loop(EXACT_PRODUCTS, k, EXACT_PRODUCTS, [], chunk)


@dataclass(frozen=True)
class _Product:
    """The loops around the micro-kernels of one product."""

    e: Emitter
    blocking: Blocking
    rows: int
    pieces: Sequence[Piece]
    acc: CubeBuffer
    integer: bool

    def emit(self, m: Extent, first: Extent, depths: Sequence[Extent], n: Extent, initial: _Initial) -> None:
        """Emit the product over so many columns of the Left of each piece, from ``first`` on."""
        lanes = self.blocking.lanes
        limit = self.acc.columns
        if isinstance(n, int):
            limit = min(limit, -(-n // lanes) * lanes)
        for run in panels(self.pieces[0].right.columns, self.blocking):
            width = run.vectors * lanes
            # Acc, or a known n, may end within a panel: of that one only its first vectors are computed.
            stop = min(run.stop, run.start + max(0, limit - run.start) // width * width)
            clipped = max(0, min(run.stop, limit) - stop) // lanes
            for begin, end, vectors in ((run.start, stop, run.vectors), (stop, stop + clipped * lanes, clipped)):
                if begin < end:
                    columns = begin, minimum(self.e, end, n)
                    self._columns(columns, vectors, width, m, (first, depths), initial)

    def _columns(
        self,
        columns: tuple[int, Extent],
        vectors: int,
        width: int,
        m: Extent,
        parts: tuple[Extent, Sequence[Extent]],
        initial: _Initial,
    ) -> None:
        e, left, acc = self.e, self.pieces[0].left, self.acc
        first, depths = parts
        # Known to the micro-kernel, the stride of Left is a displacement; those it needs once only stay arguments.
        strides = [left.columns * _F32, e.value(acc.columns * _F32), e.value(e.mul(initial.stride, _F32))]
        several = f"_{len(depths)}" if len(depths) > 1 else ""
        name = f"matmul_{'i32' if self.integer else 'f32'}_{self.rows}x{vectors}_{width}{several}"

        def at(base: ir.Value, elements: Extent) -> ir.Value:
            return e.address(base, e.mul(elements, _F32))

        lefts = [at(piece.left.address, first) for piece in self.pieces]

        def panel(column: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
            before = e.add(e.mul(column, left.columns), e.mul(first, width))
            right_panels = [at(piece.right.address, before) for piece in self.pieces]
            acc_column, initial_column = at(acc.address, column), at(initial.address, column)

            def block(row: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
                acc_row, initial_row = (
                    e.address(base, e.mul(row, stride))
                    for base, stride in zip((acc_column, initial_column), strides[1:], strict=True)
                )
                down = e.mul(row, strides[0])
                pieces = [
                    part
                    for base, panel, depth in zip(lefts, right_panels, depths, strict=True)
                    for part in (e.address(base, down), panel, e.value(depth))
                ]
                arguments = [acc_row, initial_row, initial.address, *strides, *pieces]
                call_shared(e, name, arguments, micro_kernel)
                return ()

            e.loop(0, m, self.rows, [], block)
            return ()

        def micro_kernel(inner: Emitter, arguments: list[Extent]) -> None:
            _MicroKernel(inner, self.rows, vectors, width, self.integer).emit(arguments)

        e.loop(*columns, width, [], panel)


@dataclass(frozen=True)
class _MicroKernel:
    """``rows`` by ``vectors`` of Acc from a panel of Right whose rows are ``right_stride`` elements apart."""

    e: Emitter
    rows: int
    vectors: int
    right_stride: int
    integer: bool

    def emit(self, arguments: list[Extent]) -> None:
        """Emit the kernel.

        Args:
            arguments: the first row of Acc and of what is added; null where nothing is added; bytes from row to row of
                Left, Acc and what is added; then for each piece the first row of Left, the panel and the depth.
        """
        e = self.e
        acc, initial, added, left_stride, acc_stride, initial_stride, *pieces = arguments
        sums = [e.constant(0.0, "f32", e.lanes)] * (self.rows * self.vectors)
        for left, right, depth in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            sums = self._sums((left, left_stride), right, depth, sums)
        element = "i32" if self.integer else "f32"
        if self.integer:
            sums = [e.cast("fptosi", total, element) for total in sums]
        places, starts = (
            [e.address(row, v * e.lanes * _F32) for row in self._row_addresses(*rows) for v in range(self.vectors)]
            for rows in ((acc, acc_stride), (initial, initial_stride))
        )

        def store_plain() -> None:
            for total, place in zip(sums, places, strict=True):
                e.store(total, place)

        def store_added() -> None:
            # Acc joins the sum at the end, not at the start: its loads then overlap with the next block's products.
            combine = "arith.addi" if self.integer else "arith.addf"
            for total, place, start in zip(sums, places, starts, strict=True):
                e.store(e.same(combine, e.load(start, element, e.lanes), total), place)

        none = e.compare("eq", e.op("llvm.ptrtoint", e.i64, added), e.constant(0, "i64"))
        e.when(none, store_plain, store_added)

    def _sums(
        self, left: tuple[ir.Value, int], right: ir.Value, depth: ir.Value, initial: list[ir.Value]
    ) -> list[ir.Value]:
        e, vectors = self.e, range(self.vectors)

        def step(k: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
            right_k = e.address(right, e.mul(k, self.right_stride * _F32))
            row = [e.load(e.address(right_k, v * e.lanes * _F32), "f32", e.lanes) for v in vectors]
            found = []
            left_k = e.address(left[0], e.mul(k, _F32))
            for r in range(self.rows):
                factor = e.splat(e.load(e.address(left_k, r * left[1]), "f32"), e.lanes)
                for v in vectors:
                    found.append(e.same("llvm.intr.fmuladd", factor, row[v], sums[r * self.vectors + v]))
            return found

        return e.loop(0, depth, 1, initial, step)

    def _row_addresses(self, first: ir.Value, stride: ir.Value) -> list[ir.Value]:
        found = [first]
        for _ in range(self.rows - 1):
            found.append(self.e.address(found[-1], stride))
        return found
