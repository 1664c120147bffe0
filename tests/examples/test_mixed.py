"""A product on the cube core and an addition on the vector core, in one task or in two."""

from __future__ import annotations

import pytest
import torch

from examples import mixed
from tests.workloads import blank, check


@pytest.mark.parametrize("kernel", [mixed.staged, mixed.together], ids=lambda k: k.__name__)
def test_a_product_with_a_matrix_of_biases(kernel):
    generator = torch.Generator().manual_seed(15)
    a, b = (torch.randn(shape, generator=generator).half() for shape in ((128, 256), (256, 128)))
    bias = torch.randn(128, 128, generator=generator)
    right = (a.double() @ b.double() + bias).float()
    check(kernel, [a, b, bias, blank(128, 128)], {3: right}, 2e-3)
