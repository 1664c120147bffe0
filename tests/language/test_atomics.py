"""Stores that add to what is in global memory, from many blocks at once."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, DirectionError, DTypeError, TraceError
from tests.language.everywhere import check, run

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8]


@pypto.jit
def histogram(x, out):
    for i in pl.parallel(0, x.shape[0], 2):
        t = pl.load(x, [i, 0], [2, 24])
        pl.store(t, [0, 0], out, atomic=pl.AtomicType.Add)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_blocks_add_to_one_tile(dtype):
    x = torch.arange(128 * 24).reshape(128, 24).remainder(3).sub(1).to(dtype)
    out = torch.arange(48).reshape(2, 24).to(dtype)
    expected = out.double() + x.reshape(64, 2, 24).double().sum(0)
    check(histogram, x, out, out=expected.to(dtype))


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_no_addition_is_lost(threads):
    x = torch.ones(4000, 24)
    out = torch.zeros(2, 24)
    histogram(x, out, config=pypto.RunConfig(threads=threads))
    assert torch.equal(out, torch.full((2, 24), 2000.0))
    half = torch.zeros(2, 24, dtype=torch.float16)
    histogram(x[:2000].half(), half, config=pypto.RunConfig(threads=threads))
    assert torch.equal(half, torch.full((2, 24), 1000.0).half())


def test_one_order_where_it_is_asked_for():
    torch.manual_seed(0)
    x = torch.randn(600, 24)
    expected = run(histogram, "interpreted", x, torch.zeros(2, 24))[1]
    out = torch.zeros(2, 24)
    histogram(x, out, config=pypto.RunConfig(deterministic=True))
    assert torch.equal(out, expected)
    with pytest.raises(ValueError, match="deterministic=True runs on one thread"):
        pypto.RunConfig(deterministic=True, threads=2)
    with pytest.raises(ValueError, match="deterministic=1: True or False"):
        pypto.RunConfig(deterministic=1)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_split_k(out_dtype):
    @pypto.jit
    def matmul(a, b, out):
        for k in pl.parallel(0, a.shape[1], 32):
            left = pl.load(a, [0, k], [16, 32], target_memory=pl.Mem.Mat)
            right = pl.load(b, [k, 0], [32, 16], target_memory=pl.Mem.Mat)
            pl.store(pl.matmul(left, right), [0, 0], out, atomic=pl.AtomicType.Add)

    a, b = torch.randint(-2, 3, (16, 128)).float(), torch.randint(-2, 3, (128, 16)).float()
    check(matmul, a, b, torch.ones(16, 16, dtype=out_dtype), out=(a @ b + 1).to(out_dtype))
    text = matmul.lower(a, b, torch.ones(16, 16, dtype=out_dtype))["pto"]
    assert "{atomicType = #pto<atomic_type atomic_add>}" in text


def test_boxes_of_other_ranks_and_strides():
    @pypto.jit
    def kernel(x, out):
        for i in pl.range(0, 3):
            pl.store(pl.load(x, [i, 0, 0], [1, 2, 5]), [0, 0, 0], out, atomic=pl.AtomicType.Add)

    x = torch.arange(30.0).reshape(3, 2, 5)
    out = torch.zeros(2, 4, 10)[::2, ::2, ::2]
    kernel(x, out)
    assert torch.equal(out, x.sum(0, keepdim=True))


def test_seeded_in_the_kernel():
    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.full([2, 24], pl.FP32, 0.0), [0, 0], out)
        for i in pl.range(0, x.shape[0], 2):
            pl.store(pl.load(x, [i, 0], [2, 24]), [0, 0], out, atomic=pl.AtomicType.Add)

    x = torch.arange(8.0 * 24).reshape(8, 24)
    assert torch.equal(kernel(x), x.reshape(4, 2, 24).sum(0))


def test_what_is_not_an_addition():
    @pypto.jit
    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [2, 24]), [0, 0], out, [2, 24], atomic=pl.AtomicType.None_)

    x = torch.randn(2, 24)
    check(kernel, x, torch.ones(2, 24), out=x)
    assert "atomicType" not in kernel.lower(x, torch.ones(2, 24))["pto"]


class TestErrors:
    def test_dtypes(self):
        x = torch.zeros(4, 24, dtype=torch.bfloat16)
        with pytest.raises(DTypeError, match="a5 adds no BF16 in global memory") as caught:
            histogram(x, torch.zeros(2, 24, dtype=torch.bfloat16), config=pypto.RunConfig(platform="a5sim"))
        assert caught.value.hint == "add in FP32, and cast when all is added"
        x = torch.zeros(4, 24, dtype=torch.int64)
        with pytest.raises(DTypeError, match="adds no INT64"):
            histogram(x, torch.zeros(2, 24, dtype=torch.int64))

    def test_an_output_that_holds_nothing(self):
        @pypto.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            pl.store(pl.load(x, [0, 0], [2, 24]), [0, 0], out, atomic=pl.AtomicType.Add)

        x = torch.ones(2, 24)
        out = torch.ones(2, 24)
        kernel(x, out)
        assert torch.equal(out, x * 2)
        with pytest.raises(ArgumentError, match="the kernel adds to 'out', which the call leaves out"):
            kernel(x)

    def test_an_input(self):
        @pypto.jit
        def kernel(x: pl.Tensor):
            pl.store(pl.load(x, [0, 0], [2, 24]), [0, 0], x, atomic=pl.AtomicType.Add)

        with pytest.raises(DirectionError, match="'x' is an input, and the kernel writes it"):
            kernel(torch.ones(2, 24))

    def test_an_unknown_kind(self):
        @pypto.jit
        def kernel(x, out):
            pl.store(pl.load(x, [0, 0], [2, 24]), [0, 0], out, atomic="max")

        with pytest.raises(TraceError, match="unknown atomic operation of a store"):
            kernel(torch.ones(2, 24), torch.ones(2, 24))
