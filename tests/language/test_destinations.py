"""``out=``: what a kernel computes and returns goes to tensors of the caller, as with torch's operators."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def total(a: pl.Tensor, b: pl.Tensor):
    return a + b


@pypto.jit
def pair(a: pl.Tensor, b: pl.Tensor):
    low = pl.minimum(a, b)
    return low, (pl.maximum(a, b), low)


@pypto.jit
def sums(a: pl.Tensor):
    return pl.sum(a, axis=0)


def two(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def test_the_result_is_the_tensor_given():
    a, b = two(8, 20)
    for _ in range(3):
        out = torch.empty(8, 20)
        version = out._version
        assert total(a, b, out=out) is out
        assert torch.equal(out, a + b)
        assert out._version > version
    assert total.cache_info().misses == 1


def test_several_results_are_given_in_order():
    a, b = two(8, 20)
    for _ in range(3):
        low, high = torch.empty(8, 20), torch.empty(8, 20)
        first, (second, third) = pair(a, b, out=(low, high))
        assert first is low
        assert second is high
        assert third is low
        assert torch.equal(low, torch.minimum(a, b))
        assert torch.equal(high, torch.maximum(a, b))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(20, 8).T,
        lambda: torch.empty(8, 40)[:, ::2],
        lambda: torch.empty(8, 24)[:, 3:23],
        lambda: torch.empty(8, 1, 20)[:, 0],
    ],
)
def test_tensors_of_any_layout(make):
    a, b = two(8, 20)
    for _ in range(2):
        out = make()
        assert total(a, b, out=out) is out
        assert torch.equal(out, a + b)


def test_arrays_of_numpy():
    a, b = (each.numpy() for each in two(8, 20))
    for out in (numpy.empty((8, 20), numpy.float32), numpy.empty((20, 8), numpy.float32).T):
        assert total(a, b, out=out) is out
        assert numpy.array_equal(out, a + b)


class Marked(torch.Tensor):
    pass


class Exchanged:
    """An array of another library."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("turned", [False, True])
def test_destinations_of_other_libraries_than_the_arguments(turned):
    a, b = two(8, 20)
    for given in ((a, b), (a.numpy(), b.numpy())):
        for make in (lambda t: t, lambda t: t.numpy(), lambda t: t.as_subclass(Marked), Exchanged):
            for _ in range(2):
                memory = torch.zeros(20, 8).T if turned else torch.zeros(8, 20)
                out = make(memory)
                assert total(*given, out=out) is out
                assert torch.equal(memory, a + b)
    out = torch.zeros(20, 8).T if turned else torch.zeros(8, 20)
    assert total.interpret(a.numpy(), b.numpy(), out=out) is out
    assert torch.equal(out, a + b)


def test_in_place():
    for _ in range(3):
        a, b = two(8, 20)
        expected = a + b
        assert total(a, b, out=a) is a
        assert torch.equal(a, expected)
    a, b = two(8, 8)
    expected = a + b.T
    assert torch.equal(total(a, b.T, out=b), expected)


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("ahead", [True, False])
def test_memory_that_overlaps_in_part(shift, ahead):
    memory = torch.randn(8 + shift, 20)
    first, second = memory[:8], memory[shift:]
    a, out = (first, second) if ahead else (second, first)
    b = torch.randn(8, 20)
    expected = a + b
    for strided in (False, True):
        kept = memory.clone()
        if strided:
            target = memory.T[:, shift:].T if ahead else memory.T[:, :8].T
            total(a, b, out=target)
        else:
            total(a, b, out=out)
        assert torch.equal(out, expected)
        memory.copy_(kept)


def test_a_result_that_its_input_holds():
    a = torch.randn(8, 20)
    expected = a.sum(0)
    sums(a, out=a[3])
    torch.testing.assert_close(a[3], expected)


def test_modes_of_torch():
    a, b = two(8, 20)
    with torch.inference_mode():
        out = torch.empty(8, 20)
        for _ in range(3):
            assert torch.equal(total(a, b, out=out), a + b)
    with torch.no_grad():
        leaf = torch.empty(8, 20, requires_grad=True)
        for _ in range(3):
            assert torch.equal(total(a, b, out=leaf), a + b)
    for _ in range(2):
        with pytest.raises(pypto.ArgumentError, match="'out' requires grad"):
            total(a, b, out=leaf)


def test_interpreted():
    a, b = two(8, 20)
    low, high = torch.empty(8, 20), torch.empty(20, 8).T
    first, (second, _) = pair.interpret(a, b, out=(low, high))
    assert first is low
    assert second is high
    assert torch.equal(high, torch.maximum(a, b))
    expected = a + b
    assert torch.equal(total.interpret(a, b, out=a), expected)


def test_dynamic_extents():
    rows = pl.dynamic("rows")

    @pypto.jit
    def double(x: pl.Tensor[[rows, 16], pl.FP32]):
        return x * 2.0

    for count in (3, 10, 300):
        x, out = torch.randn(count, 16), torch.empty(count, 16)
        assert double(x, out=out) is out
        assert torch.equal(out, x * 2)
    with pytest.raises(pypto.ArgumentError, match="not what the kernel returns") as caught:
        double(torch.ones(4, 16), out=torch.empty(5, 16))
    assert caught.value.expected == "[4, 16] float32"
    assert double.cache_info().misses == 1


@pytest.mark.parametrize(
    ("out", "found", "expected"),
    [
        (torch.empty(8, 15), "[8, 15] float32", "[8, 20] float32"),
        (torch.empty(8, 20, dtype=torch.float16), "[8, 20] float16", "[8, 20] float32"),
        (torch.empty(8, 20, 1), "[8, 20, 1] float32", "[8, 20] float32"),
        (torch.empty(8, 20, dtype=torch.complex64), "torch.complex64", None),
        (torch.empty(8, 20, device="meta"), "a tensor on device 'meta'", "device 'cpu'"),
        (torch.empty(1, 20).expand(8, 20), "shape [8, 20] with strides [0, 1]", None),
        (3, "a int", "a tensor"),
        ((torch.empty(8, 20),) * 2, "a Tensor, a Tensor", "a tensor"),
        ((), "nothing", "a tensor"),
    ],
)
def test_what_is_no_destination(out, found, expected):
    a, b = two(8, 20)
    total(a, b, out=torch.empty(8, 20))
    with pytest.raises(pypto.ArgumentError) as caught:
        total(a, b, out=out)
    assert str(caught.value.found) == found
    assert expected is None or caught.value.expected == expected


def test_destinations_that_do_not_fit_together():
    a, b = two(8, 20)
    out = torch.empty(8, 20)
    with pytest.raises(pypto.ArgumentError, match="takes the results") as caught:
        pair(a, b, out=out)
    assert caught.value.expected == "a tuple of 2 tensors"
    for other in (out, out.clone().T.contiguous().T):
        with pytest.raises(pypto.ArgumentError, match=r"'out\[0\]' and 'out\[1\]'.*share memory"):
            pair(a, b, out=(other, other))


def test_kernels_without_results():
    @pypto.jit
    def copy(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = x * 1.0

    x = torch.randn(4, 8)
    with pytest.raises(pypto.ArgumentError, match="takes no out=") as caught:
        copy(x, out=torch.empty(4, 8))
    assert caught.value.expected == "copy(x, y)"
    with pytest.raises(pypto.ArgumentError, match="no parameter 'output'"):
        total(x, x, output=x)


def test_kernels_are_freed_when_they_are_no_more():
    def make():
        @pypto.jit
        def passing(x: pl.Tensor):
            return x + 1.0

        return passing

    kernel = make()
    for _ in range(3):
        kernel(torch.ones(4, 4))
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None
