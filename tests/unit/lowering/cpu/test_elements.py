"""Integer division, the one elementwise operator with traps, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dtypes import INT8, INT16, INT32, DType
from pypto_jit.lowering.cpu.elements import ELEMENTS, start
from tests.native import build_function


def quotients(dtype: DType, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    element, size = dtype.signless, dtype.bytes

    def body(e, arguments):
        def step(index, carried):
            a, b = (e.load(e.address(p, e.mul(index, size)), element, e.lanes) for p in arguments[:2])
            result = ELEMENTS["div"].function(e, dtype, [a, b])
            e.store(result, e.address(arguments[2], e.mul(index, size)))
            return carried

        e.loop(0, arguments[3], e.lanes, [], step)

    result = np.zeros_like(left)
    build_function(("ptr", "ptr", "ptr", "i64"), body)(left, right, result, left.size)
    return result


@pytest.mark.parametrize("dtype", [INT8, INT16, INT32], ids=str)
def test_division_truncates_and_never_traps(dtype):
    info = np.iinfo(dtype.numpy)
    edges = [info.min, info.min + 1, -7, -1, 0, 1, 2, 3, 7, info.max - 1, info.max]
    random = np.random.default_rng(5)
    values = [*edges, *random.integers(info.min, info.max, 50, endpoint=True).tolist()]
    left, right = (np.array(v.ravel(), dtype.numpy) for v in np.meshgrid(values, values))
    pad = -left.size % 16
    left, right = np.concatenate([left, left[:pad]]), np.concatenate([right, right[:pad]])

    def exact(a: int, b: int) -> int:
        if b == 0:
            return 0
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return (quotient - info.min) % 2**dtype.bits + info.min

    wanted = [exact(int(a), int(b)) for a, b in zip(left, right, strict=True)]
    np.testing.assert_array_equal(quotients(dtype, left, right), wanted)


def test_neutral_elements():
    assert start("sum", INT8) == 0
    assert start("max", INT8) == -128
    assert start("min", INT16) == 32767
