"""Matrix products in tile registers against NumPy in float64 and int64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pypto_jit.dtypes import BF16, FP16, FP32, INT8
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.cube_tiles import emit_pack_left, emit_tile_product, has_tiles
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.matmul import CubeBuffer
from pypto_jit.lowering.cpu.packing import Source
from tests.unit.lowering.cpu.cube_harness import Product, module_text
from tests.unit.lowering.cpu.test_matmul import EXTENTS, check

TILES = replace(host_cpu(), vector_bytes=64, tiles=True)
needs_tiles = pytest.mark.skipif(not host_cpu().tiles, reason="the processor has no tile registers")
MORE = [*EXTENTS, (16, 32, 16), (32, 64, 32), (17, 33, 17), (48, 63, 112), (33, 2, 33), (16, 31, 65)]


def test_which_products_use_tile_registers():
    assert has_tiles(TILES, BF16)
    assert has_tiles(TILES, INT8)
    assert not has_tiles(TILES, FP16)
    assert not has_tiles(TILES, FP32)
    assert not has_tiles(replace(TILES, tiles=False), BF16)
    assert not has_tiles(replace(TILES, vector_bytes=32), BF16)


@needs_tiles
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("column_major", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", [BF16, INT8], ids=str)
def test_extents_known_at_run_time(dtype, column_major, padded):
    product = Product(TILES, dtype, (48, 64, 112), dynamic=True, column_major=column_major, padded=padded)
    for extents in MORE:
        check(product, *extents)


@needs_tiles
@pytest.mark.parametrize("extents", [(1, 1, 1), (3, 7, 2), (17, 19, 35), (16, 64, 96), (8, 5, 256), (48, 80, 16)])
@pytest.mark.parametrize("dtype", [BF16, INT8], ids=str)
def test_extents_known_while_compiling(dtype, extents):
    check(Product(TILES, dtype, extents, padded=False), *extents)


@needs_tiles
@pytest.mark.parametrize("start", ["acc", "bias"])
@pytest.mark.parametrize("dtype", [BF16, INT8], ids=str)
def test_what_the_product_is_added_to(dtype, start):
    product = Product(TILES, dtype, (48, 64, 112), start=start, dynamic=True)
    for extents in MORE:
        check(product, *extents)


@needs_tiles
def test_int8_is_exact_at_the_extremes():
    product = Product(TILES, INT8, (1, 2080, 5), dynamic=True)
    for k in (1, 1023, 2049, 2080):
        a, b = np.full((1, k), -128, np.int8), np.full((k, 5), -128, np.int8)
        b[:, 1] = 127
        expected = k * np.array([16384, -16256, 16384, 16384, 16384], np.int64)
        np.testing.assert_array_equal(product.run(a, b)[0], expected)


@needs_tiles
def test_nan_and_infinity_reach_their_row_and_column_only():
    product = Product(TILES, BF16, (19, 5, 33))
    a, b = np.ones((19, 5), BF16.numpy), np.ones((5, 33), BF16.numpy)
    a[2, 3], b[4, 30] = np.nan, np.inf
    expected = np.full((19, 33), 5.0)
    expected[:, 30], expected[2, :] = np.inf, np.nan
    np.testing.assert_array_equal(product.run(a, b), expected)


@needs_tiles
def test_no_products_sum_to_zero_and_no_rows_or_columns_are_nothing():
    product = Product(TILES, BF16, (16, 16, 48), dynamic=True)
    a, b = np.ones((3, 0), BF16.numpy), np.ones((0, 5), BF16.numpy)
    np.testing.assert_array_equal(product.run(a, b), np.zeros((3, 5)))
    for m, n in ((0, 5), (3, 0)):
        assert product.run(np.ones((m, 4), BF16.numpy), np.ones((4, n), BF16.numpy)).shape == (m, n)


def test_buffers_that_do_not_fit_are_refused():
    def product(e, arguments):
        left, right, acc = (CubeBuffer(a, 16, 16) for a in arguments)
        emit_tile_product(e, left, replace(right, rows=32), acc, (16, 16, 16), BF16)

    def pack(e, arguments):
        emit_pack_left(e, Source(arguments[0], BF16, (8, 1), False), CubeBuffer(arguments[1], 16, 8), (16, 8))

    for build in (product, pack):
        with pytest.raises(InternalError):
            module_text(build, TILES, 3)
