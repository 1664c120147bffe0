"""Copies of operations that use other values than the originals."""

from __future__ import annotations

from collections.abc import Mapping

from pypto_jit._mlir import ir


def copy_operation(
    operation: ir.Operation, point: ir.InsertionPoint, values: Mapping[ir.Value, ir.Value]
) -> ir.Operation:
    """A copy of an operation, with all that is in it.

    Args:
        operation: the original.
        point: where the copy goes.
        values: what stands for each value that the original uses; other values stay.
    """
    copy = operation.clone(point).operation
    _rename(copy, values)
    return copy


def _rename(copy: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> None:
    for k, value in enumerate(list(copy.operands)):
        new = values.get(value)
        if new is not None:
            copy.operands[k] = new
    for region in copy.regions:
        for block in region.blocks:
            for inner in block.operations:
                _rename(inner.operation, values)
