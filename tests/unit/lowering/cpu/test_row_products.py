"""Products of few rows that read their right operand where it lies, against NumPy in float64 and int64."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dtypes import FP32, INT8
from pypto_jit.errors import InternalError
from tests.unit.lowering.cpu.cube_harness import Product, module_text
from tests.unit.lowering.cpu.test_matmul import DTYPES, WIDTHS, check, cpu

INNER = [(1, 1), (64, 1), (7, 5), (16, 48), (31, 97), (33, 16), (64, 113)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns_side_by_side", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_depth_and_columns_known_at_run_time(rows, columns_side_by_side, width, dtype):
    order = False, columns_side_by_side
    product = Product(cpu(width), dtype, (rows, 64, 113), dynamic=True, column_major=order, padded=False, streamed=True)
    for inner in INNER:
        check(product, rows, *inner)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("columns_side_by_side", [False, True])
@pytest.mark.parametrize("start", ["zero", "acc", "bias"])
@pytest.mark.parametrize("dtype", [FP32, INT8], ids=str)
def test_all_extents_known_while_compiling(dtype, start, columns_side_by_side, inner):
    order = False, columns_side_by_side
    for rows in (1, 3):
        product = Product(cpu(32), dtype, (rows, *inner), start, column_major=order, padded=False, streamed=True)
        check(product, rows, *inner)


@pytest.mark.parametrize("columns_side_by_side", [False, True])
def test_the_largest_int8_sums_are_exact(columns_side_by_side):
    order = False, columns_side_by_side
    product = Product(cpu(32), INT8, (1, 4096, 16), column_major=order, padded=False, streamed=True)
    a, b = np.full((1, 4096), -128, np.int8), np.full((4096, 16), -128, np.int8)
    b[0] = 127
    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(product.run(a, b), expected)


def test_memory_whose_elements_lie_apart_is_refused():
    product = Product(cpu(32), FP32, (1, 16, 16), padded=False, streamed=True)
    product._strides = lambda side: (32, 2)
    with pytest.raises(InternalError, match="elements lie apart"):
        module_text(product._build, cpu(32), 6, 3)
