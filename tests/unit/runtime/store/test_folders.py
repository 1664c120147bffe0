"""A program saved to a folder loads where there is no compiler, and is refused where it does not belong."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import LaunchError
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.linking import link_shared
from pypto_jit.runtime.store.environment import host_cpu_text, runs_here
from pypto_jit.runtime.store.files import MANIFEST, DamagedError
from pypto_jit.runtime.store.folders import folder_name, load_program, save_program

X = torch.arange(32, dtype=torch.float32).reshape(4, 8)


@pypto.jit
def twice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [4, 8]) * 2.0, [0, 0], out)
    return out


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    made = twice.compile(X, X)
    return dataclasses.replace(made, shared=link_shared(made.code))


def test_a_program_loads_equal_and_runs(program, tmp_path):
    loaded = CompiledProgram.load(program.save(tmp_path / "deep" / "folder"))
    assert loaded == dataclasses.replace(program, timings=loaded.timings)
    assert torch.equal(loaded(X), 2 * X)
    assert CompiledProgram.from_dir(tmp_path / "deep" / "folder") == loaded


def test_the_folder_holds_a_manifest_the_assembly_and_the_code(program, tmp_path):
    path = save_program(program, tmp_path / "out", {"passes/01_plan.mlir": b"module {}"})
    names = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    assert names == {MANIFEST, "kernels/twice.pto", "kernel.o", "passes/01_plan.mlir"} | (
        {"kernel.so"} if program.shared else set()
    )
    manifest = json.loads((path / MANIFEST).read_text())
    assert manifest["schema"] == 2
    assert manifest["options"]["opt_level"] == 2
    assert manifest["options"]["strategy"] == "Default"
    assert manifest["tools"]["llvmlite"].startswith("llvmlite-")
    assert [p["name"] for p in manifest["parameters"]] == ["x", "out"]
    assert (path / "kernels/twice.pto").read_text() == program.pto
    assert list(tmp_path.iterdir()) == [path]


def test_two_folders_of_one_program_each_get_their_files(program, tmp_path):
    one, two = (program.save(tmp_path / name) for name in ("one", "two"))
    assert (one / MANIFEST).read_bytes() == (two / MANIFEST).read_bytes()


def test_an_earlier_program_is_replaced_and_nothing_else_is(program, tmp_path):
    other = dataclasses.replace(program, name="other", assembly=None)
    program.save(tmp_path / "out")
    other.save(tmp_path / "out")
    assert CompiledProgram.load(tmp_path / "out").name == "other"
    assert not (tmp_path / "out" / "kernels").exists()
    (tmp_path / "mine").mkdir()
    program.save(tmp_path / "mine")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("...")
    with pytest.raises(FileExistsError):
        program.save(tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.tex").exists()


def test_names_of_folders_follow_the_content(program):
    assert folder_name(program) == folder_name(dataclasses.replace(program, timings={"trace": 1.0}))
    assert folder_name(program) != folder_name(dataclasses.replace(program, code=(b"other",)))
    assert folder_name(program).startswith("twice-")


@pytest.mark.parametrize("victim", [MANIFEST, "kernel.o"])
def test_a_folder_that_was_changed_does_not_load(program, tmp_path, victim):
    path = program.save(tmp_path / "out")
    content = (path / victim).read_bytes()
    (path / victim).write_bytes(content[:-4])
    with pytest.raises(DamagedError):
        load_program(path)


def test_what_is_no_program_does_not_load(tmp_path):
    with pytest.raises(FileNotFoundError, match="manifest"):
        load_program(tmp_path)


def test_code_of_another_processor_is_not_run(program, tmp_path):
    here = json.loads(host_cpu_text())
    more = json.dumps({**here, "flags": here.get("flags", "") + " amx_future"})
    foreign = dataclasses.replace(program, cpu=more)
    with pytest.raises(LaunchError, match="another processor"):
        CompiledProgram.load(foreign.save(tmp_path / "out"))(X)


def test_a_processor_with_less_is_run_here():
    here = json.loads(host_cpu_text())
    assert runs_here(json.dumps({**here, "model name": "older", "flags": ""}))
    assert not runs_here(json.dumps({**here, "machine": "riscv64"}))
    assert not runs_here("nonsense")
    assert runs_here("")


def test_a_process_without_compiler_or_source_runs_it(program, tmp_path):
    if program.shared is None:
        pytest.skip("no linker on this machine")
    program.save(tmp_path / "out")
    script = """if 1:
        import sys, torch
        from pypto_jit import CompiledProgram
        x = torch.arange(32, dtype=torch.float32).reshape(4, 8)
        program = CompiledProgram.load(sys.argv[1])
        print(torch.equal(program(x), 2 * x))
        packages = ('mlir', 'llvmlite', 'pypto_jit.frontend', 'pypto_jit.lowering')
        print([m for m in packages if m in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(pypto.__file__).parents[1],
    )
    assert done.stdout.split("\n")[:2] == ["True", "[]"], done.stderr
