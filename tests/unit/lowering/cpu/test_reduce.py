"""Reductions along rows and columns, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dtypes import FP16, FP32, INT16, INT32
from tests.native import check, numbers, whole


@pytest.mark.parametrize("dtype", [FP32, FP16, INT32, INT16], ids=str)
@pytest.mark.parametrize("shape", [(4, 9), (3, 300), (1, 16), (33, 1)], ids=str)
def test_reductions(dtype, shape):
    def build(text):
        x = text.tensor(shape, dtype)
        for name in ("sum", "max", "min"):
            rows, columns = text.tensor((shape[0], 1), dtype), text.tensor((1, shape[1]), dtype)
            tile = whole(text, x)
            text.store(text.operator(f"row_{name}", tile), rows, [0, 0])
            text.store(text.operator(f"col_{name}", tile), columns, [0, 0])

    arrays = [numbers(shape, dtype)]
    for _ in range(3):
        arrays += [np.zeros((shape[0], 1), dtype.numpy), np.zeros((1, shape[1]), dtype.numpy)]
    check(build, arrays, tolerance=1e-5)
