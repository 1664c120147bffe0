"""Moves into Left and Right: every value converts exactly, from every orientation, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, DType
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter
from pypto_jit.lowering.cpu.matmul import CubeBuffer, blocking_for, panels
from pypto_jit.lowering.cpu.packing import Source, emit_move_to_left, emit_move_to_right, transpose_block
from tests.unit.lowering.cpu.cube_harness import compile_function, fenced

DTYPES = (FP32, FP16, BF16, INT8)
ROWS, COLUMNS = 32, 112


def compile_move(dtype: DType, to: str, strides: tuple[int | None, int | None], width: int, *, padded: bool = False):
    """A function (source, destination, rows, columns, row stride, column stride); a stride of None is read from it."""

    def build(e: Emitter, arguments: list[ir.Value]) -> None:
        source, destination, rows, columns, row_stride, column_stride = arguments
        given = [row_stride if strides[0] is None else strides[0], column_stride if strides[1] is None else strides[1]]
        emit = emit_move_to_left if to == "left" else emit_move_to_right
        buffer = CubeBuffer(destination, ROWS, COLUMNS)
        emit(e, Source(source, dtype, (given[0], given[1]), padded), buffer, (rows, columns))

    return compile_function(build, replace(host_cpu(), vector_bytes=width), 2, 4)


def unpacked(buffer: np.ndarray, to: str, width: int) -> np.ndarray:
    """Left or Right as a matrix."""
    if to == "left":
        return buffer.reshape(ROWS, COLUMNS)
    found = np.empty((ROWS, COLUMNS), np.float32)
    cpu = replace(host_cpu(), vector_bytes=width)
    for run in panels(COLUMNS, blocking_for(cpu)):
        step = run.vectors * cpu.lanes
        for first in range(run.start, run.stop, step):
            panel = buffer[first * ROWS : (first + step) * ROWS]
            found[:, first : first + step] = panel.reshape(ROWS, step)
    return found


def values(dtype: DType, count: int) -> np.ndarray:
    """Distinct values, the special ones among them."""
    if dtype == INT8:
        return (np.arange(count) * 37 % 256 - 128).astype(np.int8)
    found = np.linspace(-3, 5, count).astype(dtype.numpy)
    found[:6] = [np.inf, -np.inf, -0.0, 0.0, np.finfo(np.float32).tiny, np.nan]
    return found


def check_move(function, dtype: DType, to: str, shape: tuple[int, int], strides: tuple[int, int], width: int) -> None:
    rows, columns = shape
    size = 1 + (rows - 1) * strides[0] + (columns - 1) * strides[1] if rows and columns else 1
    memory = fenced(size, dtype.numpy)
    memory[:] = values(dtype, max(size, 6))[:size]
    source = np.lib.stride_tricks.as_strided(memory, shape, [s * dtype.bytes for s in strides])
    destination = fenced(ROWS * COLUMNS, np.float32)
    function(memory.ctypes.data, destination.ctypes.data, rows, columns, *strides)
    found = unpacked(destination, to, width)[:rows, :columns]
    np.testing.assert_array_equal(found, source.astype(np.float32))


SHAPES = [(1, 1), (3, 16), (5, 47), (16, 96), (17, 111), (32, 112), (0, 5), (5, 0)]


@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", ["left", "right"])
def test_rows_of_global_memory(dtype, to, width):
    function = compile_move(dtype, to, (None, 1), width)
    for rows, columns in SHAPES:
        check_move(function, dtype, to, (rows, columns), (columns + 3, 1), width)


@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", ["left", "right"])
def test_columns_of_global_memory(dtype, to, width):
    function = compile_move(dtype, to, (1, None), width)
    for rows, columns in SHAPES:
        check_move(function, dtype, to, (rows, columns), (1, rows + 5), width)


@pytest.mark.parametrize("to", ["left", "right"])
def test_strides_known_only_at_run_time(to):
    function = compile_move(FP32, to, (None, None), 64)
    for rows, columns in SHAPES:
        for strides in ((columns + 1, 1), (1, rows + 1), (2 * columns + 1, 2), (0, 1), (0, 0)):
            check_move(function, FP32, to, (rows, columns), strides, 64)


@pytest.mark.parametrize("to", ["left", "right"])
def test_known_strides_with_neither_axis_consecutive(to):
    function = compile_move(FP16, to, (300, 2), 64)
    check_move(function, FP16, to, (9, 50), (300, 2), 64)


@pytest.mark.parametrize("strides", [(COLUMNS, 1), (1, ROWS)])
@pytest.mark.parametrize("to", ["left", "right"])
def test_tile_buffers_are_read_in_whole_vectors(to, strides):
    function = compile_move(FP32, to, strides, 64, padded=True)
    memory = fenced(ROWS * COLUMNS, np.float32)
    memory[:] = np.arange(ROWS * COLUMNS)
    source = np.lib.stride_tricks.as_strided(memory, (ROWS, COLUMNS), [4 * s for s in strides])
    for rows, columns in SHAPES:
        destination = fenced(ROWS * COLUMNS, np.float32)
        function(memory.ctypes.data, destination.ctypes.data, rows, columns, 0, 0)
        found = unpacked(destination, to, 64)[:rows, :columns]
        np.testing.assert_array_equal(found, source[:rows, :columns])


@pytest.mark.parametrize("dtype", [FP16, BF16, INT8], ids=str)
def test_every_value_converts_exactly(dtype):
    function = compile_move(dtype, "left", (COLUMNS, 1), 64, padded=True)
    count = 2**dtype.bits
    patterns = np.arange(count, dtype=np.uint32).astype(np.uint16 if dtype.bits == 16 else np.uint8).view(dtype.numpy)
    step = ROWS * COLUMNS
    for first in range(0, count, step):
        part = np.zeros(step, dtype.numpy)
        part[: min(step, count - first)] = patterns[first : first + step]
        destination = fenced(step, np.float32)
        function(part.ctypes.data, destination.ctypes.data, ROWS, COLUMNS, 0, 0)
        expected = part.astype(np.float32)
        np.testing.assert_array_equal(destination, expected)
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(destination[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("count", [4, 8, 16])
def test_a_block_is_transposed(count):
    def build(e: Emitter, arguments: list[ir.Value]) -> None:
        rows = [e.load(e.address(arguments[0], 4 * count * k), "f32", count) for k in range(count)]
        for k, row in enumerate(transpose_block(e, rows)):
            e.store(row, e.address(arguments[1], 4 * count * k))

    function = compile_function(build, host_cpu(), 2)
    source, found = fenced(count * count, np.float32), fenced(count * count, np.float32)
    source[:] = np.arange(count * count)
    function(source.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found.reshape(count, count), source.reshape(count, count).T)
