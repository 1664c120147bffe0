"""Attention over a cache in pages: each way to cut it into tasks against softmax attention in torch."""

from __future__ import annotations

import re

import pytest
import torch

import pypto_jit as pypto
from examples import paged_attention
from examples.paged_attention import PAGE
from examples.pages import paged
from tests.workloads import blank, check

GROUPED = paged_attention.paged_attention_grouped(page=64, group=2)
KERNELS = {
    "pages": paged_attention.paged_attention,
    "dynamic": paged_attention.paged_attention_dynamic,
    "batched": paged_attention.paged_attention_batched,
    "grouped": GROUPED,
}
# Full pages, ragged ends, one key, a sequence of one page beside longer ones.
LENGTHS = [[256, 256], [200, 1], [128, 300, 17]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_attention_over_pages(name, lengths):
    given = paged(lengths, heads=16, dim=32, page=64 if name == "grouped" else PAGE)
    check(KERNELS[name], [*given.inputs, blank(*given.q.shape)], {5: given.expected()}, 2e-2)


def test_one_artifact_serves_every_batch():
    kernel = paged_attention.paged_attention_dynamic
    kernel.cache_clear()
    for seed, lengths in enumerate([[128], [300, 5], [64, 128, 192, 256]]):
        given = paged(lengths, heads=16, dim=32, page=PAGE, seed=seed)
        found = kernel(*given.inputs, blank(*given.q.shape))
        torch.testing.assert_close(found, given.expected(), rtol=2e-2, atol=2e-2)
    assert kernel.cache_info().misses == 1


def test_each_function_on_the_cores_is_a_kernel_of_its_own():
    given = paged([200], heads=16, dim=32, page=PAGE)
    program = paged_attention.paged_attention.compile(*given.inputs, blank(*given.q.shape))
    kernels = re.findall(r"func\.func @paged_attention_(\w+).*kernel_kind<(\w+)>", program.pto)
    assert kernels == [
        ("score", "cube"),
        ("weigh", "vector"),
        ("mix", "cube"),
        ("start", "vector"),
        ("update", "vector"),
        ("finish", "vector"),
    ]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_one_thread(name, threads):
    given = paged([300, 64, 129], heads=16, dim=32, page=64 if name == "grouped" else PAGE)
    configs = [pypto.RunConfig(threads=n) for n in (1, threads)]
    found = [KERNELS[name](*given.inputs, blank(*given.q.shape), config=config) for config in configs]
    assert torch.equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("length", [8192, 8100])
@pytest.mark.parametrize("name", KERNELS)
def test_attention_at_full_size(name, length):
    page = 64 if name == "grouped" else PAGE
    kernel = paged_attention.paged_attention_grouped() if name == "grouped" else KERNELS[name]
    given = paged([length] * 64, heads=16, dim=128, page=page, pool=512)
    torch.testing.assert_close(kernel(*given.inputs, blank(*given.q.shape)), given.expected(), rtol=2e-2, atol=2e-2)
