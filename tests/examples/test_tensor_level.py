"""Examples on whole tensors, and products whose blocks add in memory, in every way that they can be run."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
from examples import feed_forward, llama, split_k, tensor_products, tensors
from examples.catalog import models
from examples.catalog import tensor_products as products
from examples.catalog import tensors as whole
from examples.llama_in_torch import Model
from pypto_jit.errors import DTypeError
from tests.workloads import check_example

EXAMPLES = (*whole.EXAMPLES, *products.EXAMPLES, *models.EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_an_example_in_every_way(example):
    check_example(example)


def _stage(kernel, *shapes, dtype=torch.float32) -> str:
    return kernel.lower(*(torch.zeros(shape, dtype=dtype) for shape in shapes))["tensors"]


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (tensors.matmul_bias, [(64, 64)] * 3),
        (tensors.linear_relu, [(64, 64), (64, 64), (64,)]),
        (tensors.softmax, [(64, 64)]),
        (tensors.rms_norm, [(32, 64), (64,)]),
        (tensors.layer_norm, [(32, 64), (64,), (64,)]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_one_kernel_without_a_workspace(kernel, shapes):
    text = _stage(kernel, *shapes)
    assert "pypto.submit" not in text
    assert "pypto.create_tensor" not in text


@pytest.mark.parametrize(("depth", "steps"), [(32, 0), (256, 1)])
def test_the_sum_is_split_where_it_does_not_fit(depth, steps):
    assert _stage(tensor_products.product, (256, depth), (depth, 128)).count("pypto.matmul_acc") == steps


def test_what_a_chain_leaves_is_kept_in_its_dtype():
    text = _stage(tensor_products.chained, (128, 192), (192, 64), (64, 128), dtype=torch.bfloat16)
    assert text.count("pypto.create_tensor") == 1
    assert '"pypto.create_tensor"() : () -> !pypto.tensor<[128, 64], bf16' in text


def test_transposed_and_sliced_matrices_are_read_as_they_lie():
    for kernel, shapes in (
        (tensor_products.product_transposed, [(3, 20, 48), (3, 33, 48)]),
        (tensor_products.product_sliced, [(3, 20, 48), (3, 64, 80)]),
    ):
        assert "pypto.create_tensor" not in _stage(kernel, *shapes)


def test_the_activation_is_computed_with_the_product():
    text = _stage(feed_forward.relu, *[(64, 64)] * 3)
    assert text.count("pypto.submit") == 2
    assert text.count("pypto.create_tensor") == 1


def test_bf16_is_not_added_in_the_memory_of_a5():
    a, b, out = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((64, 512), (512, 64), (64, 64)))
    with pytest.raises(DTypeError, match="a5 adds no BF16 in global memory"):
        split_k.matmul_split_k(a, b, out, config=pypto.RunConfig(platform="a5sim"))


@pytest.mark.parametrize(("heads", "groups"), [(4, 2), (1, 1)])
def test_a_torch_model_and_the_same_weights(heads, groups):
    torch.manual_seed(heads)
    model = Model(heads=heads, groups=groups)
    tokens = torch.randint(0, 64, (16,))
    with torch.no_grad():
        found = llama.llama_mini(*model.arguments(tokens), head_count=heads)
        torch.testing.assert_close(found.double(), model.double()(tokens), rtol=1e-5, atol=1e-5)
