"""Kernels that are compiled once and called with every extent."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
from examples import dynamic
from tests.workloads import blank, check


def random(*shapes):
    generator = torch.Generator().manual_seed(12)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("shape", [(64, 128), (1, 1), (65, 129), (200, 300)])
def test_tiles_cover_any_shape(shape):
    a, b = random(shape, shape)
    check(dynamic.add, [a, b, blank(*shape)], {2: a + b}, 1e-5)


def test_one_artifact_serves_fifty_shapes():
    dynamic.add.cache_clear()
    for m in range(1, 51):
        a, b = random((m, 3 * m), (m, 3 * m))
        torch.testing.assert_close(dynamic.add(a, b), a + b)
    assert dynamic.add.cache_info().misses == 1


def test_equal_names_are_equal_extents():
    a, b = random((8, 16), (9, 16))
    with pytest.raises(pypto.PyptoError, match="M"):
        dynamic.add(a, b, torch.empty(8, 16))


def test_one_artifact_serves_two_batches():
    dynamic.softmax.cache_clear()
    for batch in (32, 16, 100):
        (x,) = random((batch, 48))
        torch.testing.assert_close(dynamic.softmax(x, blank(batch, 48)), torch.softmax(x, 1))
    assert dynamic.softmax.cache_info().misses == 1
    check(dynamic.softmax, [x, blank(100, 48)], {1: torch.softmax(x, 1)}, 1e-5)


@pytest.mark.parametrize("shape", [(64, 128), (3, 5), (100, 150)])
def test_transpose(shape):
    (x,) = random(shape)
    check(dynamic.transpose, [x, blank(*reversed(shape))], {1: x.T.contiguous()}, 0)


@pytest.mark.parametrize("rows", [1, 6])
def test_a_dynamic_tensor_seen_in_another_shape(rows):
    (x,) = random((rows, 128))
    check(dynamic.sum_pairs, [x, blank(rows, 64)], {1: x[:, :64] + x[:, 64:]}, 1e-5)
