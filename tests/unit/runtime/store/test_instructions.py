"""The decoder agrees with `dis`."""

from __future__ import annotations

import argparse
import dis
import inspect
import typing
from pathlib import Path
from types import CodeType

import pytest

from pypto_jit.runtime.store.instructions import decode

NAMED = {dis.opname[op] for op in (*dis.hasname, *dis.hasfree, *dis.haslocal)} | {"LOAD_CONST"}
SILENT = ("CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN")


def codes(code: CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", [argparse, inspect, typing], ids=lambda module: module.__name__)
def test_every_instruction_of_a_large_module_decodes_as_dis_does(module):
    path = Path(module.__file__)
    count = 0
    for code in codes(compile(path.read_text(), str(path), "exec")):
        expected = [i for i in dis.get_instructions(code) if i.opname not in SILENT]
        for ours, theirs in zip(decode(code), expected, strict=True):
            assert ours[:2] == (theirs.offset, theirs.opname)
            if theirs.opname in NAMED:
                assert ours.argument is theirs.argval or ours.argument == theirs.argval
            count += 1
    assert count > 5000
