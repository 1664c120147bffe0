"""Adding to global memory while other threads add to it."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.areas import Area
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Frame

# llvm.atomicrmw and llvm.cmpxchg, by the numbers of LLVM's dialect (AtomicBinOp, AtomicOrdering).
_ADD, _ADD_FLOATS = 1, 11
_MONOTONIC = 2


def add_area(frame: Frame, source: Area, target: Area, rows: Extent, columns: Extent) -> None:
    """Add each element of one area to that of another, rounded to its dtype; extents are numbers.

    Each addition is atomic, and in no order with others.
    """
    e = frame.e

    def over_columns(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        def one(column: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            value = e.load(source.element(e, row, column), convert.stored(source.dtype))
            if source.dtype != target.dtype:
                value = convert.narrow(e, convert.widen(e, value, source.dtype), target.dtype)
            _add(e, target.element(e, row, column), value, target.dtype)
            return inner

        e.loop(0, columns, 1, [], one)
        return carried

    e.loop(0, rows, 1, [], over_columns)


def _add(e: Emitter, address: ir.Value, value: ir.Value, dtype: DType) -> None:
    if dtype.is_float and dtype.bits < 32:
        _add_half(e, address, value, dtype)
        return
    kind = _ADD_FLOATS if dtype.is_float else _ADD
    alignment = e.number(dtype.bytes)
    e.op(
        "llvm.atomicrmw",
        value.type,
        address,
        value,
        bin_op=e.number(kind),
        ordering=e.number(_MONOTONIC),
        alignment=alignment,
    )


def _add_half(e: Emitter, address: ir.Value, value: ir.Value, dtype: DType) -> None:
    """Replace the element by the rounded sum, as often as another thread was faster."""
    pair = e.parsed_type("!llvm.struct<(i16, i1)>")
    wide = convert.widen(e, value, dtype)

    def attempt(old: ir.Value) -> tuple[ir.Value, ir.Value]:
        stored = e.cast("bitcast", old, "f16") if convert.stored(dtype) == "f16" else old
        total = convert.narrow(e, e.same("arith.addf", convert.widen(e, stored, dtype), wide), dtype)
        bits = total if convert.stored(dtype) == "i16" else e.cast("bitcast", total, "i16")
        order = e.number(_MONOTONIC)
        result = e.op(
            "llvm.cmpxchg",
            pair,
            address,
            old,
            bits,
            success_ordering=order,
            failure_ordering=order,
            alignment=e.number(2),
        )
        found = e.op("llvm.extractvalue", e.type("i16"), result, position=e.parsed("array<i64: 0>"))
        done = e.op("llvm.extractvalue", e.type("i1"), result, position=e.parsed("array<i64: 1>"))
        return found, done

    e.until(e.load(address, "i16"), attempt)
