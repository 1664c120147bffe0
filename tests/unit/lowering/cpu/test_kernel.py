"""Whole kernels: the table's rows all have code, matrix products, and what a lowered function says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dialects.operators import ROWS
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32
from pypto_jit.lowering.cpu.elements import ELEMENTS, FOLDS
from pypto_jit.lowering.cpu.kernel import ALONE
from pypto_jit.targets import Space
from tests.module_text import ModuleText
from tests.native import Kernel, check, numbers, whole


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8], ids=str)
def test_matmul_with_accumulation(dtype):
    m, k, n = 40, 96, 50
    total = INT32 if dtype == INT8 else FP32

    def build(text):
        a, b = text.tensor((m, k), dtype), text.tensor((k, n), dtype)
        bias, out = text.tensor((1, n), total), text.tensor((m, n), total)
        left, right = (text.load(t, [0, 0], s, space=Space.MAT) for t, s in ((a, (m, 48)), (b, (48, n))))
        row = text.load(bias, [0, 0], (1, n), space=Space.MAT)
        acc = text.operator("matmul_bias", left, right, row)
        left, right = (
            text.load(t, o, s, space=Space.MAT) for t, o, s in ((a, [0, 48], (m, 48)), (b, [48, 0], (48, n)))
        )
        text.store(text.operator("matmul_acc", acc, left, right), out, [0, 0])

    arrays = [numbers((m, k), dtype), numbers((k, n), dtype), numbers((1, n), total), np.zeros((m, n), total.numpy)]
    check(build, arrays, tolerance=1e-4)


def test_every_row_of_the_table_has_code():
    handled = set(ELEMENTS) | set(ALONE) | {"cast"} | {f"row_{name}" for name in FOLDS}
    assert {row.name for row in ROWS if row.instruction is not None} == handled


def test_attributes_of_a_kernel():
    text = ModuleText()
    x, out = text.tensor((64, 32), FP32), text.tensor((64, 32), FP32)
    with text.loop(64, 4, parallel=True) as loop:
        tile = text.operator("exp", text.load(x, [loop.index, 0], [4, 32]))
        text.store(text.operator("neg", tile), out, [loop.index, 0])
    lowered = Kernel(text).lowered
    assert "pypto.trips = 16" in lowered
    # Load, exp, neg and store of 128 elements, 16 times.
    assert f"pypto.work = {4 * 128 * 16}" in lowered
    assert "!pto" not in lowered
    assert "pto.entry" not in lowered


def test_loops_carry_tiles():
    def build(text):
        x, out = text.tensor((40, 32), FP32), text.tensor((4, 32), FP32)
        start = text.operator("muls", text.load(x, [0, 0], [4, 32]), text.constant("2.0", "f32"))
        with text.loop(40, 4, [start]) as loop:
            tile = text.load(x, [loop.index, 0], [4, 32])
            loop.yields = [text.operator("add", text.operator("maximum", loop.carried[0], tile), tile)]
        text.store(loop.results[0], out, [0, 0])

    check(build, [numbers((40, 32), FP32), np.zeros((4, 32), np.float32)])


def test_buffers_that_reuse_addresses_keep_their_contents():
    """Tiles of two dtypes fill the memory, so that the plan reuses addresses at other offsets."""

    def build(text):
        x, y = text.tensor((24, 512), FP32), text.tensor((24, 512), FP16)
        out, narrow = text.tensor((24, 512), FP32), text.tensor((24, 512), FP16)
        a = whole(text, x)
        b = text.operator("exp", a)
        c = text.operator("cast", whole(text, y), dtype=FP32, mode="none")
        d = text.operator("add", text.operator("mul", b, c), text.operator("sub", a, c))
        e = text.operator("cast", d, dtype=FP16, mode="rint")
        text.store(text.operator("row_expand_mul", d, text.operator("row_max", c)), out, [0, 0])
        text.store(text.operator("add", e, e), narrow, [0, 0])

    arrays = [numbers((24, 512), FP32), numbers((24, 512), FP16), np.zeros((24, 512), np.float32)]
    check(build, [*arrays, np.zeros((24, 512), np.float16)], tolerance=1e-5)
