"""One kernel on one core: examples on the small shapes that they are usually shown with, run in every way."""

from __future__ import annotations

import pytest
import torch

from examples import flash_attention
from examples.catalog import EXAMPLES
from tests.workloads import blank, check

BY_NAME = {example.name: example for example in EXAMPLES}
# The example, and the shapes of inputs and output.
SHAPES = [
    ("add", [(128, 128), (128, 128)], (128, 128)),
    ("add", [(512, 128), (512, 128)], (512, 128)),  # more than one tile
    ("add_scale_relu", [(128, 128), (128, 128)], (128, 128)),
    ("silu", [(32, 128)], (32, 128)),
    ("fast_gelu", [(32, 128)], (32, 128)),
    ("swiglu", [(32, 128), (32, 128)], (32, 128)),
    ("geglu", [(32, 128), (32, 128)], (32, 128)),
    ("concat", [(32, 16), (32, 16)], (32, 32)),
    ("matmul fp32", [(64, 64), (64, 64)], (64, 64)),
    ("matmul fp32", [(64, 128), (128, 64)], (64, 64)),  # two steps of accumulation
    ("matmul_bias", [(64, 64), (64, 64), (1, 64)], (64, 64)),
    ("linear_relu", [(64, 64), (64, 64), (1, 64)], (64, 64)),
    ("softmax", [(64, 64)], (64, 64)),
    ("rms_norm", [(32, 64), (1, 64)], (32, 64)),
    ("layer_norm", [(32, 64), (1, 64), (1, 64)], (32, 64)),
    ("attention", [(64, 32), (256, 32), (256, 32)], (64, 32)),
]


@pytest.mark.parametrize(("name", "shapes", "result"), SHAPES, ids=lambda v: v if isinstance(v, str) else "")
def test_an_example_agrees_with_torch(name, shapes, result):
    example = BY_NAME[name]
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    right = example.reference(*(x.double() for x in inputs)).float()
    tolerance = 1e-3 if "mat" in name or "linear" in name else 1e-5
    check(example.kernel, [*inputs, blank(*result)], {len(inputs): right}, tolerance)


@pytest.mark.parametrize(
    "kernel", [flash_attention.flash_attention, flash_attention.flash_attention_spelled_out], ids=lambda k: k.__name__
)
def test_flash_attention_over_sixteen_blocks_of_keys(kernel):
    example = BY_NAME["flash attention fp16"]
    arguments = example.arguments(3)
    right = example.expected(arguments).float()
    check(kernel, arguments, {3: right}, example.tolerance)
