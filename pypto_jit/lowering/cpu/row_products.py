"""Products of few rows on the CPU: the right operand is read once, where it lies, and multiplied as it comes.

Left is row-major float32, and Acc row-major. Where the elements of a row of the right operand lie side by
side, a few rows at once are walked along, and what they give together is added to Acc: that is less work than adding
each, and errs less. Where those of a column do, each column is a sum of its own.

INT8 products are exact: at most 1024 of them meet in a lane before they become int32 (`matmul`), since Left has no more
than 4096 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.convert import stored
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.matmul import EXACT_PRODUCTS, CubeBuffer
from pypto_jit.lowering.cpu.outline import call_shared
from pypto_jit.lowering.cpu.packing import Source, to_float32

_WORD = 4
# Vectors of columns in a step of the loop over them.
_UNROLLED = 2
# Rows of memory that are read at once, at most: more streams than hardware follows are no faster.
_STREAMS = 8


def emit_row_product(
    e: Emitter,
    left: CubeBuffer,
    right: Source,
    acc: CubeBuffer,
    extents: tuple[int, Extent, Extent],
    *,
    accumulate: bool = False,
    bias: ir.Value | None = None,
) -> None:
    """Emit ``acc = left @ right``, plus acc where ``accumulate``, plus a row of biases where one is given.

    Args:
        e: emits into a function of a module, which gets private functions that equal products share.
        left: float32, row-major.
        right: FP32, FP16, BF16 or INT8 in memory; one of its strides is 1.
        acc: float32, or int32 where the operands are INT8; row-major.
        extents: the valid ``(m, k, n)``; nothing happens where m or n is 0.
        bias: address of a row of acc's element type, readable up to the next multiple of 16 elements after n.

    Raises:
        InternalError: neither stride of the right operand is 1, or INT8 sums would not be exact.
    """
    across = right.strides[1] != 1
    if across and right.strides[0] != 1:
        raise InternalError("a product reads memory whose elements lie apart", found=str(right.strides), expected="1")
    if right.dtype.kind == "int" and left.columns > EXACT_PRODUCTS * e.lanes:
        raise InternalError("a sum of INT8 products is not exact", found=str(left.columns))
    start = "bias" if bias is not None else "acc" if accumulate else "zero"
    distance = right.strides[1] if across else right.strides[0]
    pointers = [left.address, right.address, acc.address, bias if bias is not None else acc.address]
    name = f"row_product_{right.dtype.mlir}_{'columns' if across else 'rows'}_{start}"

    def body(inner: Emitter, arguments: list[Extent]) -> None:
        a, b, c, initial, left_columns, acc_columns, stride, m, k, n = arguments
        assert isinstance(m, int)
        strides = (1, stride) if across else (stride, 1)
        source = Source(b, right.dtype, strides, padded=False)
        product = _RowProduct(inner, a, source, c, (left_columns, acc_columns), (m, k, n))
        if start != "acc":
            product.begin(initial if start == "bias" else None)
        product.add_columns() if across else product.add_rows()

    call_shared(e, name, [*pointers, left.columns, acc.columns, distance, *extents], body)


@dataclass(frozen=True)
class _RowProduct:
    """The loops of one product.

    Attributes:
        strides: from row to row of Left and of Acc, in elements.
    """

    e: Emitter
    left: ir.Value
    right: Source
    acc: ir.Value
    strides: tuple[int, int]
    extents: tuple[int, Extent, Extent]

    def begin(self, bias: ir.Value | None) -> None:
        """Set the rows of Acc to a row of biases, or to zero."""
        e, (rows, _, columns) = self.e, self.extents

        def set_at(column: ir.Value) -> None:
            zero = e.constant(0, self._element, e.lanes)
            value = zero if bias is None else e.load(self._at(bias, column), self._element, e.lanes)
            for row in range(rows):
                e.store(value, self._acc_at(row, column))

        e.each(0, columns, e.lanes, set_at)

    def add_rows(self) -> None:
        """Add to Acc, row by row of the right operand, ``left[:, k] * right[k, :]``."""
        # Their factors stay in half of the registers.
        _by(self.e, self.extents[1], self._together, self._add_some_rows)

    def _add_some_rows(self, k: Extent, count: int) -> None:
        e, (rows, _, columns) = self.e, self.extents
        places = [(self._left_at(row, e.add(k, i)), row, i) for row in range(rows) for i in range(count)]
        factors = {(row, i): e.splat(e.load(place, "f32"), e.lanes) for place, row, i in places}
        tops = [self.right.at(e, e.add(k, i), 0) for i in range(count)]
        for i in range(count, 2 * count):
            # Rows lie pages apart, so hardware does not see them coming.
            e.prefetch(self.right.at(e, e.add(k, i), 0))

        def at(column: Extent, mask: ir.Value | None = None) -> None:
            offset = e.mul(column, self.right.dtype.bytes)
            values = [self._right_vector(e.address(top, offset), mask) for top in tops]
            for row in range(rows):
                total = e.same("arith.mulf", values[0], factors[row, 0])
                for i in range(1, count):
                    total = e.same("llvm.intr.fmuladd", values[i], factors[row, i], total)
                place = self._acc_at(row, column)
                e.store(self._plus(e.load(place, self._element, e.lanes), total), place)

        def unrolled(column: ir.Value) -> None:
            for u in range(_UNROLLED):
                at(e.add(column, u * e.lanes))

        step = _UNROLLED * e.lanes
        several, whole = e.round_down(columns, step), e.round_down(columns, e.lanes)
        e.each(0, several, step, unrolled)
        e.each(several, whole, e.lanes, at)
        if whole != columns:
            at(whole, e.first_lanes(e.sub(columns, whole)))

    def add_columns(self) -> None:
        """Add to Acc, column by column of the right operand, the sum of ``left[:, k] * right[k, n]`` along K."""
        # Their sums stay in half of the registers.
        _by(self.e, self.extents[2], self._together, self._add_some_columns)

    def _add_some_columns(self, column: Extent, count: int) -> None:
        e, (rows, depth, _) = self.e, self.extents
        tops = [self.right.at(e, 0, e.add(column, i)) for i in range(count)]

        def added(k: Extent, sums: Sequence[ir.Value], mask: ir.Value | None = None) -> list[ir.Value]:
            offset = e.mul(k, self.right.dtype.bytes)
            lefts = [e.load(self._left_at(row, k), "f32", e.lanes, mask) for row in range(rows)]
            found = []
            for i, top in enumerate(tops):
                value = self._right_vector(e.address(top, offset), mask)
                for row in range(rows):
                    found.append(e.same("llvm.intr.fmuladd", lefts[row], value, sums[i * rows + row]))
            return found

        whole = e.round_down(depth, e.lanes)
        sums = e.loop(0, whole, e.lanes, [e.constant(0.0, "f32", e.lanes)] * (count * rows), added)
        if whole != depth:
            # With no lanes left the mask is empty, and zeros are added.
            sums = added(whole, sums, e.first_lanes(e.sub(depth, whole)))
        for number, total in enumerate(sums):
            i, row = divmod(number, rows)
            place = self._acc_at(row, e.add(column, i))
            across = e.reduction("add", self._exact(total))
            e.store(self._plus(e.load(place, self._element), across), place)

    @property
    def _together(self) -> int:
        """How many rows or columns of the right operand are read at once: a power of two."""
        half = self.e.cpu.registers // (2 * self.extents[0])
        return min(_STREAMS, 1 << max(0, half.bit_length() - 1))

    @property
    def _element(self) -> str:
        return "f32" if self.right.dtype.is_float else "i32"

    def _exact(self, total: ir.Value) -> ir.Value:
        """A sum of products as Acc holds it."""
        if self.right.dtype.is_float or self.e.shape(total)[0] == "i32":
            return total
        return self.e.cast("fptosi", total, "i32")

    def _plus(self, before: ir.Value, total: ir.Value) -> ir.Value:
        name = "arith.addf" if self.right.dtype.is_float else "arith.addi"
        return self.e.same(name, before, self._exact(total))

    def _right_vector(self, address: ir.Value, mask: ir.Value | None) -> ir.Value:
        e, dtype = self.e, self.right.dtype
        return to_float32(e, e.load(address, stored(dtype), e.lanes, mask), dtype)

    def _at(self, base: ir.Value, elements: Extent) -> ir.Value:
        return self.e.address(base, self.e.mul(elements, _WORD))

    def _left_at(self, row: int, k: Extent) -> ir.Value:
        return self._at(self._at(self.left, k), row * self.strides[0])

    def _acc_at(self, row: int, column: Extent) -> ir.Value:
        return self._at(self._at(self.acc, column), row * self.strides[1])


def _by(e: Emitter, extent: Extent, count: int, emit: Callable[[Extent, int], None]) -> None:
    """Steps of so many, then what is left: at once where that is known, else one by one."""
    whole = e.round_down(extent, count)
    e.each(0, whole, count, lambda k: emit(k, count))
    if isinstance(extent, int) and isinstance(whole, int):
        if whole < extent:
            emit(whole, extent - whole)
    else:
        e.each(whole, extent, 1, lambda k: emit(k, 1))
