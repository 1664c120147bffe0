"""The element types of the language: one row each, as data.

A leaf module: it imports neither MLIR nor torch, so that the runtime can load a cached artifact with neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: the language's name, as in ``pl.FP32``.
        mlir: the MLIR element type, as in ``f32``; unsigned integers keep their sign (``ui8``).
        bits: width in bits.
        kind: ``"float"``, ``"int"``, ``"uint"`` or ``"bool"``.
        torch: the attribute of ``torch`` that holds the same type.
        dlpack: DLPack type code (0 int, 1 uint, 2 float, 4 bfloat, 6 bool; source: dlpack.h, ``DLDataTypeCode``).
    """

    name: str
    mlir: str
    bits: int
    kind: str
    torch: str
    dlpack: int

    @property
    def bytes(self) -> int:
        """Width in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest value of an integer type."""
        if self.kind == "uint":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def signless(self) -> str:
        """The MLIR type that arithmetic uses: ``i8`` for ``ui8``, otherwise the type itself."""
        return self.mlir.removeprefix("u")

    @cached_property
    def numpy(self) -> Any:
        """The ``numpy.dtype`` (bfloat16 from ml_dtypes)."""
        import numpy

        if self.name == "BF16":
            import ml_dtypes

            return numpy.dtype(ml_dtypes.bfloat16)
        return numpy.dtype(self.torch)

    def __repr__(self) -> str:
        return self.name


FP32 = DType("FP32", "f32", 32, "float", "float32", 2)
FP16 = DType("FP16", "f16", 16, "float", "float16", 2)
BF16 = DType("BF16", "bf16", 16, "float", "bfloat16", 4)
INT32 = DType("INT32", "i32", 32, "int", "int32", 0)
INT16 = DType("INT16", "i16", 16, "int", "int16", 0)
INT8 = DType("INT8", "i8", 8, "int", "int8", 0)
INT64 = DType("INT64", "i64", 64, "int", "int64", 0)
UINT8 = DType("UINT8", "ui8", 8, "uint", "uint8", 1)
UINT16 = DType("UINT16", "ui16", 16, "uint", "uint16", 1)
UINT32 = DType("UINT32", "ui32", 32, "uint", "uint32", 1)

# Scalars only: what loops count in and what comparisons give. No tensor or tile has them.
INDEX = DType("INDEX", "index", 64, "int", "int64", 0)
BOOL = DType("BOOL", "i1", 8, "bool", "bool", 6)
# The elements of an array of tasks: INDEX scalars, -1 for no task.
TASK_ID = DType("TASK_ID", "index", 64, "int", "int64", 0)

ALL: tuple[DType, ...] = (FP32, FP16, BF16, INT64, INT32, INT16, INT8, UINT32, UINT16, UINT8)
SCALARS: tuple[DType, ...] = (INDEX, BOOL, TASK_ID)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}
BY_MLIR: dict[str, DType] = {dtype.mlir: dtype for dtype in ALL}
# By the MLIR type of a scalar, which has no sign.
SCALARS_BY_MLIR: dict[str, DType] = {dtype.mlir: dtype for dtype in (*ALL, INDEX, BOOL) if dtype.kind != "uint"}
BY_DLPACK: dict[tuple[int, int], DType] = {(dtype.dlpack, dtype.bits): dtype for dtype in ALL}
