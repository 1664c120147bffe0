"""Kernels that return what they compute: new tensors, as torch's operators do."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import TraceError


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pypto.jit
def linear(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor):
    return pl.gelu(x @ w + b)


@pypto.jit
def center(x):
    mean = x.mean(-1, keepdims=True)
    return x - mean, mean, x


def test_a_new_tensor_each_call():
    x, w, b = _random(10, 16), _random(16, 12), _random(12)
    expected = torch.nn.functional.gelu(x @ w + b)
    results = [linear(x, w, b) for _ in range(4)]
    for result in results:
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    assert len({result.data_ptr() for result in results}) == 4
    assert linear.cache_info().misses == 1
    torch.testing.assert_close(linear.interpret(x, w, b), expected, rtol=1e-5, atol=1e-5)


def test_several_results_and_an_input():
    x = _random(6, 8)
    for _ in range(2):
        centered, mean, same = center(x)
        assert same is x
        torch.testing.assert_close(mean, x.mean(-1, keepdim=True))
        torch.testing.assert_close(centered, x - mean)


def test_results_are_of_the_library_of_the_arguments():
    centered, _, _ = center(numpy.ones((4, 8), numpy.float32))
    assert isinstance(centered, numpy.ndarray)
    assert not centered.any()


def test_a_part_of_an_output_is_a_copy():
    @pypto.jit
    def kernel(x, out: pl.Out[pl.Tensor]):
        out[:] = x * 2.0
        return out[1:3], out.T

    x, out = _random(4, 8), torch.zeros(4, 8)
    part, turned = kernel(x, out)
    assert torch.equal(part, x[1:3] * 2)
    assert torch.equal(turned, (x * 2).T)
    part.zero_()
    assert torch.equal(out, x * 2)


def test_a_created_tensor_is_returned():
    @pypto.jit
    def kernel(x):
        made = pl.create_tensor([4, 8], pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [4, 8]) + 1.0, [0, 0], made)
        return made

    x = _random(4, 8)
    assert torch.equal(kernel(x), x + 1)


def test_results_where_inputs_share_memory_with_what_is_written():
    @pypto.jit
    def kernel(x: pl.InOut[pl.Tensor], y):
        x[:] = x + y
        return x * 2.0

    both = torch.ones(8, 8)
    assert torch.equal(kernel(both, both), torch.full((8, 8), 4.0))
    assert torch.equal(both, torch.full((8, 8), 2.0))


def test_nothing_to_compute():
    assert center(torch.empty(0, 8))[0].shape == (0, 8)


def test_grad_mode_and_inference_mode():
    x, w, b = _random(10, 16), _random(16, 12), _random(12)
    with pytest.raises(pypto.ArgumentError, match="'x' requires grad"):
        linear(x.requires_grad_(), w, b)
    with torch.inference_mode():
        assert linear(x.detach(), w, b).is_inference()


def test_a_compiled_program_allocates_its_results():
    x, w, b = _random(10, 16), _random(16, 12), _random(12)
    program = linear.compile(x, w, b)
    assert [(info.name, info.direction) for info in program.parameters][-1] == ("result", "out")
    assert torch.equal(program(x, w, b), linear(x, w, b))


def test_a_kernel_that_returns_a_number():
    @pypto.jit
    def kernel(x):
        return x * 2.0, 3

    with pytest.raises(TraceError, match="returns something else than its tensors") as caught:
        kernel(_random(4, 8))
    assert caught.value.found == "int 3"
    assert caught.value.expected == "tensors it was given or computed, or nothing"
