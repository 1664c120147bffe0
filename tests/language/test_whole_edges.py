"""Tensor-level kernels at the edges: no elements, single numbers, vectors, numbers in place of tensors."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError

PLATFORMS = ("a2a3sim", "a5sim")


def _both(function, *arguments):
    """What a function gives compiled for each machine, and interpreted."""
    results = []
    for platform in PLATFORMS:
        kernel = pypto.jit(function, config=pypto.RunConfig(platform=platform))
        results += [kernel(*arguments), kernel.interpret(*arguments)]
    return [result if isinstance(result, tuple) else (result,) for result in results]


def _check(function, arguments, *expected):
    for results in _both(function, *arguments):
        assert len(results) == len(expected)
        for found, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def _error(kind, function, *arguments):
    with pytest.raises(kind) as caught:
        pypto.jit(function)(*arguments)
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    return caught.value


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5), (2, 3, 0)])
def test_tensors_without_elements(shape):
    def kernel(x):
        y = pl.exp(x) + 1.0
        return y, y.T, pl.softmax(x * 2.0), pl.where(x > 0, x, 0), pl.concat(x, x), x[0:0]

    x = torch.zeros(shape)
    turned = x.transpose(-1, -2) if x.dim() > 1 else x
    _check(kernel, [x], x, turned, x, x, torch.cat([x, x], -1), x[0:0])


def test_sums_and_products_of_no_elements():
    def kernel(x, y):
        return x.sum(1), pl.prod(x, axis=1), x.sum(), x @ y, x @ y + 1.0, x[0] @ y

    x, y = torch.zeros(3, 0), torch.zeros(0, 4)
    zeros = torch.zeros(3, 4)
    _check(kernel, [x, y], zeros[:, 0], zeros[:, 0] + 1, torch.tensor(0.0), zeros, zeros + 1, zeros[0])


def test_extremes_of_no_elements():
    def kernel(x):
        return pl.max(x, axis=1), pl.min(x, axis=-1, keepdims=True)

    _check(kernel, [torch.zeros(3, 0)], torch.full((3,), -torch.inf), torch.full((3, 1), torch.inf))


def test_parts_without_elements_are_joined():
    def kernel(x, y):
        return pl.concat(x, y, axis=0) * 2.0

    x, y = torch.zeros(0, 5), torch.ones(2, 5)
    _check(kernel, [x, y], y * 2)


def test_what_is_the_same_in_all_columns_is_reduced():
    def kernel(x):
        zeros = pl.zeros_like(x)
        return pl.softmax(zeros), pl.sum(-pl.ones_like(x) * 2.0, axis=-1), pl.prod(pl.full_like(x, 2), axis=-1)

    _check(
        kernel,
        [torch.zeros(4, 10)],
        torch.full((4, 10), 0.1),
        torch.full((4,), -20.0),
        torch.full((4,), 1024.0),
    )


def test_functions_of_a_number():
    def kernel(x):
        number = pl.full_like(x, 2)
        return -number, pl.exp(number), abs(-number), pl.relu(number) + x

    _check(
        kernel,
        [torch.ones(3, 7)],
        torch.full((3, 7), -2.0),
        torch.full((3, 7), 7.38905609893065),
        torch.full((3, 7), 2.0),
        torch.full((3, 7), 3.0),
    )


def test_a_product_with_a_vector_is_a_vector_of_the_next():
    def kernel(x, y):
        return (x @ y) @ x

    x, y = torch.randint(-3, 4, (64, 16)).float(), torch.randint(-3, 4, (16,)).float()
    _check(kernel, [x, y], (x @ y) @ x)


@pytest.mark.parametrize("dtype", ["BF16", "INT8", "UINT8", "INT16", "FP16"])
def test_converted_tensors_are_expanded(dtype):
    of = getattr(pl, dtype)

    def kernel(x):
        return pl.cast(pl.expand(x, [3, 4, 5]), of), pl.expand(pl.cast(x, of), [3, 4, 5])

    x = torch.tensor([[3.0], [2.0], [1.0], [7.0]])
    wide = x.expand(3, 4, 5).to(getattr(torch, of.torch))
    _check(kernel, [x], wide, wide)


def test_sums_of_bfloat16():
    def kernel(x):
        return x.sum(0), pl.prod(x, axis=0)

    x = torch.full((4, 3), 0.75, dtype=torch.bfloat16)
    _check(kernel, [x], x[0] * 4, torch.full((3,), 0.75**4, dtype=torch.bfloat16))


def test_products_of_integers_are_refused_at_their_line():
    x = torch.ones(4, 4, dtype=torch.int32)
    error = _error(DTypeError, lambda x: x @ x, x)
    assert error.message == "matmul does not take INT32"
    assert error.hint == "convert first: pl.cast(tensor, pl.FP32)"


def test_what_is_rearranged_is_what_it_was():
    def kernel(x: pl.InOut[pl.Tensor]):
        before = pl.expand(x, [2, 3, 40])
        x[:] = x * 2.0
        after = pl.expand(x, [2, 3, 40])
        x[:] = 0.0
        return before, after, before + after

    x = torch.randint(-3, 4, (3, 40)).float()
    wide = x.expand(2, 3, 40)
    for platform in PLATFORMS:
        compiled = pypto.jit(kernel, config=pypto.RunConfig(platform=platform))
        for run in (compiled, compiled.interpret):
            before, after, both = run(x.clone())
            assert torch.equal(before, wide)
            assert torch.equal(after, wide * 2)
            assert torch.equal(both, wide * 3)


@pytest.mark.parametrize("mode", ["rint", "round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("dtype", ["INT8", "UINT8", "INT16"])
def test_floats_are_rounded_to_integers_once(dtype, mode):
    of = getattr(pl, dtype)

    def kernel(x):
        return pl.cast(x, of, mode=mode)

    # Close to what rounding decides, where FP16 has no numbers in between.
    x = torch.cat([torch.arange(0, 60).float() + 0.5 + offset for offset in (-1e-4, 0.0, 1e-4)])
    x = torch.cat([x, -x, torch.tensor([1e3, -1e3, 7e4, -7e4, float("inf"), float("-inf"), float("nan")])])
    wide = x.double()
    integral = {
        "rint": torch.round(wide),
        "round": torch.sign(wide) * torch.floor(wide.abs() + 0.5),
        "floor": torch.floor(wide),
        "ceil": torch.ceil(wide),
        "trunc": torch.trunc(wide),
    }[mode]
    held = getattr(torch, of.torch)
    limits = torch.iinfo(held)
    _check(kernel, [x], integral.clamp(limits.min, limits.max).nan_to_num(0).to(held))


@pytest.mark.parametrize("source", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_keep_their_low_bits(source):
    def kernel(x):
        return pl.cast(x, pl.INT8), pl.cast(x, pl.UINT8), pl.cast(x, pl.INT16)

    limits = torch.iinfo(source)
    x = torch.tensor([limits.min, limits.max, 0, 1, 47, 100, 127, limits.max - 80], dtype=torch.int64)
    x = torch.cat([x, torch.randint(limits.min, limits.max + 1, (60,))]).to(source)
    _check(kernel, [x], x.to(torch.int8), x.to(torch.uint8), x.to(torch.int16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int16], ids=str)
def test_columns_of_short_numbers(dtype):
    def kernel(x, out: pl.InOut[pl.Tensor]):
        out[:] = x + 1
        return x.sum(0), pl.max(x, axis=-1) * 2, pl.expand(x, [13, 40])

    x = torch.arange(13 * 3).reshape(13, 3).to(dtype)[:, 1:2]
    for platform in PLATFORMS:
        compiled = pypto.jit(kernel, config=pypto.RunConfig(platform=platform))
        for run in (compiled, compiled.interpret):
            whole = torch.zeros(13, 3, dtype=dtype)
            total, doubled, wide = run(x, whole[:, 2:])
            assert torch.equal(whole, torch.cat([torch.zeros(13, 2), x + 1], 1).to(dtype))
            assert torch.equal(total, x.sum(0).to(dtype))
            assert torch.equal(doubled, x[:, 0] * 2)
            assert torch.equal(wide, x.expand(13, 40))


def test_masks_in_columns():
    def kernel(mask, x):
        return pl.where(mask, x, 0.0)

    mask = torch.arange(13 * 3).reshape(13, 3).remainder(2).to(torch.int8)[:, 1:2]
    x = torch.ones(13, 40)
    _check(kernel, [mask, x], torch.where(mask != 0, x, 0.0))


def test_expanded_dimensions_are_reduced_as_often():
    def kernel(x):
        y = pl.expand(x, [3, 2, 5, 16])
        columns = pl.expand(pl.max(x, axis=-1, keepdims=True), [3, 1, 5, 16])
        return y.sum((1, 2, 3)), pl.prod(pl.expand(x[0:1], [4, 2, 1, 16]), axis=(0, 1)), columns.sum(-1)

    x = torch.randint(1, 4, (3, 1, 1, 16)).float()
    columns = x.amax(-1).expand(3, 1, 5) * 16
    _check(kernel, [x], x.sum((1, 2, 3)) * 10, (x[0:1] ** 8)[0, 0], columns)


def test_dimensions_of_one_are_reduced_along_long_rows():
    def kernel(x):
        return pl.sum(x, axis=-2, keepdims=True), pl.max(x, axis=(0, 1))

    x = torch.randint(-9, 9, (1, 1, 20011), dtype=torch.int32)
    _check(kernel, [x], x, x[0, 0])


def _whole(*shape, dtype=torch.float32):
    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize(("axes", "along"), [((1, 2), 0), ((0, 2), 1)])
def test_totals_of_what_is_computed_and_turned(axes, along):
    x = _whole(3, 4, 5, dtype=torch.int32)
    expected = (x | 1).transpose(*axes).cumsum(along).int()
    _check(lambda x: pl.cumsum(pl.transpose(x | 1, *axes), along), [x], expected)


def test_computed_tensors_turned_in_two_ways():
    def kernel(x, y):
        total = pl.transpose(x + 1, 0, 2) + pl.transpose(y * 2, 1, 2)
        return total, pl.transpose(pl.transpose(x + 3, 0, 2) + pl.transpose(y * 5, 1, 2), 0, 1)

    x, y = _whole(3, 4, 5), _whole(5, 3, 4)
    turned, other = x.transpose(0, 2), y.transpose(1, 2)
    _check(kernel, [x, y], turned + 1 + other * 2, (turned + 3 + other * 5).transpose(0, 1))


def test_a_product_and_what_is_computed_and_turned():
    x, y, z = _whole(4, 5, 6), _whole(4, 6, 3), _whole(3, 5, 4)
    _check(lambda x, y, z: x @ y + pl.transpose(z * 2, 0, 2), [x, y, z], x @ y + (z * 2).transpose(0, 2))


@pytest.mark.parametrize(
    ("shape", "axis", "goal"),
    [((1, 8), 1, (3, 8)), ((1, 8), 1, (0, 1, 8)), ((8, 1), 0, (8, 70)), ((5, 1, 7), 0, (5, 6, 7))],
)
def test_totals_are_written_to_wider_memory(shape, axis, goal):
    def kernel(x):
        wide = pl.create_tensor(goal, pl.FP32)
        wide[:] = pl.cumsum(x, axis)
        return wide

    x = _whole(*shape)
    _check(kernel, [x], x.cumsum(axis).expand(goal).clone())


@pytest.mark.parametrize("columns", [(), (1,)])
def test_a_product_of_one_column_and_an_earlier_reduction(columns):
    def kernel(x, y, z):
        total, place = pl.sum(z), pl.argmin(z)
        return x @ y + total, pl.matmul(x, y, bias=place)

    x, y, z = _whole(5, 17), _whole(17, *columns), torch.tensor([9.0, 3, 1, 4, 2, 8])
    _check(kernel, [x, y, z], x @ y + 27, x @ y + 2)


@pytest.mark.parametrize(("shape", "axes"), [((5, 0, 2, 17, 33), (0, 1, 3, 4)), ((0, 2, 3, 70), (0, 2)), ((3, 0), 1)])
def test_reductions_over_several_axes_of_no_elements(shape, axes):
    x = torch.zeros(shape)
    expected = x.sum(axes)
    _check(lambda x: (pl.sum(x, axes), pl.prod(x + 3, axes)), [x], expected, expected + 1)


@pypto.jit
def along_rows_then_across(x: pl.Tensor):
    return (
        pl.sum(pl.sum(x, -1), 0),
        pl.sum(x - pl.max(x, axis=-1, keepdims=True), axis=0),
        pl.max(pl.softmax(x), axis=0),
        pl.sum(pl.expand(x, [3, *x.shape]), axis=(0, 1, 2)),
    )


@pytest.mark.parametrize("columns", [7, 256, 1000, 8193, 100_000])
def test_rows_of_any_length_are_reduced_whole_before_they_are_reduced_across(columns):
    x = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    wide = x.double()
    below = wide - wide.amax(-1, keepdim=True)
    for found, expected in zip(
        along_rows_then_across(x),
        (wide.sum(), below.sum(0), wide.softmax(-1).amax(0), 3 * wide.sum()),
        strict=True,
    ):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=2e-2)
