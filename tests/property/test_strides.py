"""Tensors of any rank and strides are read and written where their elements are, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def scaled_sum(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    """2 x + y, in one tile."""
    start, shape = [0] * len(x.shape), list(x.shape)
    pl.store(pl.load(x, start, shape) * 2.0 + pl.load(y, start, shape), start, out)
    return out


@dataclass(frozen=True)
class Strided:
    """A tensor within a larger memory: ``steps`` apart along each dimension, the dimensions laid out in ``order``."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[int, ...]
    expanded: frozenset[int] = frozenset()

    def make(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The memory, and the tensor in it."""
        extents = [1 if k in self.expanded else self.shape[k] * self.steps[k] for k in self.order]
        memory = torch.arange(math.prod(extents), dtype=torch.int32).remainder(97).to(dtype)
        view = memory.view(extents)
        for position, k in enumerate(self.order):
            if k not in self.expanded:
                view = view[(slice(None),) * position + (slice(None, None, self.steps[k]),)]
        inverse = [self.order.index(k) for k in range(len(self.shape))]
        return memory, view.permute(inverse).expand(self.shape)


@st.composite
def strided(draw: Any, shape: tuple[int, ...], *, expand: bool) -> Strided:
    order = tuple(draw(st.permutations(range(len(shape)))))
    steps = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in shape)
    expanded = frozenset(k for k in range(len(shape)) if expand and draw(st.sampled_from([False, False, True])))
    return Strided(shape, order, steps, expanded)


@given(data=st.data())
def test_elements_are_found_by_their_strides(data):
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple))
    dtype = {"float": torch.float32, "half": torch.float16}[data.draw(st.sampled_from(["float", "half"]))]
    _, x = data.draw(strided(shape, expand=True)).make(dtype)
    _, y = data.draw(strided(shape, expand=True)).make(dtype)
    memory, out = data.draw(strided(shape, expand=False)).make(dtype)
    expected_memory = memory.clone()
    expected = torch.as_strided(expected_memory, out.size(), out.stride())
    expected.copy_(2 * x + y)
    assert scaled_sum(x, y, out) is out
    assert torch.equal(memory, expected_memory)
