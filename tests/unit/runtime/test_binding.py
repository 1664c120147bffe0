"""Matching arguments with parameters."""

from __future__ import annotations

import numpy
import pytest
import torch

from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import NUMPY, OMITTED, TORCH
from pypto_jit.runtime.binding import Binder, Parameter, explain_spec
from pypto_jit.signature import Constant, TensorSpec

BINDER = Binder(
    "kernel",
    [
        Parameter("x", kind="tensor"),
        Parameter("n", kind="constant"),
        Parameter("y"),
        Parameter("out", keyword_only=True, kind="tensor", output=True, written=True),
    ],
)
X = torch.zeros(2, 3)


def test_a_call_that_matches():
    call = BINDER.bind((X, 2, X[0], OMITTED))
    assert list(call.values) == ["x", "n", "y", "out"]
    assert list(call.tensors) == ["x", "y"]
    assert call.arguments["n"] == Constant(2)
    assert isinstance(call.arguments["x"], TensorSpec)
    assert call.arguments["out"] is None
    assert call.outputs == ("out",)
    assert not call.writes_nothing
    assert explain_spec(call.arguments) == "x: [2, 3] float32, n=2, y: [3] float32, out: omitted"


def test_keys_differ_where_specializations_do():
    calls = [
        (X, 2, X, OMITTED),
        (X, 2.0, X, OMITTED),
        (X, True, X, OMITTED),
        (X, 2, X, X),
        (X, 2, 1, X),
        (X.t(), 2, X, X),
        (X.int(), 2, X, X),
        (X[:1], 2, X, X),
    ]
    keys = [BINDER.bind(call).key for call in calls]
    assert len(set(keys)) == len(calls)
    assert BINDER.bind((X.clone(), 2, X + 1, OMITTED)).key == keys[0]


def test_the_library_of_allocated_outputs():
    assert BINDER.bind((X, 2, X, OMITTED)).library == TORCH
    assert BINDER.bind((X.numpy(), 2, 1, OMITTED)).library == NUMPY
    assert BINDER.bind((X.numpy(), 2, X, OMITTED)).library == TORCH


def test_outputs_without_elements():
    assert BINDER.bind((X, 2, X, torch.zeros(0, 3))).writes_nothing
    assert not Binder("kernel", [Parameter("x")]).bind((torch.zeros(0),)).writes_nothing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((OMITTED, 2, OMITTED, X), (), {}), "misses 'x', 'y'"),
        (((X, 2, X, X), (1,), {}), "takes 3 positional arguments"),
        (((X, 2, X, X), (), {"outt": 1}), "no parameter 'outt'"),
        (((X, X, X, X), (), {}), "'n' is a constant"),
        (((2, 2, X, X), (), {}), "'x' is a tensor"),
        (((X, object(), X, X), (), {}), "'n' is neither"),
    ],
)
def test_a_call_that_does_not_match(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        BINDER.bind(*arguments)


def test_the_count_of_surplus_arguments_leaves_named_ones_out():
    with pytest.raises(ArgumentError) as caught:
        BINDER.bind((X, 2, X, OMITTED), (1, 2))
    assert caught.value.found == 5
    assert caught.value.expected == "kernel(x, n, y, out)"


def test_config_is_suggested():
    with pytest.raises(ArgumentError) as caught:
        BINDER.bind((X, 2, X, OMITTED), (), {"confg": 1})
    assert caught.value.hint == "did you mean 'config'?"


def test_a_numpy_scalar_is_a_constant():
    assert BINDER.bind((X, numpy.float32(2), X, OMITTED)).arguments["n"] == Constant(numpy.float32(2))
