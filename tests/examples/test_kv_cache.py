"""Two programs that share a cache of keys and values."""

from __future__ import annotations

import math

import torch

from examples.kv_cache import Cache, append
from examples.paged_attention import paged_attention


def test_decoding_attends_over_all_that_was_appended():
    batch, heads, dim, steps = 2, 16, 32, 130  # a page has 128 keys
    generator = torch.Generator().manual_seed(14)
    cache = Cache.empty(batch, dim, most=2)
    places = cache.k.data_ptr(), cache.v.data_ptr()
    for kernel in (append, paged_attention):
        kernel.cache_clear()
    keys, values = [], []
    for _ in range(steps):
        q, key, value = (
            torch.randn(n, dim, generator=generator).to(torch.bfloat16) for n in (batch * heads, batch, batch)
        )
        keys.append(key.float())
        values.append(value.float())
        found = cache.decode(q, key, value)
        k, v = torch.stack(keys, 1), torch.stack(values, 1)
        scores = q.float().reshape(batch, heads, dim) @ k.transpose(1, 2) / math.sqrt(dim)
        right = (torch.softmax(scores, -1) @ v).reshape(batch * heads, dim)
        torch.testing.assert_close(found, right, rtol=2e-2, atol=2e-2)
    assert (cache.k.data_ptr(), cache.v.data_ptr()) == places
    assert append.cache_info().misses == paged_attention.cache_info().misses == 1
