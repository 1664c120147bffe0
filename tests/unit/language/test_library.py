"""Composite operators against torch in float64, by the interpreter."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit.language as pl
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dtypes import BF16, FP16, FP32, INT32
from pypto_jit.errors import DTypeError
from tests.tracing import spec, with_trace

F = torch.nn.functional
COLUMNS = 256
ORDINARY = numpy.concatenate(
    [numpy.linspace(-20, 20, 8001), numpy.geomspace(1e-38, 100, 2000), -numpy.geomspace(1e-38, 100, 2000)]
).astype(numpy.float32)
COMPOSITES = {
    "sigmoid": (pl.sigmoid, torch.sigmoid),
    "silu": (pl.silu, F.silu),
    "gelu": (pl.gelu, F.gelu),
    "gelu_tanh": (lambda t: pl.gelu(t, approximate="tanh"), lambda t: F.gelu(t, approximate="tanh")),
    "tanh": (pl.tanh, torch.tanh),
}


def run(operator, values, dtype=FP32):
    """An operator on a vector of values."""
    rows = -(-values.size // COLUMNS)
    padded = numpy.zeros(rows * COLUMNS, dtype.numpy)
    padded[: values.size] = values
    padded = padded.reshape(rows, COLUMNS)
    out = numpy.zeros_like(padded)

    def kernel(x, y):
        pl.store(operator(pl.load(x, [0, 0], [rows, COLUMNS])), [0, 0], y)

    tensor = spec(rows, COLUMNS, dtype=dtype)
    with numpy.errstate(all="ignore"):
        with_trace(kernel, tensor, tensor, then=lambda traced: interpret(traced.module, [padded, out]))
    return out.reshape(-1)[: values.size]


@pytest.mark.parametrize(("name", "error"), [("sigmoid", 2e-7), ("silu", 4e-7), ("gelu", 5e-7), ("gelu_tanh", 5e-7)])
def test_absolute_error(name, error):
    operator, reference = COMPOSITES[name]
    expected = reference(torch.from_numpy(ORDINARY).double()).numpy()
    found = run(operator, ORDINARY).astype(numpy.float64)
    assert numpy.max(numpy.abs(found - expected) / numpy.maximum(1, numpy.abs(expected))) < error


def test_tanh_is_within_six_ulp_everywhere_and_never_above_one():
    expected = numpy.tanh(ORDINARY.astype(numpy.float64))
    found = run(pl.tanh, ORDINARY)
    ulp = numpy.spacing(numpy.abs(expected).astype(numpy.float32)).astype(numpy.float64)
    assert numpy.max(numpy.abs(found.astype(numpy.float64) - expected) / ulp) <= 6
    assert numpy.max(numpy.abs(found)) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sigmoid", [1, 0, 0.5, 0.5, 1, 0]),
        ("silu", [numpy.inf, numpy.nan, 0, -0.0, 1e30, 0]),
        ("gelu", [numpy.inf, 0, 0, -0.0, 1e30, 0]),
        ("gelu_tanh", [numpy.inf, numpy.nan, 0, -0.0, 1e30, 0]),
        ("tanh", [1, -1, 0, -0.0, 1, -1]),
    ],
)
def test_infinities_zeros_and_large_numbers(name, expected):
    values = numpy.array([numpy.inf, -numpy.inf, 0.0, -0.0, 1e30, -1e30], numpy.float32)
    found = run(COMPOSITES[name][0], values)
    numpy.testing.assert_allclose(found, numpy.array(expected, numpy.float32), atol=1e-40)
    if expected[2] == 0:
        assert numpy.signbit(found[2:4]).tolist() == [False, True]


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_nan_stays_nan(name):
    assert numpy.isnan(run(COMPOSITES[name][0], numpy.array([numpy.nan], numpy.float32))).all()


@pytest.mark.parametrize("name", sorted(COMPOSITES))
@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_narrow_floats_are_rounded_once(name, dtype):
    operator, reference = COMPOSITES[name]
    # In the left tails of gelu only the absolute error is small.
    values = numpy.linspace(-2, 8, 1001).astype(dtype.numpy)
    exact = reference(torch.from_numpy(values.astype(numpy.float64)))
    expected = exact.to(getattr(torch, dtype.torch)).double().numpy()
    found = run(operator, values, dtype).astype(numpy.float64)
    step = 2.0**-10 if dtype == FP16 else 2.0**-7
    # A value that lies next to the middle of two may fall to either side.
    assert numpy.mean(found != expected) < 0.01
    assert numpy.all(numpy.abs(found - expected) <= step * numpy.maximum(numpy.abs(expected), 2.0**-14) * 1.01)


@pytest.mark.parametrize("dtype", [FP32, FP16])
def test_softmax(dtype):
    values = numpy.linspace(-30, 30, 2 * COLUMNS).astype(dtype.numpy)
    expected = torch.softmax(torch.from_numpy(values.astype(numpy.float64)).reshape(2, -1), -1).numpy()
    found = run(pl.softmax, values, dtype).reshape(2, -1).astype(numpy.float64)
    numpy.testing.assert_allclose(found, expected, atol=1e-7 if dtype == FP32 else 1e-4)


def test_integers_are_refused_with_the_callers_line():
    def kernel(x, out):
        pl.store(pl.tanh(pl.load(x, [0, 0], [1, COLUMNS])) * 0.5, [0, 0], out)

    tensor = spec(1, COLUMNS, dtype=INT32)
    with pytest.raises(DTypeError) as caught:
        with_trace(kernel, tensor, tensor, then=lambda traced: None)
    assert caught.value.span is not None
    assert caught.value.span.line == kernel.__code__.co_firstlineno + 1
