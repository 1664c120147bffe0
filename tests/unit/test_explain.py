"""A kernel says why its last call found no specialization."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.options import RunConfig

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)
FACTOR = 2.0
TABLE = {"bias": [1.0, 2.5]}


def helper(t):
    return t + 1.0


def body(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 6):
    pl.store(helper(pl.load(x, [0, 0], [6, 6])) * FACTOR + TABLE["bias"][0], [0, 0], out)


@pytest.fixture
def kernel():
    made = pypto.jit(body)
    made(X, torch.zeros(6, 6))
    return made


def lines(kernel) -> list[str]:
    """What differs."""
    return [line.strip() for line in kernel.explain_last_miss().splitlines()[1:]]


def test_before_any_miss_and_at_the_first():
    made = pypto.jit(body)
    assert made.explain_last_miss() == "kernel 'body' has missed no specialization yet"
    made.compile(X, torch.zeros(6, 6))
    assert made.explain_last_miss() == "kernel 'body' had no specialization"
    made.cache_clear()
    assert "missed no" in made.explain_last_miss()


def test_arguments(kernel):
    kernel.compile(X.double().to(torch.float16), torch.zeros(6, 6, dtype=torch.float16))
    assert lines(kernel) == ["x: dtype was FP32, now FP16", "out: dtype was FP32, now FP16"]
    kernel(torch.zeros(7, 8), torch.zeros(6, 6))
    assert lines(kernel) == ["x: shape was [6, 8], now [7, 8]"]
    kernel(torch.zeros(8, 6).t(), torch.zeros(6, 6))
    assert lines(kernel) == ["x: was contiguous, now strided [-1, -1] (-1: read at run time)"]
    kernel(X, torch.zeros(6, 6), True)
    assert lines(kernel) == ["rows was any INDEX scalar, now any BOOL scalar"]
    kernel(X)
    assert lines(kernel) == ["out was a tensor, now left out"]


def test_options(kernel):
    kernel(X, torch.zeros(6, 6), config=RunConfig(opt_level=1))
    assert lines(kernel) == ["option opt_level was 2, now 1"]


def test_recorded_reads(kernel, monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    kernel(X, torch.zeros(6, 6))
    assert lines(kernel) == ["FACTOR, which the kernel reads, was 2.0, now 4.0"]
    monkeypatch.setitem(TABLE, "bias", [3])
    kernel(X, torch.zeros(6, 6))
    assert lines(kernel) == [
        "TABLE, which the kernel reads, was {'bias': list(1.0, 2.5)}, now {'bias': list(3)}",
    ]
    monkeypatch.setitem(globals(), "helper", lambda t: t + 2.0)
    kernel(X, torch.zeros(6, 6))
    (line,) = lines(kernel)
    assert "helper, which the kernel reads, was the function helper of line" in line
    assert "<lambda>" in line


def test_the_nearest_is_the_one_that_differs_least(kernel):
    kernel(X, torch.zeros(6, 6), config=RunConfig(opt_level=1))
    kernel(torch.zeros(9, 9), torch.zeros(7, 7), config=RunConfig(opt_level=1))
    kernel(torch.zeros(9, 9), torch.zeros(7, 8), config=RunConfig(opt_level=1))
    assert lines(kernel) == ["out: shape was [7, 7], now [7, 8]"]
    assert "had 3 specialization(s)" in kernel.explain_last_miss()
