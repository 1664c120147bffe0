"""Where extremes are, and running totals, of whole tensors: against torch, compiled and interpreted."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError, TraceError

NAN = float("nan")


def _few_values(*shape, dtype=torch.float32, nan=False):
    """Numbers of which many are equal."""
    x = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    if nan:
        x.view(-1)[x.numel() // 3 :: 11] = NAN
    return x


def _random(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def check(function, expected, *args, tolerance=0.0, target="a2a3"):
    """The compiled kernel and the interpreter against what is expected."""
    jitted, config = pypto.jit(function), pypto.RunConfig(platform=f"{target}sim")
    for found in (jitted(*args, config=config), jitted.interpret(*args, config=config)):
        found = torch.as_tensor(found)
        assert found.shape == expected.shape
        torch.testing.assert_close(
            found.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True, check_dtype=False
        )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 37), -1), ((5, 37), 0), ((3, 7, 20), 1), ((3, 7, 20), 0), ((300, 5), 0), ((4, 1), 1), ((1, 9), 0), ((9,), 0)],
)
def test_places_along_an_axis(name, shape, axis):
    for keeps in (False, True):
        x = _few_values(*shape, nan=True)
        expected = getattr(torch, name)(x, dim=axis, keepdim=keeps)
        check(lambda x, keeps=keeps: getattr(pl, name)(x, axis, keeps), expected, x)


@pytest.mark.parametrize(("shape", "axis"), [((2, 70000), 1), ((2, 70000), 0), ((9000, 3), 0)])
def test_places_in_what_does_not_fit_on_chip(shape, axis):
    x = _few_values(*shape)
    x.view(-1)[[x.numel() - 2, x.numel() - 1]] = 9.0
    check(lambda x: pl.argmax(x, axis), x.argmax(axis), x)
    x.view(-1)[[x.numel() - 3, x.numel() - 1]] = NAN
    check(lambda x: pl.argmin(x, axis), x.argmin(axis), x)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_places_in_every_dtype(dtype, axis, target):
    x = _few_values(20, 33, dtype=dtype)
    check(lambda x: pl.argmax(x, axis), x.float().argmax(axis), x, target=target)


def test_places_of_unsigned_integers():
    x = torch.tensor([[3, 200, 100], [130, 127, 128]], dtype=torch.uint8)
    check(lambda x: pl.argmax(x, 1), torch.tensor([1, 0]), x)
    check(lambda x: pl.argmin(x, 1), torch.tensor([0, 1]), x)


def test_long_integers_are_compared_exactly():
    x = torch.tensor([[2**24, 2**24 + 1, -(2**31)], [7, 7, 2**31 - 1]], dtype=torch.int32)
    check(lambda x: pl.argmax(x, 1), torch.tensor([1, 2]), x)
    check(lambda x: pl.argmin(x, 0), torch.tensor([1, 1, 0]), x)


@pytest.mark.parametrize("shape", [(5, 37), (3, 7, 20), (9,), (6, 1)])
def test_places_in_the_flattened_tensor(shape):
    for name in ("argmax", "argmin"):
        for x in (_few_values(*shape, nan=len(shape) > 1), _few_values(*shape, dtype=torch.int32)):
            check(lambda x, name=name: getattr(pl, name)(x), getattr(torch, name)(x), x)
    x = _few_values(*shape)
    check(lambda x: pl.argmax(x, keepdims=True), x.argmax().reshape([1] * len(shape)), x)


def test_places_are_computed_with_what_comes_before_and_after():
    x = _random(12, 40)
    check(lambda x: pl.argmax(x * -2.0, 1) + 1, (x * -2).argmax(1) + 1, x)
    check(lambda x: x.argmin(0), x.argmin(0), x)
    expected = (x @ x.T).argmax(1)
    check(lambda x: pl.argmax(pl.matmul(x, x, b_trans=True), 1), expected, x)
    check(lambda x: pl.row_argmax(x), x.argmax(1, keepdim=True), x)


def test_misuse_of_places():
    with pytest.raises(ShapeError, match="argmax needs an element to find"):
        pypto.jit(lambda x: pl.argmax(x, 1))(torch.zeros(3, 0))
    with pytest.raises(ShapeError, match="needs an element to find"):
        pypto.jit(lambda x: pl.argmin(x))(torch.zeros(3, 0))
    with pytest.raises(TraceError, match="takes one axis"):
        pypto.jit(lambda x: pl.argmax(x, (0, 1)))(torch.zeros(3, 4))
    with pytest.raises(ShapeError, match="each once"):
        pypto.jit(lambda x: pl.argmax(x, 2))(torch.zeros(3, 4))
    with pytest.raises(DTypeError, match="does not take INT64"):
        pypto.jit(lambda x: pl.argmax(x, 1))(torch.zeros(3, 4, dtype=torch.int64))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 37), -1), ((5, 37), 0), ((3, 7, 20), 1), ((3, 7, 20), 0), ((3, 7, 20), 2), ((70, 130), 1), ((1, 9), 0)],
)
def test_totals_along_an_axis(shape, axis, target):
    x = _random(*shape)
    check(lambda x: pl.cumsum(x, axis), x.double().cumsum(axis), x, tolerance=1e-4, target=target)


@pytest.mark.parametrize("extent", [1, 9, 1000, 1025, 4096])
def test_totals_of_a_single_row(extent):
    x = _random(extent)
    check(lambda x: pl.cumsum(x, 0), x.double().cumsum(0), x, tolerance=2e-4)
    x = _few_values(1, extent, dtype=torch.int32)
    check(lambda x: pl.cumsum(x, 1), x.cumsum(1), x)


def test_totals_that_do_not_fit_on_chip():
    x = _few_values(3, 20000, dtype=torch.int32)
    for axis in (0, 1):
        check(lambda x, axis=axis: pl.cumsum(x, axis), x.cumsum(axis), x)


def test_totals_of_integers_wrap_and_narrow_floats_are_rounded_once():
    x = torch.tensor([[30000, 30000, 10000], [1, 2, 3]], dtype=torch.int16)
    check(lambda x: pl.cumsum(x, 1), x.cumsum(1).to(torch.int16), x)
    x = torch.tensor([[100, 100, 100], [1, 2, -3]], dtype=torch.int8)
    check(lambda x: pl.cumsum(x, 1), torch.tensor([[100, -56, 44], [1, 3, 0]]), x)
    x = torch.tensor([[200, 100], [5, 250]], dtype=torch.uint8)
    check(lambda x: pl.cumsum(x, 0), torch.tensor([[200, 100], [205, 94]]), x)
    # In FP16 steps 2048 + 1 stays 2048.
    x = torch.tensor([[2048.0, 1, 1, 1, 1]]).expand(3, 5).half()
    check(lambda x: pl.cumsum(x, 1), x.float().cumsum(1).half(), x)
    x = _random(20, 30).bfloat16()
    check(lambda x: pl.cumsum(x, 0), x.float().cumsum(0).bfloat16(), x, tolerance=0.02)


@pytest.mark.parametrize("axis", [0, 1])
def test_infinities_reach_what_comes_after_them_only(axis):
    x = _random(20, 30)
    x[3, 4], x[5, 7] = float("inf"), NAN
    check(lambda x: pl.cumsum(x, axis), x.cumsum(axis), x, tolerance=1e-4)
    row = _random(3000)
    row[1500] = float("-inf")
    check(lambda x: pl.cumsum(x, 0), row.cumsum(0), row, tolerance=2e-4)


def test_totals_are_computed_with_what_comes_before_and_after():
    x = _random(20, 30)
    check(lambda x: pl.cumsum(x * 2.0, 0) + 1.0, (x * 2).cumsum(0) + 1, x, tolerance=1e-4)
    check(lambda x: pl.cumsum(x.T, 1), x.T.cumsum(1), x, tolerance=1e-4)
    check(lambda x: pl.cumsum(pl.softmax(x), -1), x.softmax(-1).cumsum(-1), x, tolerance=1e-4)
    check(lambda x: x.cumsum(0), x.cumsum(0), x, tolerance=1e-4)

    @pypto.jit
    def in_place(x):
        x[:] = pl.cumsum(x, 1)

    found = x.clone()
    in_place(found)
    torch.testing.assert_close(found, x.cumsum(1), rtol=1e-4, atol=1e-4)


def test_misuse_of_totals():
    for axis in (None, (0, 1)):
        with pytest.raises(TraceError, match="cumsum runs along one axis"):
            pypto.jit(lambda x, axis=axis: pl.cumsum(x, axis))(torch.zeros(3, 4))
    with pytest.raises(ShapeError, match="each once"):
        pypto.jit(lambda x: pl.cumsum(x, 2))(torch.zeros(3, 4))
    with pytest.raises(DTypeError, match="does not take INT64"):
        pypto.jit(lambda x: pl.cumsum(x, 1))(torch.zeros(3, 4, dtype=torch.int64))


def test_what_is_spread_counts_as_often_as_it_is_there():
    x = _random(4, 1)
    check(lambda x: pl.sum(pl.expand(x, [4, 8]), -1), x[:, 0] * 8, x, tolerance=1e-6)
    check(lambda x: pl.sum(pl.expand(x + 1.0, [3, 4, 8]), (0, 2)), (x[:, 0] + 1) * 24, x, tolerance=1e-5)
    check(lambda x: pl.argmax(pl.expand(x, [4, 8]), 1), torch.zeros(4), x)
