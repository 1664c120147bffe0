"""Arrays of scalars on the core."""

from __future__ import annotations

import pytest
import torch

from examples import arrays
from tests.workloads import blank, check


@pytest.mark.parametrize("where", [0, 3, 7])
def test_a_value_goes_through_an_array(where):
    right = torch.zeros(8, dtype=torch.int32)
    right[where] = 42
    src, index = torch.tensor([42, 1], dtype=torch.int32), torch.tensor([where], dtype=torch.int32)
    check(arrays.place, [src, index, blank(8, dtype=torch.int32)], {2: right}, 0)


def test_a_histogram():
    x = torch.randint(0, 6, (50,), generator=torch.Generator().manual_seed(13), dtype=torch.int32)
    right = torch.bincount(x, minlength=8).int()
    check(arrays.histogram, [x, blank(8, dtype=torch.int32)], {1: right}, 0)
