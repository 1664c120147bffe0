"""Random graphs of tasks: whatever the number of threads and the order, the result is the one of the program order."""

from __future__ import annotations

import os
import random
import subprocess
import sys

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


@pypto.jit
def through(x, t, y: pl.Out[pl.Tensor]):
    for i in pl.range(0, ROWS, BAND):
        with pl.at(level=pl.Level.CORE_GROUP):
            band = pl.load(x, [i, 0], [BAND, COLUMNS])
            pl.store(pl.add(band, pl.load(t, [i, 0], [BAND, COLUMNS])), [i, 0], y)
    return y


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_an_input_may_be_the_output(threads):
    x, t = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    goal = x + t
    assert torch.equal(through(x, t, x, config=RunConfig(threads=threads)), goal)
    assert torch.equal(x, goal)


def test_calls_may_overlap(program):
    from concurrent.futures import ThreadPoolExecutor

    plans = [random_plan(seed) for seed in range(12)]
    starts = [torch.randn(ROWS, COLUMNS) for _ in plans]
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(program, plan, start.clone(), config=RunConfig(threads=2))
            for plan, start in zip(plans, starts, strict=True)
        ]
        for call, plan, start in zip(calls, plans, starts, strict=True):
            assert torch.equal(call.result(), in_order(plan, start))


def test_a_saved_program_runs_elsewhere(program, tmp_path):
    script = """
import sys, torch
from pypto_jit.runtime.artifact import CompiledProgram
program = CompiledProgram.load(sys.argv[1])
plan, data, goal = torch.load(sys.argv[2])
assert torch.equal(program(plan, data), goal)
assert "mlir" not in sys.modules
"""
    plan, start = random_plan(5), torch.randn(ROWS, COLUMNS)
    torch.save((plan, start, in_order(plan, start)), tmp_path / "data.pt")
    folder = program.save(tmp_path / "program")
    subprocess.run([sys.executable, "-c", script, str(folder), str(tmp_path / "data.pt")], check=True)


def test_a_forked_child_runs_on_one_thread(program):
    plan, start = random_plan(6), torch.randn(ROWS, COLUMNS)
    goal = in_order(plan, start)
    assert torch.equal(program(plan, start.clone(), config=RunConfig(threads=2)), goal)
    child = os.fork()
    if child == 0:
        try:
            same = torch.equal(program(plan, start.clone()), goal)
        finally:
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
