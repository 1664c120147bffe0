"""Scalar arithmetic of the language as operations of the ``arith`` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BOOL, FP32, INDEX, DType
from pypto_jit.language.needs import known_parameters
from pypto_jit.language.scalars import Scalar

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder

# Name -> operation for floats and for integers. minimumf / maximumf propagate NaN. No arithmetic is unsigned: UINT8
# scalars are only operands of tile operators.
_OPERATIONS = {
    "add": ("arith.addf", "arith.addi"),
    "sub": ("arith.subf", "arith.subi"),
    "mul": ("arith.mulf", "arith.muli"),
    "div": ("arith.divf", ""),
    "floordiv": ("", "arith.floordivsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "and": ("", "arith.andi"),
    "or": ("", "arith.ori"),
    "xor": ("", "arith.xori"),
}
# Predicates of arith.cmpf (ordered, but != is true of NaN) and of arith.cmpi (signed).
# Source: MLIR, ArithBase.td, Arith_CmpFPredicateAttr and Arith_CmpIPredicateAttr.
_PREDICATES = {"eq": (1, 0), "ne": (13, 1), "lt": (4, 2), "le": (5, 3), "gt": (2, 4), "ge": (3, 5)}


class Arithmetic:
    """Records scalar operations into a trace."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def record(self, name: str, operands: Sequence[Scalar], dtype: DType) -> Scalar:
        """One operation of the vocabulary of `Trace.scalar`."""
        builder = self._builder
        if name == "cast":
            return self._cast(operands[0], dtype)
        values = [builder.value(operand) for operand in operands]
        results = [builder.type(dtype.signless)]
        if name == "select":
            created = builder.operation("arith.select", results, values)
        elif name in _PREDICATES:
            integer = not operands[0].dtype.is_float
            predicate = ir.IntegerAttr.get(builder.type("i64"), _PREDICATES[name][integer])
            operation = "arith.cmpi" if integer else "arith.cmpf"
            created = builder.operation(operation, results, values, {"predicate": predicate})
        else:
            created = builder.operation(_OPERATIONS[name][not dtype.is_float], results, values)
        return Scalar(created.results[0], dtype, builder.region, known_parameters(operands))

    def _cast(self, operand: Scalar, dtype: DType) -> Scalar:
        value = self._builder.value(operand)
        for operation, target in _conversions(operand.dtype, dtype):
            value = self._builder.operation(operation, [self._builder.type(target)], [value]).results[0]
        return Scalar(value, dtype, self._builder.region, operand.parameters)


def _conversions(source: DType, target: DType) -> list[tuple[str, str]]:
    """The operations, each with its result type, that convert a scalar."""
    unsigned = source.kind in ("uint", "bool")
    if source.is_float and target.is_float:
        if source.bits == target.bits:
            return [("arith.extf", FP32.mlir), ("arith.truncf", target.mlir)]
        return [("arith.extf" if source.bits < target.bits else "arith.truncf", target.mlir)]
    if source.is_float:
        if target == INDEX:
            return [("arith.fptosi", "i64"), ("arith.index_cast", "index")]
        if target.kind == "uint":
            return [("arith.fptosi", "i32"), ("arith.trunci", target.signless)]
        return [("arith.fptosi", target.signless)]
    if target.is_float:
        first = [("arith.index_cast", "i64")] if source == INDEX else []
        return [*first, ("arith.uitofp" if unsigned else "arith.sitofp", target.mlir)]
    if INDEX in (source, target):
        first = [("arith.extui", "i64")] if unsigned else []
        return [*first, ("arith.index_cast", target.signless)]
    if source.bits == target.bits and source != BOOL:
        return []
    if source == BOOL or source.bits < target.bits:
        return [("arith.extui" if unsigned else "arith.extsi", target.signless)]
    return [("arith.trunci", target.signless)]
