"""Kernels whose parts are tasks: the order that their reads and writes ask for, on any number of threads."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
from examples import tasks
from tests.workloads import blank, check


def random(*shapes):
    generator = torch.Generator().manual_seed(9)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("kernel", [tasks.four_times, tasks.four_times_declared], ids=lambda k: k.__name__)
def test_a_scratch_tensor_is_written_before_it_is_read(kernel):
    (x,) = random((128, 128))
    check(kernel, [x, blank(128, 128)], {1: 4 * x}, 1e-5)


def test_a_graph_of_five_tasks():
    a, b = random((128, 128), (128, 128))
    right = (a + b + 1) * (a + b + 2) + (a + b)
    check(tasks.vector_graph, [a, b, blank(128, 128)], {2: right}, 1e-5)


@pytest.mark.parametrize("gate", [-1, 0, 1, 5])
def test_a_task_runs_if_its_predicate_holds(gate):
    (x,) = random((16, 16))
    before = torch.ones(16, 16)
    right = x if gate > 0 else before
    check(tasks.overwrite_if, [x, torch.tensor([[gate]], dtype=torch.int32), before], {2: right}, 0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 16, 17, 31])
def test_consumers_wait_for_all_producers(rows):
    (x,) = random((rows, 64))
    right = (x.double().sum(0) + 2 * (x + x.roll(-1, 0))).float()
    check(tasks.phases, [x, blank(rows, 64)], {1: right}, 1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_results_are_those_of_one_thread(threads):
    (x,) = random((24, 64))
    config = pypto.RunConfig(threads=threads)
    assert torch.equal(
        tasks.phases(x, blank(24, 64), config=config), tasks.phases(x, config=pypto.RunConfig(threads=1))
    )
