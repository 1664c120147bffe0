"""Matrix products on the CPU against NumPy in float64 and int64."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, DType
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.description import CpuDescription, host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter
from pypto_jit.lowering.cpu.matmul import Blocking, CubeBuffer, Panels, blocking_for, emit_matmul, panels
from tests.unit.lowering.cpu.cube_harness import Product, module_text

DTYPES = (FP32, FP16, BF16, INT8)
WIDTHS = (64, 32, 16)
EXTENTS = [
    (1, 1, 1),
    (1, 64, 1),
    (2, 3, 5),
    (7, 13, 17),
    (8, 16, 48),
    (9, 17, 49),
    (31, 29, 23),
    (33, 41, 81),
    (47, 1, 112),
    (48, 64, 97),
]


def cpu(width: int) -> CpuDescription:
    return replace(host_cpu(), vector_bytes=width, tiles=False)


def matrices(dtype: DType, m: int, k: int, n: int, seed: int = 0) -> list[np.ndarray]:
    """Left, right, accumulator and bias."""
    rng = np.random.default_rng([seed, m, k, n])
    if dtype == INT8:
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        acc, bias = (rng.integers(-(10**6), 10**6, shape).astype(np.int32) for shape in ((m, n), n))
    else:
        a, b = (rng.standard_normal(shape).astype(dtype.numpy) for shape in ((m, k), (k, n)))
        acc, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, n), n))
    return [a, b, acc, bias]


def check(product: Product, m: int, k: int, n: int) -> None:
    a, b, acc, bias = matrices(product.dtype, m, k, n)
    wide = np.int64 if product.dtype == INT8 else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    # A sum of k products, each rounded once in float32, is off by at most k roundings of the sum of magnitudes.
    bound = (k + 1) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + 8)
    if product.start == "acc":
        expected = expected + acc
    elif product.start == "bias":
        expected = expected + bias
    found = product.run(a, b, acc, bias)
    if product.dtype == INT8:
        np.testing.assert_array_equal(found, expected)
    else:
        assert (np.abs(found - expected) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_extents_known_at_run_time(dtype, width):
    product = Product(cpu(width), dtype, (48, 64, 112), dynamic=True)
    for extents in EXTENTS:
        check(product, *extents)


@pytest.mark.parametrize("extents", [(1, 1, 1), (3, 7, 2), (17, 19, 35), (16, 64, 96), (8, 5, 256)])
def test_extents_known_while_compiling(extents):
    check(Product(cpu(64), FP32, extents), *extents)


@pytest.mark.parametrize("start", ["acc", "bias"])
@pytest.mark.parametrize("dtype", [FP32, INT8], ids=str)
def test_what_the_product_is_added_to(dtype, start):
    product = Product(cpu(64), dtype, (48, 64, 112), start=start, dynamic=True)
    for extents in EXTENTS:
        check(product, *extents)


def test_no_products_sum_to_zero_and_no_rows_or_columns_are_nothing():
    product = Product(cpu(64), FP32, (16, 16, 48), dynamic=True)
    a, b = np.ones((3, 0), np.float32), np.ones((0, 5), np.float32)
    np.testing.assert_array_equal(product.run(a, b), np.zeros((3, 5)))
    for m, n in ((0, 5), (3, 0)):
        a, b = np.ones((m, 4), np.float32), np.ones((4, n), np.float32)
        assert product.run(a, b).shape == (m, n)


@pytest.mark.parametrize("start", ["zero", "bias"])
def test_int8_is_exact_at_the_extremes(start):
    product = Product(cpu(64), INT8, (1, 2080, 5), start=start, dynamic=True)
    for k in (1, 1023, 1024, 1025, 2047, 2048, 2049, 2080):
        a, b = np.full((1, k), -128, np.int8), np.full((k, 5), -128, np.int8)
        b[:, 1], b[:, 2] = 127, 0
        bias = np.array([2**31 - 1 - 128 * 128 * 2080, -1, 7, 0, 1], np.int32)
        expected = k * np.array([16384, -16256, 0, 16384, 16384], np.int64) + (bias if start == "bias" else 0)
        np.testing.assert_array_equal(product.run(a, b, bias=bias)[0], expected)


def test_an_odd_sum_of_the_largest_products_is_exact():
    # 1024 products of 2^14 are 2^24; one odd product among fewer keeps the sum odd, which float32 must not round.
    product = Product(cpu(64), INT8, (1, 1024, 1))
    a, b = np.full((1, 1024), -128, np.int8), np.full((1024, 1), -128, np.int8)
    a[0, 1000], b[1000, 0] = 1, 1
    assert product.run(a, b)[0, 0] == 1023 * 16384 + 1


def test_nan_and_infinity_reach_their_row_and_column_only():
    product = Product(cpu(64), FP32, (9, 5, 33))
    a, b = np.ones((9, 5), np.float32), np.ones((5, 33), np.float32)
    a[2, 3], b[4, 30] = np.nan, np.inf
    expected = np.full((9, 33), 5.0)
    expected[:, 30], expected[2, :] = np.inf, np.nan
    np.testing.assert_array_equal(product.run(a, b), expected)


def test_a_block_fits_the_registers():
    assert blocking_for(cpu(64)) == Blocking(8, 3, 16)
    assert blocking_for(cpu(32)) == Blocking(4, 3, 8)
    assert blocking_for(cpu(16)) == Blocking(4, 3, 4)


def test_panels_are_three_or_two_vectors_wide():
    blocking = Blocking(8, 3, 16)
    assert panels(48, blocking) == (Panels(0, 48, 3),)
    assert panels(256, blocking) == (Panels(0, 192, 3), Panels(192, 256, 2))
    assert panels(128, blocking) == (Panels(0, 96, 3), Panels(96, 128, 2))
    assert panels(64, blocking) == (Panels(0, 64, 2),)
    assert panels(16, blocking) == (Panels(0, 16, 1),)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_panels_cover_every_column_once(lanes):
    for columns in range(16, 16 * 20, 16):
        runs = panels(columns, Blocking(8, 3, lanes))
        assert runs[0].start == 0
        assert runs[-1].stop == columns
        assert all(a.stop == b.start for a, b in pairwise(runs))
        assert all((run.stop - run.start) % (run.vectors * lanes) == 0 for run in runs)


def _products(*shapes: tuple[int, int, int, int]) -> str:
    """A module of products of buffers: rows, depth, columns of Right and of Acc."""

    def build(e: Emitter, arguments: list[ir.Value]) -> None:
        left, right, acc = arguments
        for m, k, n, acc_columns in shapes:
            buffers = CubeBuffer(left, m, k), CubeBuffer(right, k, n), CubeBuffer(acc, m, acc_columns)
            emit_matmul(e, *buffers, (m, k, acc_columns))

    return module_text(build, cpu(64), 3)


def test_equal_products_share_their_code():
    # One function for the product of these shapes, one for its micro-kernel.
    assert _products((32, 16, 48, 48)).count("func.func private") == 2
    assert _products((32, 16, 48, 48), (32, 16, 48, 48)).count("func.func private") == 2
    assert _products((32, 16, 48, 48), (48, 16, 96, 96)).count("func.func private") == 3
    # Another row stride of Left, or another width of panels, is another micro-kernel.
    assert _products((32, 16, 48, 48), (32, 32, 48, 48)).count("func.func private") == 4
    assert _products((32, 16, 48, 48), (32, 16, 32, 32)).count("func.func private") == 4


def test_buffers_that_do_not_fit_are_refused():
    with pytest.raises(InternalError, match="do not fit"):
        _products((16, 16, 16, 32))
    with pytest.raises(InternalError, match="whole vectors"):
        panels(24, Blocking(8, 3, 16))
