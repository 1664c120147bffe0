"""A kernel keeps a bounded number of specializations, and goes on being right when one has to go."""

from __future__ import annotations

import gc
import pickle
import threading
import time
import weakref

import pytest
import torch

import pypto_jit as pypto
from pypto_jit import _jit
from pypto_jit._specializations import MOST, Specializations
from tests.language.kernels import scale


@pytest.fixture
def kernel(monkeypatch):
    """A kernel that keeps three."""
    monkeypatch.setattr(
        _jit, "Specializations", lambda name, evicted: Specializations(name, evicted, most=3), raising=True
    )
    return pypto.jit(scale.__wrapped__)


def call(kernel, rows: int) -> None:
    x = torch.randn(rows, 8)
    assert torch.equal(kernel(x), x * 2)


def test_the_bound():
    assert pypto.jit(scale.__wrapped__).cache_info() == (0, 0, 0, MOST)


def test_the_least_recently_called_goes_first(kernel):
    for rows in (1, 2, 3):
        call(kernel, rows)
    call(kernel, 1)  # by generated code, which tells nobody
    call(kernel, 4)
    assert kernel.cache_info() == (1, 4, 3, 3)
    call(kernel, 1)
    call(kernel, 3)
    assert kernel.cache_info() == (3, 4, 3, 3)
    call(kernel, 2)
    assert kernel.cache_info().misses == 5
    assert kernel.explain_last_miss() == (
        "kernel 'scale' had this specialization, but keeps no more than 3: others were called since"
    )


def test_hits_of_those_that_are_gone_count(kernel):
    for rows in (1, 1, 1, 2, 3, 4, 5, 6):
        call(kernel, rows)
    assert kernel.cache_info() == (2, 6, 3, 3)


def test_generated_code_keeps_no_program_that_is_gone(kernel):
    call(kernel, 1)
    program = weakref.ref(kernel.compile(torch.randn(1, 8)))
    for rows in range(2, 6):
        call(kernel, rows)
    gc.collect()
    assert program() is None
    for _ in range(2):
        for rows in range(1, 6):
            call(kernel, rows)


def test_changed_reads_are_specializations_as_well(kernel, monkeypatch):
    for factor in (1.5, 2.5, 3.5, 4.5, 5.5):
        x = torch.randn(2, 8)
        assert torch.equal(kernel(x, torch.empty(2, 8), factor), x * factor)
    assert kernel.cache_info() == (0, 5, 3, 3)


def test_threads_that_come_first_at_once_compile_once(monkeypatch):
    kernel = pypto.jit(scale.__wrapped__)
    made = []
    compile_cached = _jit.compile_cached

    def slowly(*arguments):
        made.append(arguments)
        time.sleep(0.05)
        return compile_cached(*arguments)

    monkeypatch.setattr(_jit, "compile_cached", slowly)
    x, results, barrier = torch.randn(6, 8), [], threading.Barrier(6)

    def work():
        barrier.wait()
        results.append(kernel(x))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(results) == 6
    assert all(torch.equal(result, x * 2) for result in results)
    assert kernel.cache_info() == (5, 1, 1, MOST)


def test_a_compile_that_fails_holds_nobody_up(monkeypatch):
    kernel = pypto.jit(scale.__wrapped__)
    monkeypatch.setattr(_jit, "compile_cached", lambda *_: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kernel(torch.randn(2, 8))
    monkeypatch.undo()
    call(kernel, 2)
    assert kernel.cache_info() == (0, 1, 1, MOST)


def test_no_argument_survives_a_call():
    kernel = pypto.jit(scale.__wrapped__)
    for config in (None, pypto.RunConfig(opt_level=1)):
        for _ in range(3):
            x, out = torch.randn(4, 8), torch.empty(4, 8)
            alive = [weakref.ref(x), weakref.ref(out)]
            kernel(x, out, config=config)
            del x, out
            gc.collect()
            assert [reference() for reference in alive] == [None, None]


def test_a_kernel_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(scale)) is scale
    assert b"tests.language.kernels" in pickle.dumps(scale)
    assert len(pickle.dumps(scale)) < 200


def test_a_program_is_pickled_whole():
    x = torch.randn(3, 8)
    program = scale.compile(x)
    again = pickle.loads(pickle.dumps(program))
    assert again == program
    assert again.key == program.key
    assert torch.equal(again(x), x * 2)
