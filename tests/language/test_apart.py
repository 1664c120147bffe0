"""Tensors whose columns lie apart in memory, and operands of products whose rows the machine cannot load."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import AssemblyError, PyptoError
from tests.asm.test_legality import faults
from tests.language.everywhere import check

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8]
# 300 columns are a piece of 256 and one of 44.
SHAPES = [(3, 40, 7), (2, 5, 600), (1, 1, 9)]


TARGETS = ("a2a3", "a5")


def legal(kernel, *arguments: torch.Tensor) -> bool:
    texts = {name: kernel.lower(*arguments, config=pypto.RunConfig(platform=f"{name}sim"))["pto"] for name in TARGETS}
    return all(list(faults(text, name)) == [] for name, text in texts.items())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_other_column_in_and_out(dtype, shape):
    @pypto.jit
    def kernel(x, out):
        out[:, :, ::2] = x[:, :, ::2]

    x = torch.arange(torch.Size(shape).numel()).remainder(101).reshape(shape).to(dtype)
    out = torch.full(shape, 7).to(dtype)
    expected = out.clone()
    expected[:, :, ::2] = x[:, :, ::2]
    check(kernel, x, out, out=expected)
    assert legal(kernel, x, out)


def test_a_column_of_matrices():
    @pypto.jit
    def kernel(x, out):
        out[:, 1:, 2] = x[:, :4, 5] + 1

    x, out = torch.arange(105.0).reshape(3, 5, 7), torch.zeros(3, 5, 4)
    expected = out.clone()
    expected[:, 1:, 2] = x[:, :4, 5] + 1
    check(kernel, x, out, out=expected)
    assert legal(kernel, x, out)


def test_tiles_with_extents_known_at_run_time():
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x[:, ::3], [1, 2], [4, 300], valid_shape=[n[0], n[1]])
        pl.store(t, [0, 1], out[:, ::2])

    x, n = torch.arange(6 * 1000.0).reshape(6, 1000), torch.tensor([3, 290], dtype=torch.int32)
    out = torch.zeros(5, 700)
    expected = out.clone()
    expected[:3, 2 : 2 + 2 * 290 : 2] = x[1:4, 6 : 6 + 3 * 290 : 3]
    check(kernel, x, n, out, out=expected)
    assert legal(kernel, x, n, out)


def test_a_vector():
    @pypto.jit
    def kernel(x, out):
        out[::2] = x[1::3] * 2

    x, out = torch.arange(1800.0), torch.zeros(1200)
    expected = out.clone()
    expected[::2] = x[1::3] * 2
    check(kernel, x, out, out=expected)
    assert legal(kernel, x, out)


def test_atomic_additions():
    @pypto.jit
    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [4, 10]), [0, 0], out[:, ::2], atomic=pl.AtomicType.Add)

    x, out = torch.arange(40.0).reshape(4, 10), torch.ones(4, 20)
    expected = out.clone()
    expected[:, ::2] += x
    check(kernel, x, out, out=expected)


def test_outside_of_the_tensor_is_an_error():
    @pypto.jit
    def kernel(x, n, out):
        pl.store(pl.load(x[:, ::2], [0, n[0]], [2, 8]), [0, 0], out)

    out = torch.zeros(2, 8)
    x = torch.arange(40.0).reshape(2, 20)
    kernel(x, torch.tensor([2], dtype=torch.int32), out)
    assert torch.equal(out, x[:, 4::2])
    with pytest.raises(PyptoError, match="outside of its tensor"):
        kernel(x, torch.tensor([3], dtype=torch.int32), out)


@pytest.mark.parametrize("turned", [False, True])
def test_products_copy_operands_without_rows(turned):
    @pypto.jit
    def kernel(x, w, out):
        part = x[:, :, 5]
        out[:] = w.T @ part.T if turned else part @ w

    x = torch.arange(84.0).reshape(3, 4, 7).remainder(5)
    w = torch.arange(24.0).reshape(4, 6).remainder(7)
    product = x[:, :, 5] @ w
    expected = product.T.contiguous() if turned else product
    # The copy is a task of its own, whose assembly does not run by itself.
    check(kernel, x, w, torch.zeros_like(expected), ways=("compiled", "interpreted", "trace"), out=expected)
    assert legal(kernel, x, w, torch.zeros_like(expected))


def test_products_are_written_where_there_are_no_rows():
    @pypto.jit
    def kernel(x, w, out, turned, cast):
        product = x @ w
        out[:, ::2] = product
        turned.T[:] = product
        cast[:, :, 1] = pl.cast(product, pl.FP16)

    x, w = torch.arange(80.0).reshape(5, 16).remainder(7), torch.arange(96.0).reshape(16, 6).remainder(5)
    product = x @ w
    out, cast = torch.zeros(5, 12), torch.zeros(5, 6, 3, dtype=torch.float16)
    expected, rounded = out.clone(), cast.clone()
    expected[:, ::2], rounded[:, :, 1] = product, product.half()
    arguments = (x, w, out, torch.zeros(6, 5), cast)
    ways = ("compiled", "interpreted", "trace")
    check(kernel, *arguments, ways=ways, out=expected, turned=product.T.contiguous(), cast=rounded)
    assert legal(kernel, *arguments)


def test_a_tile_for_the_cube_has_rows():
    @pypto.jit
    def kernel(x, w, out):
        a = pl.load(x[:, ::2], [0, 0], [16, 16], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(a, pl.load(w, [0, 0], [16, 16], target_memory=pl.Mem.Mat)), [0, 0], out)

    x, w, out = torch.eye(16).repeat_interleave(2, 1), torch.arange(256.0).reshape(16, 16), torch.zeros(16, 16)
    check(kernel, x, w, out, ways=("compiled", "interpreted", "trace"), out=w)
    with pytest.raises(AssemblyError, match="to or from Mat moves FP32 elements that lie 2 apart") as caught:
        kernel.lower(x, w, out)["pto"]
    assert caught.value.span is not None
    assert "target_memory" in caught.value.span.excerpt()


@pytest.mark.parametrize(("columns", "prints"), [(65535, True), (65536, False)])
def test_rows_too_far_apart_for_the_cube(columns, prints):
    @pypto.jit
    def kernel(x, w, out):
        b = pl.load(w, [0, columns - 16], [16, 16], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Mat), b), [0, 0], out)

    x, w, out = torch.eye(16), torch.arange(16.0 * columns).reshape(16, columns).remainder(97), torch.zeros(16, 16)
    check(kernel, x, w, out, ways=("compiled", "interpreted"), out=w[:, -16:])
    a5 = kernel.lower(x, w, out, config=pypto.RunConfig(platform="a5sim"))["pto"]
    assert list(faults(a5, "a5")) == []
    stages = kernel.lower(x, w, out)
    if prints:
        assert list(faults(stages["pto"], "a2a3")) == []
        return
    with pytest.raises(AssemblyError, match="rows that lie up to 65535 elements apart, not 65536"):
        stages["pto"]
