"""Products of whole tensors at shapes that the compiler must tile in different ways, and in batches."""

from __future__ import annotations

import torch

from examples import split_k, tensor_products
from examples.catalog.example import BF16, F16, F32, I32, Example, both, integers, normal, sum_error, weights


def _tiled(name: str, rows: int, columns: int, depth: int, dtype: torch.dtype = F32) -> Example:
    kernel = tensor_products.product if dtype == F32 else tensor_products.wide_product
    inputs = normal((rows, depth), (depth, columns), dtype=dtype)
    return Example(name, kernel, inputs, torch.matmul, ((rows, columns), F32), sum_error(depth), returns=True)


def _chained(name: str, depth: int) -> Example:
    return Example(
        name,
        tensor_products.chained,
        both(normal((128, depth), dtype=BF16), weights((depth, 64), (64, 128), dtype=BF16)),
        lambda a, b, c: a @ b @ c,
        ((128, 128), BF16),
        # Half an ulp of values below 8 is 2^-6; each of those in between, about 1, is rounded by 2^-9 of itself, and
        # 64 of them are added with weights of about 1/8.
        2.0**-6 + 2.0**-9 * 64 / 8,
        returns=True,
    )


_LEFT, _RIGHT = (64, 512), (512, 64)

EXAMPLES: tuple[Example, ...] = (
    Example(
        "split k fp32", split_k.matmul_split_k, normal(_LEFT, _RIGHT), torch.matmul, ((64, 64), F32), sum_error(512)
    ),
    Example(
        "split k fp16",
        split_k.matmul_split_k,
        normal(_LEFT, _RIGHT, dtype=F16),
        torch.matmul,
        ((64, 64), F16),
        # Four parts and their sums, all below 128, are rounded to FP16: half an ulp is 2^-5.
        8 * 2.0**-5,
    ),
    Example(
        "split k bf16",
        split_k.matmul_split_k,
        normal(_LEFT, _RIGHT, dtype=BF16),
        torch.matmul,
        ((64, 64), BF16),
        # As with FP16; half an ulp of BF16 below 128 is 2^-2.
        8 * 2.0**-2,
        machines=("a2a3",),
    ),
    Example("split k int8", split_k.matmul_split_k, integers(_LEFT, _RIGHT), torch.matmul, ((64, 64), I32), 0.0),
    _tiled("product to memory, k split", 256, 128, 256),
    _tiled("product to memory, k whole", 256, 128, 32),
    _chained("chained products, k split", 192),
    _chained("chained products, k whole", 64),
    _tiled("product in L0C, k whole", 64, 64, 64, F16),
    _tiled("product in L0C, k split", 64, 64, 512, F16),
    Example(
        "batches of products",
        tensor_products.product,
        normal((3, 20, 48), (3, 48, 33)),
        torch.matmul,
        ((3, 20, 33), F32),
        sum_error(48),
        returns=True,
    ),
    Example(
        "one matrix times a batch",
        tensor_products.product,
        normal((20, 48), (3, 48, 33)),
        torch.matmul,
        ((3, 20, 33), F32),
        sum_error(48),
        returns=True,
    ),
    Example(
        "batches of products, transposed",
        tensor_products.product_transposed,
        normal((3, 20, 48), (3, 33, 48)),
        lambda a, b: a @ b.transpose(-1, -2),
        ((3, 20, 33), F32),
        sum_error(48),
        returns=True,
    ),
    Example(
        "batches of products, sliced",
        tensor_products.product_sliced,
        normal((3, 20, 48), (3, 64, 80)),
        lambda a, b: a @ b[:, :48, 40:],
        ((3, 20, 40), F32),
        sum_error(48),
        returns=True,
    ),
)
