"""Products of few rows of whole tensors, against torch in double precision."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(a, b)


@pypto.jit
def linear(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(a, b, b_trans=True)


@pypto.jit
def network(x: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.relu(x @ up) @ down


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def check(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Within a rounding of each product and sum in FP32, and that of the result."""
    a, b = a.double(), b.double()
    rounding = torch.finfo(found.dtype).eps * (a @ b).abs()
    bound = rounding + (a.shape[-1] + 2) * torch.finfo(torch.float32).eps * (a.abs() @ b.abs())
    assert ((found.double() - a @ b).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(1, 1, 1), (1, 300, 1000), (2, 515, 33), (3, 64, 4100), (4, 1030, 130), (5, 70, 600)]
)
def test_products(rows, inner, columns, dtype):
    a, b = drawn(rows, inner, dtype=dtype), drawn(inner, columns, dtype=dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    product(a, b, out)
    check(out, a, b)
    out.fill_(torch.nan)
    linear(a, b.T.contiguous(), out)
    check(out, a, b)


@pytest.mark.parametrize("inner", [1030, 2100])
def test_int8_products_are_exact(inner):
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((2, inner), (inner, 40)))
    out = torch.empty(2, 40, dtype=torch.int32)
    product(a, b, out)
    assert torch.equal(out.long(), a.long() @ b.long())
    linear(a, b.T.contiguous(), out)
    assert torch.equal(out.long(), a.long() @ b.long())


def test_batches_of_single_rows():
    a, b, out = drawn(6, 1, 200), drawn(6, 200, 90), torch.empty(6, 1, 90)
    product(a, b, out)
    check(out, a, b)
    linear(a, b.transpose(1, 2).contiguous(), out)
    check(out, a, b)


def test_a_network_of_one_token():
    x, up, down, out = drawn(1, 128), drawn(128, 700) / 16, drawn(700, 96) / 16, torch.empty(1, 96)
    network(x, up, down, out)
    expected = torch.relu(x.double() @ up.double()) @ down.double()
    assert (out - expected).abs().max() < 1e-4


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_blocks_are_wide_and_pieces_of_columns_long(platform):
    a, b, out = drawn(1, 4096), torch.empty(4096, 16384), torch.empty(1, 16384)
    config = pypto.RunConfig(platform=platform)
    (wide,) = product.explain(a, b, out, config=config).kernels
    assert wide.tile == (1, 512, 16)
    (long,) = linear.explain(a, b.view(16384, 4096), out, config=config).kernels
    assert long.tile[1:] == (16, 512)
