"""Random graphs of tasks: whatever the number of threads and the order, the result is the one of the program order."""

from __future__ import annotations

import random

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit import RunConfig, abi

TASKS, ROWS, COLUMNS, BAND, STRIP = 120, 48, 64, 8, 16


@pypto.jit
def graph(plan: pl.Tensor, data: pl.InOut[pl.Tensor]):
    for i in pl.range(0, TASKS):
        kind, source, target = pl.read(plan, [i, 0]), pl.read(plan, [i, 1]), pl.read(plan, [i, 2])
        with pl.at(level=pl.Level.CORE_GROUP, predicate=kind == 0):
            # A band of rows.
            above = pl.load(data, [source, 0], [BAND, COLUMNS])
            pl.store(pl.add(pl.mul(pl.load(data, [target, 0], [BAND, COLUMNS]), 0.5), above), [target, 0], data)
        with pl.at(level=pl.Level.CORE_GROUP, predicate=kind == 1):
            # A strip of columns.
            left = pl.load(data, [0, source], [ROWS, STRIP])
            pl.store(pl.sub(pl.mul(pl.load(data, [0, target], [ROWS, STRIP]), 0.5), left), [0, target], data)
        with pl.spmd(ROWS // BAND, predicate=kind == 2):
            # All of it, band by band.
            row = pl.get_block_idx() * BAND
            pl.store(pl.mul(pl.load(data, [row, 0], [BAND, COLUMNS]), 0.75), [row, 0], data)
    return data


def random_plan(seed: int) -> torch.Tensor:
    draw = random.Random(seed)
    rows = []
    for _ in range(TASKS):
        kind = draw.choice([0, 0, 0, 1, 1, 2]) if draw.random() < 0.9 else 3
        last = ROWS - BAND if kind == 0 else COLUMNS - STRIP
        rows.append([kind, draw.randint(0, last), draw.randint(0, last)])
    return torch.tensor(rows, dtype=torch.int32)


def in_order(plan: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """By torch, task by task."""
    data = data.clone()
    for kind, source, target in plan.tolist():
        if kind == 0:
            data[target : target + BAND] = data[target : target + BAND] * 0.5 + data[source : source + BAND]
        elif kind == 1:
            data[:, target : target + STRIP] = data[:, target : target + STRIP] * 0.5 - data[:, source : source + STRIP]
        elif kind == 2:
            data *= 0.75
    return data


@pytest.fixture(scope="module")
def program():
    return graph.compile(random_plan(0), torch.zeros(ROWS, COLUMNS))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_number_of_threads_gives_the_same_bits(program, seed, threads):
    torch.manual_seed(seed)
    plan, start = random_plan(seed), torch.randn(ROWS, COLUMNS)
    data = program(plan, start.clone(), config=RunConfig(threads=threads))
    assert torch.equal(data, in_order(plan, start))


@pytest.mark.parametrize("shuffle", [1, 2, 77, 12345])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_order_gives_the_same_bits(program, threads, shuffle):
    torch.manual_seed(shuffle)
    plan, start = random_plan(shuffle), torch.randn(ROWS, COLUMNS)
    data = start.clone()
    assert program.entry(plan, data, threads, shuffle << abi.SHUFFLE) is None
    assert torch.equal(data, in_order(plan, start))


@pypto.jit
def chain(data: pl.InOut[pl.Tensor]):
    """More tasks than a table holds."""
    for i in pl.range(0, 6000):
        row = i % 4 * BAND
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(data, [row, 0], [BAND, COLUMNS]), 1.0), [row, 0], data)
    return data


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_more_tasks_than_a_table_holds(threads):
    data = torch.zeros(4 * BAND, COLUMNS)
    assert torch.equal(chain(data, config=RunConfig(threads=threads)), torch.full_like(data, 1500))


@pypto.jit
def outside(plan: pl.Tensor, data: pl.InOut[pl.Tensor]):
    for i in pl.range(0, 4):
        row = pl.read(plan, [i, 0])
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(data, [row, 0], [BAND, COLUMNS]), 1.0), [row, 0], data)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(data, [pl.read(plan, [4, 0]), 0], [BAND, COLUMNS]), [0, 0], data)
    return data


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_first_failure_is_reported(threads):
    data = torch.zeros(ROWS, COLUMNS)
    plan = torch.tensor([[0], [8], [ROWS - 1], [16], [ROWS]], dtype=torch.int32)
    with pytest.raises(pypto.errors.BoundsError, match="reads outside") as failure:
        outside(plan, data, config=RunConfig(threads=threads))
    assert failure.value.span.line == outside.__wrapped__.__code__.co_firstlineno + 5
