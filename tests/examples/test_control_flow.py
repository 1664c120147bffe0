"""Loops and branches over values that are known when the kernel runs."""

from __future__ import annotations

import pytest
import torch

from examples import control_flow
from tests.workloads import blank, check


def random(*shapes):
    generator = torch.Generator().manual_seed(11)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_loop_carries_a_sum(times):
    x, y = random((16, 32), (16, 32))
    check(control_flow.add_times, [x, y, times, blank(16, 32)], {3: x + times * y}, 1e-5)


@pytest.mark.parametrize("exponent", [0, 1, 4])
def test_a_loop_carries_a_product(exponent):
    (x,) = random((16, 32))
    check(control_flow.power, [x, exponent, blank(16, 32)], {2: x**exponent}, 1e-5)


def test_branches_of_each_kind():
    (x,) = random((5, 32))
    factors = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0]).reshape(5, 1)
    check(control_flow.scale_rows, [x, ints(0, 1, 2, 7, -3), blank(5, 32)], {2: x * factors}, 1e-5)


@pytest.mark.parametrize(("first", "halvings"), [(0.5, 0), (1.0, 0), (1.5, 1), (100.0, 7)])
def test_a_loop_ends_by_its_condition(first, halvings):
    (x,) = random((1, 32))
    x[0, 0] = first
    check(control_flow.halve_until, [x, 1.0, blank(1, 32)], {2: x / 2**halvings}, 1e-5)


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        ((0, 0, 0, 0), (0, 1, 2, 3)),
        ((0, 1, 0, 2), (0, 2)),
        ((2, 0, 0, 0), ()),
        ((1, 1, 1, 0), (3,)),
        ((1, 2, 1, 0), ()),
    ],
)
def test_iterations_are_skipped_and_left(marks, kept):
    (x,) = random((4, 32))
    right = sum((x[i : i + 1] for i in kept), torch.zeros(1, 32))
    check(control_flow.sum_before, [x, ints(*marks), blank(1, 32)], {2: right}, 1e-5)


def test_a_branch_in_a_while_in_a_for():
    starts = (1, 2, 3, 6, 7, 27)
    steps = ints(0, 1, 7, 8, 16, 111)  # known values of the Collatz sequence
    check(control_flow.collatz, [ints(*starts), blank(6, dtype=torch.int32)], {1: steps}, 0)
