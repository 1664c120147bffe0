"""The matrix product on the CPU: a register-blocked micro-kernel over packed operands.

Operands of the cube are float32 on the CPU whatever their dtype. Left is row-major. Right is packed: its columns are
cut into panels a few vectors wide (`panels`), each panel is row-major, and panels follow one another. Acc is row-major.
A micro-kernel keeps a block of Acc in registers while it walks over K. Physical extents of cube tiles are multiples of
16, so whole vectors and whole row blocks always fit; what they compute outside the valid region is unspecified, and
padding along K is never read into a sum.

INT8 products are exact: a product is at most 2^14, so 1024 of them sum to at most 2^24, which float32 still holds
exactly; each such chunk of K is converted and added in int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter, Extent

_EXACT_PRODUCTS = 1024
_F32 = 4


@dataclass(frozen=True)
class Blocking:
    """What a micro-kernel holds in registers: ``rows`` by at most ``vectors`` vectors of ``lanes`` float32 of Acc."""

    rows: int
    vectors: int
    lanes: int


def blocking_for(cpu: CpuDescription) -> Blocking:
    """The block for a processor.

    There are 32 registers of 64 bytes (AVX-512), else 16 are counted on. Three quarters of them hold Acc, three more a
    row of Right, and the rest a broadcast of Left: 8 or 4 rows of 3 vectors, which need fewer loads than fused
    multiply-adds. The rows divide a fractal's 16.
    """
    registers = 32 if cpu.vector_bytes == 64 else 16
    return Blocking(registers // 4, 3, cpu.lanes)


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
class _Kernel:
    """One micro-kernel: ``rows`` by ``vectors``, strides in elements, and how the product meets Acc."""

    rows: int
    vectors: int
    left_stride: int
    right_stride: int
    acc_stride: int
    start: str  # "zero", "acc" or "bias"
    integer: bool

    @property
    def symbol(self) -> str:
        kind = "i32" if self.integer else "f32"
        strides = f"{self.left_stride}_{self.right_stride}_{self.acc_stride}"
        return f"__matmul_{kind}_{self.rows}x{self.vectors}_{strides}_{self.start}"


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
) -> None:
    """Emit ``acc = left @ right``, plus acc where ``accumulate``, plus a row of biases where one is given.

    Args:
        e: emits into a function of a module, whose private functions the micro-kernels become; equal ones are shared.
        left, right: float32, placed by `packing.emit_move_to_left` and `packing.emit_move_to_right`.
        acc: float32, or int32 where ``integer``; row-major.
        extents: the valid ``(m, k, n)``; nothing happens where m or n is 0.
        integer: whether the operands hold INT8 values and the sum is exact in int32.
        bias: address of a row of acc's element type, readable up to the next multiple of 16 elements after n.

    Raises:
        InternalError: a physical extent is not whole vectors, or the buffers do not fit each other.
    """
    blocking = blocking_for(e.cpu)
    _check(left, right, acc, blocking)
    m, k, n = extents
    start = "bias" if bias is not None else "acc" if accumulate else "zero"
    # A product with fewer known rows than a block has computes just those.
    rows = min(blocking.rows, m) if isinstance(m, int) else blocking.rows
    if rows <= 0:
        return
    product = _Product(e, blocking, rows, left, right, acc, bias, integer)
    if not integer or left.columns <= _EXACT_PRODUCTS:
        product.emit(m, 0, k, n, start)
        return
    product.emit(m, 0, minimum(e, k, _EXACT_PRODUCTS), n, start)

    def chunk(first: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
        product.emit(m, first, minimum(e, e.sub(k, first), _EXACT_PRODUCTS), n, "acc")
        return ()

    e.loop(_EXACT_PRODUCTS, k, _EXACT_PRODUCTS, [], chunk)


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
class _Product:
    """The loops around the micro-kernels of one product."""

    e: Emitter
    blocking: Blocking
    rows: int
    left: CubeBuffer
    right: CubeBuffer
    acc: CubeBuffer
    bias: ir.Value | None
    integer: bool

    def emit(self, m: Extent, first: Extent, depth: Extent, n: Extent, start: str) -> None:
        """Emit the product over ``depth`` columns of Left from ``first`` on."""
        lanes = self.blocking.lanes
        limit = self.acc.columns
        if isinstance(n, int):
            limit = min(limit, -(-n // lanes) * lanes)
        for run in panels(self.right.columns, self.blocking):
            width = run.vectors * lanes
            # Acc, or a known n, may end within a panel: of that one only its first vectors are computed.
            stop = min(run.stop, run.start + max(0, limit - run.start) // width * width)
            clipped = max(0, min(run.stop, limit) - stop) // lanes
            for begin, end, vectors in ((run.start, stop, run.vectors), (stop, stop + clipped * lanes, clipped)):
                if begin < end:
                    self._columns(begin, minimum(self.e, end, n), vectors, width, m, first, depth, start)

    def _columns(
        self, begin: int, end: Extent, vectors: int, width: int, m: Extent, first: Extent, depth: Extent, start: str
    ) -> None:
        e, left, acc = self.e, self.left, self.acc
        kernel = _Kernel(self.rows, vectors, left.columns, width, acc.columns, start, self.integer)
        symbol = ir.FlatSymbolRefAttr.get(_micro_kernel(kernel, e.cpu))

        def panel(column: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
            offset = e.add(e.mul(column, self.right.rows), e.mul(first, width))
            right_panel = e.address(self.right.address, e.mul(offset, _F32))
            biases = [] if self.bias is None or start != "bias" else [e.address(self.bias, e.mul(column, _F32))]

            def block(row: ir.Value, _: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
                left_row = e.address(left.address, e.mul(e.add(e.mul(row, left.columns), first), _F32))
                acc_block = e.address(acc.address, e.mul(e.add(e.mul(row, acc.columns), column), _F32))
                e.effect("func.call", left_row, right_panel, acc_block, *biases, e.value(depth), callee=symbol)
                return ()

            e.loop(0, m, self.rows, [], block)
            return ()

        e.loop(begin, end, width, [], panel)


def _micro_kernel(kernel: _Kernel, cpu: CpuDescription) -> str:
    """The name of a micro-kernel's function, which the module at the insertion point gets where it has none yet."""
    operation = ir.InsertionPoint.current.block.owner.operation
    while operation.name != "builtin.module":
        parent = operation.parent
        assert parent is not None, "a kernel outside of a module"
        operation = parent.operation
    if kernel.symbol in ir.SymbolTable(operation):
        return kernel.symbol
    pointer = ir.Type.parse("!llvm.ptr")
    inputs = [pointer] * (4 if kernel.start == "bias" else 3) + [ir.IntegerType.get_signless(64)]
    function = ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(kernel.symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, [])),
            "llvm.linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        },
        ip=ir.InsertionPoint.at_block_begin(operation.regions[0].blocks[0]),
    )
    block = function.regions[0].blocks.append(*inputs)
    with ir.InsertionPoint(block):
        _emit_micro_kernel(Emitter(operation.context, block, cpu), kernel, list(block.arguments))
        ir.Operation.create("func.return")
    return kernel.symbol


def _emit_micro_kernel(e: Emitter, kernel: _Kernel, arguments: list[ir.Value]) -> None:
    left, right, acc, *bias, depth = arguments

    def step(k: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        left_k = e.address(left, e.mul(k, _F32))
        right_k = e.address(right, e.mul(k, kernel.right_stride * _F32))
        row = [e.load(e.address(right_k, v * e.lanes * _F32), "f32", e.lanes) for v in range(kernel.vectors)]
        found = []
        for r in range(kernel.rows):
            factor = e.splat(e.load(e.address(left_k, r * kernel.left_stride * _F32), "f32"), e.lanes)
            for v in range(kernel.vectors):
                found.append(e.same("llvm.intr.fmuladd", factor, row[v], sums[r * kernel.vectors + v]))
        return found

    zero = e.constant(0.0, "f32", e.lanes)
    sums = e.loop(0, depth, 1, [zero] * (kernel.rows * kernel.vectors), step)
    # Acc joins the sum at the end rather than at the start: the loads then overlap with the next block's products.
    element = "i32" if kernel.integer else "f32"
    combine = "arith.addi" if kernel.integer else "arith.addf"
    for number, total in enumerate(sums):
        r, v = divmod(number, kernel.vectors)
        if kernel.integer:
            total = e.cast("fptosi", total, "i32")
        address = e.address(acc, (r * kernel.acc_stride + v * e.lanes) * _F32)
        if bias:
            total = e.same(combine, total, e.load(e.address(bias[0], v * e.lanes * _F32), element, e.lanes))
        elif kernel.start == "acc":
            total = e.same(combine, e.load(address, element, e.lanes), total)
        e.store(total, address)
