"""Casts in every rounding mode against the two representable neighbours of the exact value."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.dialects.operators import ROUND_MODES
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.targets import A2A3, A5
from tests.native import map_function

PAIRS = sorted(
    {(s, t) for target in (A2A3, A5) for s, ts in target.casts.items() for t in ts},
    key=lambda p: (p[0].name, p[1].name),
)


def run(values: np.ndarray, source: DType, target: DType, mode: str) -> np.ndarray:
    def body(e, x):
        result = convert.cast(e, convert.widen(e, x, source), source, target, mode)
        return convert.narrow(e, result, target)

    padded = np.concatenate([values, np.zeros(-values.size % 16, values.dtype)])
    results = np.empty(padded.size, target.numpy)
    map_function(body, convert.stored(source), convert.stored(target))(padded, results)
    return results[: values.size]


def samples(dtype: DType) -> np.ndarray:
    random = np.random.default_rng(7)
    if dtype.bits == 8:
        return np.arange(256, dtype=np.uint8).view(dtype.numpy)
    if dtype.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    if dtype == INT32:
        small = np.arange(-70000, 70000, 7)
        wide = random.integers(-(2**31), 2**31, 5000)
        edges = [-(2**31), 2**31 - 1, 2**24 + 1, -(2**24) - 1, 2**24 + 3, 2**25 + 2, 65504, 65519, 65520, 65521, 2049]
        return np.concatenate([small, wide, edges]).astype(np.int32)
    patterns = np.arange(0, 2**32, 400_009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ties = np.arange(-70, 70, dtype=np.float32) / 2
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)[::5]
    with np.errstate(all="ignore"):
        middles = (halves + np.nextafter(halves.astype(np.float16), np.float16(9e9)).astype(np.float32)) / 2
    near = random.normal(size=4000).astype(np.float32) * 40000
    edges = np.array([2**31, -(2**31), 2147483520, -2147483904, 65504, 65519, 65520, 1e30, -1e30], np.float32)
    return np.concatenate([patterns, ties, halves, middles, near, edges])


def neighbours(exact: np.ndarray, target: DType) -> tuple[np.ndarray, np.ndarray]:
    """The largest value not above and the smallest not below, as float64."""
    if not target.is_float:
        return np.floor(exact), np.ceil(exact)
    # The patterns of a format, in order of value.
    if target == FP32:
        nearest = exact.astype(np.float32)
        low = np.where(nearest > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        high = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
        return low.astype(np.float64), high.astype(np.float64)
    grid = np.arange(65536, dtype=np.uint16).view(target.numpy).astype(np.float64)
    grid = np.unique(grid[~np.isnan(grid)])
    above = np.searchsorted(grid, exact, side="left")
    below = np.searchsorted(grid, exact, side="right") - 1
    return grid[below], grid[np.minimum(above, grid.size - 1)]


def is_odd(values: np.ndarray, target: DType) -> np.ndarray:
    if not target.is_float:
        return values % 2 != 0
    width = np.uint32 if target == FP32 else np.uint16
    return values.astype(target.numpy).view(width) & 1 == 1


def expected(values: np.ndarray, source: DType, target: DType, mode: str) -> np.ndarray:
    exact = values.astype(np.float64)
    if mode == "none":
        mode = "rint" if target.is_float else "trunc"
    finite = np.where(np.isfinite(exact), exact, 0)
    low, high = neighbours(finite, target)
    with np.errstate(all="ignore"):
        # Nearest in a format without bounds: what lies beyond the largest finite value plus half a step is infinite.
        top = {FP16: 65536.0, BF16: 2.0**128, FP32: 2.0**128}.get(target, np.inf)
        bounded_low = np.where(np.isinf(low), -top, low)
        bounded_high = np.where(np.isinf(high), top, high)
        below, above = finite - bounded_low, bounded_high - finite
        nearer = np.where(below < above, low, high)
        away = np.where(finite < 0, low, high)
        odd = np.where(is_odd(low, target), low, high)
        chosen = {
            "floor": low,
            "ceil": high,
            "trunc": np.where(finite < 0, high, low),
            "rint": np.where(below == above, np.where(is_odd(low, target), high, low), nearer),
            "round": np.where(below == above, away, nearer),
            "odd": np.where(low == high, low, odd),
        }[mode]
    result = np.where(np.isfinite(exact), chosen, exact)
    if target.is_float:
        return result
    info = np.iinfo(target.numpy)
    return np.clip(np.where(np.isnan(result), 0, result), info.min, info.max)


@pytest.mark.parametrize("mode", ROUND_MODES)
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda d: d.name)
def test_cast(source, target, mode):
    values = samples(source)
    actual = run(values, source, target, mode)
    if not source.is_float and not target.is_float:
        np.testing.assert_array_equal(actual, values.astype(target.numpy))
        return
    want = expected(values, source, target, mode)
    np.testing.assert_array_equal(actual.astype(np.float64), want)


@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_narrowing_rounds_to_nearest_even(dtype):
    values = samples(FP32)
    padded = np.concatenate([values, np.zeros(-values.size % 16, np.float32)])
    results = np.empty(padded.size, dtype.numpy)
    map_function(lambda e, x: convert.narrow(e, x, dtype), "f32", convert.stored(dtype))(padded, results)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(results.astype(np.float64), padded.astype(dtype.numpy).astype(np.float64))


def test_stored_forms():
    assert [convert.stored(d) for d in (FP32, FP16, BF16, INT32, INT16, INT8, UINT8)] == [
        "f32", "f16", "i16", "i32", "i16", "i8", "i8",
    ]  # fmt: skip
