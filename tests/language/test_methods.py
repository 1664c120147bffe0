"""Methods of tensors and tiles: what the functions do, under torch's spelling too, and errors for what is not there."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import MissingAttributeError, TraceError
from tests.language.everywhere import check


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _error(kind, function, *arguments):
    with pytest.raises(kind) as caught:
        pypto.jit(function)(*arguments)
    return caught.value


def test_methods_chain_as_in_torch():
    @pypto.jit
    def kernel(x, out):
        out[:] = x.relu().sum(dim=1, keepdim=True).expand(4, 6).transpose(0, 1).reshape(2, 12).max(axis=0)

    x = _random(4, 6).round()
    expected = x.relu().sum(1, keepdim=True).expand(4, 6).T.reshape(2, 12).amax(0)
    check(kernel, x, torch.zeros(12), ways=("compiled", "interpreted"), out=expected)


def test_conversions_and_selection():
    @pypto.jit
    def kernel(x, whole, half):
        whole[:] = x.where(x > 0.0, 2.5).int()
        half[:] = x.to(pl.FP16).float() * 2.0

    x = _random(5, 8) * 4
    whole = torch.where(x > 0, x, 2.5).int()
    results = [torch.zeros(5, 8, dtype=torch.int32), torch.zeros(5, 8)]
    for run in (kernel, kernel.interpret):
        run(x, *results)
        assert torch.equal(results[0], whole)
        assert torch.equal(results[1], x.half().float() * 2)


def test_a_method_that_takes_more_of_its_kind():
    @pypto.jit
    def kernel(x, y):
        return x.concat(y, x, dim=0), x.concat(y[:, :3])

    x, y = _random(2, 5), _random(2, 5, seed=1)
    for run in (kernel, kernel.interpret):
        rows, columns = run(x, y)
        assert torch.equal(rows, torch.cat([x, y, x]))
        assert torch.equal(columns, torch.cat([x, y[:, :3]], 1))


def test_tiles_have_them_too():
    @pypto.jit
    def kernel(x, out):
        out[:, :] = pl.load(x, [0, 0], [4, 6]).mul(2.0).maximum(0.5).row_max()

    x = _random(4, 6)
    check(kernel, x, torch.zeros(4, 1), out=(x * 2).clamp(min=0.5).amax(1, keepdim=True))


@pytest.mark.parametrize(
    ("function", "method"),
    [(pl.exp, "exp"), (pl.sum, "sum"), (pl.softmax, "softmax"), (pl.cast, "cast"), (pl.reshape, "reshape")],
)
def test_a_method_is_documented_as_its_function(function, method):
    found = getattr(pl.Tensor, method)
    assert found.__doc__ == function.__doc__
    assert list(inspect.signature(found).parameters) == list(inspect.signature(function).parameters)


def test_an_unknown_argument_of_a_method():
    def kernel(x):
        return x.sum(axes=1)

    error = _error(TraceError, kernel, _random(4, 6))
    assert error.message == "x.sum has no argument 'axes'"
    assert error.expected == "x.sum(axis=None, keepdims=False)"
    assert error.hint == "did you mean 'axis'?"
    assert error.span is not None
    assert error.span.line == kernel.__code__.co_firstlineno + 1


def test_too_many_arguments_of_a_method():
    def kernel(x):
        return x.mean(0, True, 3)

    assert _error(TraceError, kernel, _random(4, 6)).message == "x.mean: too many positional arguments"


def test_unknown_attributes():
    def tensor(x):
        return x.softmx()

    def computed(x):
        return (x + 1.0).shap

    def tile(x):
        t = pl.load(x, [0, 0], [4, 6])
        return t.row_summ()

    def scalar(x):
        for i in pl.range(4):
            x[i] = i.size

    for kernel, message, hint in (
        (tensor, "a tensor has no attribute 'softmx'", "did you mean '.softmax'?"),
        (computed, "a tensor has no attribute 'shap'", "did you mean '.shape'?"),
        (tile, "a tile has no attribute 'row_summ'", "did you mean '.row_sum'?"),
        (scalar, "a scalar has no attribute 'size'", None),
    ):
        error = _error(MissingAttributeError, kernel, _random(4, 6))
        assert (error.message, error.hint) == (message, hint)
        assert isinstance(error, AttributeError)
        assert error.span is not None
        assert error.span.filename == __file__


def test_protocols_see_that_there_is_none():
    @pypto.jit
    def kernel(x, n: int):
        assert not hasattr(x, "nothing")
        assert not hasattr(x, "__array__")
        assert getattr(x[0:2], "nothing", 5) == 5
        assert copy.copy(x).shape == x.shape
        return x * n.bit_length()

    x = _random(3, 4)
    assert torch.equal(kernel(x, 9), x * 4)


@pypto.jit
def extremes(x: pl.Tensor):
    return pl.max(x, 1), pl.min(x, (0, 1)), pl.min(x, -1, keepdims=True)


def test_axes_of_extremes_by_position():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    rows, least, kept = extremes(x)
    assert torch.equal(rows, x.amax(1))
    assert torch.equal(least, x.amin())
    assert torch.equal(kept, x.amin(1, keepdim=True))
