"""Compiles one matrix product with the moves that feed it, and runs it on NumPy arrays."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pypto_jit._mlir import func, ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu.codegen import emit_object
from pypto_jit.lowering.cpu.cube_tiles import emit_pack_left, emit_pack_right, emit_tile_product, has_tiles
from pypto_jit.lowering.cpu.description import CpuDescription, host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.matmul import CubeBuffer, emit_matmul
from pypto_jit.lowering.cpu.packing import Source, emit_move_to_left, emit_move_to_right
from pypto_jit.lowering.cpu.row_products import emit_row_product

_PAGE = mmap.PAGESIZE


def fenced(count: int, dtype: object) -> np.ndarray:
    """Uninitialised elements that end where a page begins which nothing may touch."""
    size = count * np.dtype(dtype).itemsize
    pages = -(-size // _PAGE)
    memory = np.frombuffer(mmap.mmap(-1, (pages + 1) * _PAGE), np.uint8)
    fence = memory.ctypes.data + pages * _PAGE
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(_PAGE), 0):
        raise OSError("mprotect failed")
    return memory[pages * _PAGE - size : pages * _PAGE].view(dtype)


def rounded(extent: int, dtype: DType) -> int:
    """A cube tile's physical extent."""
    unit = max(16, 32 // dtype.bytes)
    return -(-extent // unit) * unit


_LIBRARIES: list[object] = []


Build = Callable[[Emitter, list[ir.Value]], None]


def _module(context: ir.Context, build: Build, cpu: CpuDescription, pointers: int, indices: int) -> ir.Module:
    """A module with a function ``entry`` of pointers, then i64 values, whose body ``build`` emits."""
    context.enable_multithreading(False)
    with context, ir.Location.unknown():
        module = ir.Module.create()
        pointer, i64 = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(64)
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("entry", ([pointer] * pointers + [i64] * indices, []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            build(Emitter(context, block, cpu), list(function.arguments))
            func.return_([])
    return module


def module_text(build: Build, cpu: CpuDescription, pointers: int, indices: int = 0) -> str:
    """The text of the module that `compile_function` compiles."""
    module = _module(ir.Context(), build, cpu, pointers, indices)
    assert module.operation.verify()
    return str(module)


def compile_function(build: Build, cpu: CpuDescription, pointers: int, indices: int = 0) -> Callable[..., None]:
    """A native function of pointers, then i64 values, whose body ``build`` emits."""
    import llvmlite.binding as llvm

    compiled = emit_object(_module(ir.Context(), build, cpu, pointers, indices), host_cpu())
    compiler = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().export_symbol("entry")
    for each in compiled.objects:
        library.add_object_img(each)
    tracker = library.link(compiler, f"library{len(_LIBRARIES)}")
    _LIBRARIES.append((compiler, tracker))
    kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * indices
    return ctypes.CFUNCTYPE(None, *kinds)(tracker["entry"])


@dataclass
class Product:
    """A matrix product under test; physical extents follow from the largest valid ones.

    Attributes:
        streamed: whether the right operand is read where it lies; the rows of the left one are known then.
    """

    cpu: CpuDescription
    dtype: DType
    shape: tuple[int, int, int]
    start: str = "zero"
    dynamic: bool = False
    column_major: tuple[bool, bool] = (False, False)
    padded: bool = True
    streamed: bool = False
    function: Callable[..., None] = field(init=False)

    def __post_init__(self) -> None:
        self.function = compile_function(self._build, self.cpu, 6, 3)

    @property
    def physical(self) -> tuple[int, int, int]:
        m, k, n = (rounded(extent, self.dtype) for extent in self.shape)
        return m, k, n

    @property
    def result(self) -> tuple[int, int, np.dtype]:
        integer = self.dtype.kind == "int"
        m, _, n = (-(-extent // 16) * 16 for extent in self.shape)
        return m, n, np.dtype(np.int32 if integer else np.float32)

    def _strides(self, side: int) -> tuple[int, int]:
        m, k, n = self.physical if self.padded else self.shape
        rows, columns = ((m, k), (k, n))[side]
        return (1, rows) if self.column_major[side] else (columns, 1)

    def _build(self, e: Emitter, arguments: list[ir.Value]) -> None:
        a, b, bias, left, right, acc, *dynamic = arguments
        m, k, n = dynamic if self.dynamic else self.shape
        rows, depth, columns = self.physical
        left_buffer, right_buffer = CubeBuffer(left, rows, depth), CubeBuffer(right, depth, columns)
        sources = [Source(x, self.dtype, self._strides(side), self.padded) for side, x in enumerate((a, b))]
        if self.streamed:
            self._emit_streamed(e, sources, left_buffer, CubeBuffer(acc, *self.result[:2]), bias, (k, n))
            return
        tiles = has_tiles(self.cpu, self.dtype)
        (emit_pack_left if tiles else emit_move_to_left)(e, sources[0], left_buffer, (m, k))
        (emit_pack_right if tiles else emit_move_to_right)(e, sources[1], right_buffer, (k, n))
        buffers = left_buffer, right_buffer, CubeBuffer(acc, *self.result[:2])
        accumulate, row = self.start == "acc", bias if self.start == "bias" else None
        if tiles:
            emit_tile_product(e, *buffers, (m, k, n), self.dtype, accumulate=accumulate, bias=row)
        else:
            integer = self.dtype.kind == "int"
            emit_matmul(e, *buffers, (m, k, n), integer=integer, accumulate=accumulate, bias=row)

    def _emit_streamed(
        self,
        e: Emitter,
        sources: list[Source],
        left: CubeBuffer,
        acc: CubeBuffer,
        bias: ir.Value,
        inner: tuple[Extent, Extent],
    ) -> None:
        m, (k, n) = self.shape[0], inner
        emit_move_to_left(e, sources[0], left, (m, k))
        accumulate, row = self.start == "acc", bias if self.start == "bias" else None
        emit_row_product(e, left, sources[1], acc, (m, k, n), accumulate=accumulate, bias=row)

    def _place(self, matrix: np.ndarray, side: int) -> np.ndarray:
        """The matrix in memory; what lies around its valid region is poison."""
        m, k, n = self.physical if self.padded else self.shape
        rows, columns = ((m, k), (k, n))[side]
        buffer = fenced(rows * columns, self.dtype.numpy)
        buffer[:] = np.nan if self.dtype.is_float else 127
        strides = [s * self.dtype.bytes for s in self._strides(side)]
        view = np.lib.stride_tricks.as_strided(buffer, (rows, columns), strides)
        view[: matrix.shape[0], : matrix.shape[1]] = matrix
        return buffer

    def run(
        self, a: np.ndarray, b: np.ndarray, acc: np.ndarray | None = None, bias: np.ndarray | None = None
    ) -> np.ndarray:
        """The valid region of the product of two matrices. A touch past the end of any buffer ends the process."""
        (m, k), n = a.shape, b.shape[1]
        rows, depth, columns = self.physical
        acc_rows, acc_columns, acc_dtype = self.result
        left, right = fenced(rows * depth, np.float32), fenced(depth * columns, np.float32)
        out, bias_row = fenced(acc_rows * acc_columns, acc_dtype), fenced(acc_columns, acc_dtype)
        left[:], right[:] = np.nan, np.nan
        out[:], bias_row[:] = -77, -77
        view = out.reshape(acc_rows, acc_columns)
        if acc is not None:
            view[:m, :n] = acc
        if bias is not None:
            bias_row[:n] = bias
        buffers = [self._place(a, 0), self._place(b, 1), bias_row, left, right, out]
        self.function(*(x.ctypes.data for x in buffers), m, k, n)
        return view[:m, :n].copy()
