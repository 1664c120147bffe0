"""Loading object code."""

from __future__ import annotations

import gc

import pytest
import torch

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.dtypes import INT8
from pypto_jit.errors import LaunchError
from pypto_jit.lowering.cpu.entry import EntryTensor, Launch, Operand
from pypto_jit.runtime import native
from pypto_jit.runtime.native import binding_values, load_entry
from tests.entries import TEAM, bump_code, dense, object_code


def test_the_table_holds_what_entries_call():
    values = binding_values()
    assert values[Binding.ALLOCATE]
    assert values[Binding.FREE]
    assert values[Binding.CALLS] == 0
    assert len(values) == len(Binding)


def test_entries_of_equal_symbols_live_side_by_side():
    code = bump_code(dense(4))
    entries = [load_entry(code) for _ in range(3)]
    for entry in entries[:2]:
        assert entry.function(torch.ones(4), torch.zeros(4)) is None
    assert [entry.calls for entry in entries] == [1, 1, 0]


def test_the_function_keeps_its_code():
    function = load_entry(bump_code(dense(4))).function
    gc.collect()
    out = torch.zeros(4)
    assert function(torch.ones(4), out) is None
    assert out.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("code", [b"", b"garbage", b"\x7fELF" + bytes(60)])
def test_what_is_no_object_file_is_refused(code):
    with pytest.raises(LaunchError):
        load_entry((code,))


def test_an_object_file_without_an_entry_is_refused():
    from pypto_jit.lowering.cpu.codegen import compile_llvm_ir
    from pypto_jit.lowering.cpu.description import host_cpu

    code = compile_llvm_ir(f"@{abi.BINDING_SYMBOL} = global i64 0", host_cpu())
    with pytest.raises(LaunchError):
        load_entry(code)


def test_without_an_openmp_kernels_run_on_the_calling_thread(monkeypatch):
    monkeypatch.setattr(native, "find_openmp", lambda: None)
    binding_values.cache_clear()
    try:
        tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
        launch = Launch("team", (Operand("data", 0), Operand("workspace", 0)), 64, -1, -1)
        loaded = load_entry(object_code(TEAM.replace("LAST", "63"), tensors, [launch], [100]))
        out = torch.zeros(8, dtype=torch.int8)
        assert loaded.function(out, 3) is None
        assert out.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    finally:
        binding_values.cache_clear()
