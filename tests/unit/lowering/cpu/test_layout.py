"""Transpose and concat, against the interpreter."""

from __future__ import annotations

import pytest

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8
from tests.native import check, numbers, whole


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8, UINT8, INT16, INT32], ids=str)
def test_moves_of_elements(dtype):
    def build(text):
        x, y = text.tensor((40, 64), dtype), text.tensor((40, 32), dtype)
        turned, beside = text.tensor((64, 40), dtype), text.tensor((40, 96), dtype)
        small, small_turned = text.tensor((5, 3), dtype), text.tensor((3, 5), dtype)
        tile = whole(text, x)
        text.store(text.operator("transpose", tile), turned, [0, 0])
        text.store(text.operator("concat", tile, whole(text, y)), beside, [0, 0])
        text.store(text.operator("transpose", whole(text, small)), small_turned, [0, 0])

    shapes = [(40, 64), (40, 32), (64, 40), (40, 96), (5, 3), (3, 5)]
    arrays = [numbers(shape, dtype) for shape in shapes]
    check(build, arrays)
