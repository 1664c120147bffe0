"""The door for torch tensors lets through what it can vouch for, and sends everything else the general way."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy
import pytest
import torch

from pypto_jit import abi
from pypto_jit.dtypes import INT8
from pypto_jit.lowering.cpu.entry import EntryTensor, Launch, Operand
from pypto_jit.runtime import door, native
from pypto_jit.runtime.door import open_door
from pypto_jit.runtime.native import load_entry
from tests.entries import FAIL, TEAM, bump_code, bump_program, dense, object_code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs torch's layout")


@pytest.fixture(scope="module", params=[False, True], ids=["holding the GIL", "releasing the GIL"])
def bump(request):
    return open_door("bump", load_entry(bump_code(dense(2, 3))), [False, True], release_gil=request.param)


def test_runs_the_entry(bump):
    x, out = torch.randn(2, 3), torch.zeros(2, 3)
    assert bump(x, out) is None
    assert torch.equal(out, x + 1)
    with torch.no_grad():
        parameter = torch.nn.Parameter(x.clone())
        assert bump(parameter, out) is None
        assert bump(x, parameter) is None
    assert torch.equal(parameter, x + 1)
    with torch.inference_mode():
        assert bump(torch.zeros(2, 3), torch.zeros(2, 3)) is None


def test_counts_versions_of_what_is_written(bump):
    x, out = torch.randn(2, 3), torch.zeros(4, 3)
    assert bump(x, out[:2]) is None
    assert (x._version, out._version) == (0, 1)
    assert bump(x, out) == 2
    assert (x._version, out._version) == (0, 1)


def test_passes_on_what_the_entry_finds_wrong(bump):
    x, out = torch.randn(2, 3), torch.zeros(2, 3)
    assert bump(x.double(), out) == 1
    assert bump(x, out.t()) == 2
    assert bump(torch.zeros(9)[:6].view(2, 3), torch.zeros(9)[3:].view(2, 3)) is None
    memory = torch.zeros(9)
    assert bump(memory[:6].view(2, 3), memory[3:].view(2, 3)) == abi.OVERLAP


class Named(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.numpy(),
        lambda x: x.as_subclass(Named),
        lambda x: torch._neg_view(x),
        lambda x: x.to("meta"),
        lambda x: x.to_sparse(),
        lambda x: None,
        lambda x: 7,
        lambda x: "x",
        lambda x: torch,
    ],
)
def test_vouches_only_for_plain_torch_tensors(bump, other):
    x = torch.zeros(2, 3)
    assert bump(other(x), torch.zeros(2, 3)) == abi.ARITY
    assert bump(x, other(torch.zeros(2, 3))) == abi.ARITY


def test_another_count_of_arguments(bump):
    x = torch.zeros(2, 3)
    out = torch.zeros(2, 3)
    for arguments in ((), (x,), (x, out, 1, 0), (x, out, 0), (x, out, -1), (x, out, "1"), (x, out, 1 << 70)):
        assert bump(*arguments) == abi.ARITY
    assert bump(x, out, 1) is None
    with pytest.raises(TypeError):
        bump(x, out, threads=1)


def test_batched_and_fake_tensors(bump):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert bump(torch.zeros(2, 3), torch.zeros(2, 3)) == abi.ARITY
    seen = []
    torch.vmap(lambda x: seen.append(bump(x, torch.zeros(2, 3))) or x)(torch.zeros(5, 2, 3))
    assert seen == [abi.ARITY]


def test_keeps_no_argument_alive_and_leaks_nothing(bump):
    x, out = torch.zeros(2, 3), torch.zeros(2, 3)
    before = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
    for _ in range(100):
        bump(x, out)
        bump(x, x.numpy())
    after = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 50


def test_passes_the_number_of_threads():
    tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
    launch = Launch("team", (Operand("data", 0), Operand("workspace", 0)), 64, -1, -1)
    code = object_code(TEAM.replace("LAST", "63"), tensors, [launch], [100])
    team = open_door("team", load_entry(code), [True], release_gil=True)
    out = torch.zeros(8, dtype=torch.int8)
    assert team(out, 3) is None
    assert out.tolist() == [3, 3, 3, 0, 0, 0, 0, 0]


def test_a_failed_check_is_a_negative_number():
    tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
    code = object_code(FAIL, tensors, [Launch("fail", (Operand("data", 0),), 0, 1, 1)])
    assert open_door("fail", load_entry(code), [True], release_gil=False)(torch.zeros(8, dtype=torch.int8)) == -7


def test_the_function_keeps_its_code_loaded():
    doors = [open_door("bump", load_entry(bump_code(dense(4))), [False, True], release_gil=False) for _ in range(3)]
    for call in doors:
        out = torch.zeros(4)
        assert call(torch.ones(4), out) is None
        assert out.tolist() == [2, 2, 2, 2]


def test_many_threads(bump):
    wrong = []

    def call(seed: float) -> None:
        x, out = torch.full((2, 3), seed), torch.zeros(2, 3)
        for _ in range(100):
            if bump(x, out) is not None or out[0, 0] != seed + 1:
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_none_where_it_cannot_be_made(monkeypatch):
    assert open_door("bump", load_entry(bump_code(dense(4))), [True] * 65, release_gil=False) is None
    monkeypatch.setattr(door, "find_torch_layout", lambda: None)
    for cached in (door.door_values, native.binding_values):
        cached.cache_clear()
    try:
        assert open_door("bump", load_entry(bump_code(dense(4))), [False, True], release_gil=False) is None
    finally:
        for cached in (door.door_values, native.binding_values):
            cached.cache_clear()


def test_numpy_is_left_to_the_entry():
    loaded = load_entry(bump_code(dense(4)))
    out = numpy.zeros(4, "float32")
    assert loaded.function(numpy.ones(4, "float32"), out) is None
    assert out.tolist() == [2, 2, 2, 2]


def test_needs_no_compiler(tmp_path):
    """A loaded artifact brings its door along."""
    path = tmp_path / "program"
    path.write_bytes(pickle.dumps(bump_program((4,))))
    script = (
        "import pickle, sys, torch\n"
        f"program = pickle.load(open({str(path)!r}, 'rb'))\n"
        "out = torch.zeros(4)\n"
        "print(program.torch_entry(torch.zeros(4), out), out.tolist())\n"
        "print([m for m in sys.modules if m.startswith(('mlir', 'pypto_jit.lowering', 'pypto_jit.frontend'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None [1.0, 1.0, 1.0, 1.0]", "[]"]
