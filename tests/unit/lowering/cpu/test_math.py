"""fp32 functions against float64, over the whole range of bit patterns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pypto_jit.lowering.cpu import math
from pypto_jit.lowering.cpu.description import host_cpu
from tests.native import map_function

REFERENCES = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
}
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38], np.float32)


def sample() -> np.ndarray:
    """Every 1009th bit pattern, both signs, all exponents."""
    patterns = np.arange(0, 2**32, 1009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.concatenate(
        [
            np.linspace(-104.5, -86, 200_000),
            np.linspace(88, 89.5, 20_000),
            np.linspace(0.5, 2, 200_000),
        ]
    ).astype(np.float32)
    values = np.concatenate([SPECIAL, edges, patterns])
    return np.concatenate([values, np.ones(-values.size % 16, np.float32)])


def ulps(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the exact result's binade, denormals included."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        magnitude = np.maximum(np.abs(exact), 2.0**-126)
        unit = np.exp2(np.floor(np.log2(magnitude)) - 23)
        distance = np.abs(actual.astype(np.float64) - exact) / unit
        same = (actual == nearest) | (np.isnan(actual) & np.isnan(nearest))
        # Just above the largest float, infinity and the largest float are both within half a unit.
        return np.where(same, 0, np.where(np.isfinite(actual) & np.isfinite(nearest), distance, np.inf))


def cpus():
    host = host_cpu()
    return [dataclasses.replace(host, vector_bytes=width) for width in (16, 32, 64) if width <= host.vector_bytes]


@pytest.mark.parametrize("cpu", cpus(), ids=lambda cpu: f"{cpu.vector_bytes}bytes")
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_within_two_ulps(name, cpu):
    values = sample()
    results = np.empty_like(values)
    map_function(getattr(math, name), "f32", "f32", cpu)(values, results)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values.astype(np.float64))
    error = ulps(results, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= 2, (values[worst], results[worst], exact[worst], error[worst])


def test_signed_zeros_and_infinities():
    def evaluate(name, value):
        values = np.full(16, value, np.float32)
        results = np.empty_like(values)
        map_function(getattr(math, name), "f32", "f32")(values, results)
        return results[0]

    assert evaluate("exp", -np.inf) == 0
    assert evaluate("exp", np.inf) == np.inf
    assert np.isnan(evaluate("exp", np.nan))
    assert evaluate("exp", -0.0) == 1
    assert evaluate("log", -0.0) == -np.inf
    assert evaluate("log", 0.0) == -np.inf
    assert np.isnan(evaluate("log", -1e-45))
    assert evaluate("log", 1.0) == 0
    assert np.signbit(evaluate("sqrt", -0.0))
    assert evaluate("rsqrt", 0.0) == np.inf
    assert evaluate("recip", -0.0) == -np.inf
    assert evaluate("recip", np.inf) == 0


def test_scalars_compute_the_same_as_vectors():
    values = np.concatenate([SPECIAL, np.linspace(-100, 100, 501, dtype=np.float32)])[:512].copy()
    for name in REFERENCES:
        wide, narrow = np.empty_like(values), np.empty_like(values)
        map_function(getattr(math, name), "f32", "f32")(values, wide)
        map_function(getattr(math, name), "f32", "f32", lanes=1)(values, narrow)
        np.testing.assert_array_equal(wide, narrow)


@pytest.mark.parametrize(("name", "reference"), [("maximum", np.maximum), ("minimum", np.minimum)])
def test_extremes_propagate_nan(name, reference):
    left = np.repeat(np.array([1, -1, np.nan, np.inf], np.float32), 4)
    right = np.array([2.0, -3.0, np.nan, -np.inf], np.float32)
    for value in right:
        results = np.empty_like(left)
        map_function(
            lambda e, x, value=value: getattr(math, name)(e, x, e.constant(float(value), "f32", e.lanes)), "f32", "f32"
        )(left, results)
        np.testing.assert_array_equal(results, reference(left, value))
