from __future__ import annotations

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter
from tests.native import build_function

LANES = host_cpu().lanes


@pytest.mark.parametrize("element", ["i32", "i16", "i8"])
@pytest.mark.parametrize("count", [1, 2, LANES - 1, LANES])
@pytest.mark.parametrize("known", [True, False])
def test_narrowed_stores_touch_only_their_lanes(element, count, known):
    def body(e: Emitter, arguments: list[ir.Value]) -> None:
        value = e.load(arguments[0], "i32", e.lanes)
        if element != "i32":
            value = e.cast("trunci", value, element)
        e.store(value, arguments[1], e.first_lanes(count if known else arguments[2]))

    source = np.arange(0x01010101, 0x01010101 * (LANES + 1), 0x01010101, dtype=np.int32)[:LANES]
    target = np.full(2 * LANES, -1, f"i{int(element[1:]) // 8}")
    build_function(("ptr", "ptr", "i64"), body)(source, target, count)
    np.testing.assert_array_equal(target[:count], source[:count].astype(target.dtype))
    assert (target[count:] == -1).all()
