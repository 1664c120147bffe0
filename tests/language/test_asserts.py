"""``assert`` in kernels and helpers: plain Python on what a trace knows, also where pytest has rewritten it."""

from __future__ import annotations

import dis

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl

ROWS = 4


def _load(x, rows):
    assert rows == ROWS, "another number of rows"
    return pl.load(x, [0, 0], [rows, 16])


@pypto.jit
def kernel(x, out):
    assert x.shape[1] == 16
    assert x.shape[0] in (2, 4), x.shape
    pl.store(_load(x, x.shape[0]) + 1.0, [0, 0], out)


def test_pytest_gives_its_rewritten_asserts_names_that_no_program_could():
    names = {instruction.argval for instruction in dis.get_instructions(_load)}
    assert any(isinstance(name, str) and name.startswith("@") for name in names)


def test_asserts_that_hold_cost_no_second_trace():
    kernel.cache_clear()
    x = torch.arange(64.0).reshape(4, 16)
    for _ in range(3):
        out = torch.zeros(4, 16)
        kernel(x, out)
        assert torch.equal(out, x + 1)
    assert kernel.cache_info().misses == 1


def test_an_assert_that_fails_reaches_the_caller():
    with pytest.raises(AssertionError, match="another number of rows"):
        kernel(torch.zeros(2, 16), torch.zeros(2, 16))


def test_what_an_assert_reads_is_guarded(monkeypatch):
    kernel(torch.zeros(4, 16), torch.zeros(4, 16))
    monkeypatch.setitem(globals(), "ROWS", 5)
    with pytest.raises(AssertionError, match="another number of rows"):
        kernel(torch.zeros(4, 16), torch.zeros(4, 16))
