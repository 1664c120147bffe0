"""A compiled program is a value: it can be called, pickled, and asked for its assembly."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import numpy
import pytest
import torch

from pypto_jit.errors import ArgumentError, AssemblyError
from pypto_jit.runtime.artifact import returned
from tests.entries import bump_program

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def test_call():
    program = bump_program((2, 3))
    out = torch.zeros(2, 3)
    assert program(X, out) is out
    assert torch.equal(out, X + 1)
    assert torch.equal(program(X), X + 1)
    assert (program(X.numpy()) == X.numpy() + 1).all()
    assert isinstance(program(X.numpy()), numpy.ndarray)
    assert program.calls == 4


def test_overlap_is_resolved():
    memory = torch.arange(5, dtype=torch.float32)
    bump_program((4,))(memory[:4], memory[1:])
    assert memory.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ((X.t(),), "'x' is not what kernel 'bump' was compiled for"),
        ((X.int(),), "'x' is not what"),
        ((X, X[:1]), "'out' is not what"),
        ((), "'x' is missing"),
        ((X, X, X), "too many tensors"),
        ((X, 3), "'out' is missing or no tensor"),
        ((X.clone().requires_grad_(),), "'x' requires grad"),
    ],
)
def test_other_tensors_are_refused(tensors, message):
    with pytest.raises(ArgumentError, match=message):
        bump_program((2, 3))(*tensors)


def test_is_immutable_and_survives_pickling():
    program = bump_program((2, 3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.name = "other"  # type: ignore[misc]
    program(X)
    copy = pickle.loads(pickle.dumps(program))
    assert copy == program
    assert torch.equal(copy(X), X + 1)


def test_loads_and_runs_without_the_compiler(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(pickle.dumps(bump_program((4,))))
    script = (
        "import pickle, sys, torch\n"
        f"program = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(program(torch.zeros(4)).tolist())\n"
        "print([m for m in sys.modules if m.startswith(('mlir', 'pypto_jit.lowering', 'pypto_jit.frontend'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[1.0, 1.0, 1.0, 1.0]", "[]"]


def test_assembly():
    program = bump_program((4,))
    assert program.pto == "module {}"
    without = dataclasses.replace(program, assembly=None, assembly_error="it hands over in a circle")
    with pytest.raises(AssemblyError, match="hands over in a circle"):
        _ = without.pto


def test_nested_results():
    assert returned(("a", ("b",), ()), {"a": 1, "b": 2}) == (1, (2,), ())
