"""An output folder runs what its assembly says: as it was compiled, or as it was edited since."""

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
from pypto_jit import AssemblyError, CompiledProgram, OptionError
from pypto_jit.runtime.store.environment import host_cpu_text
from pypto_jit.runtime.store.files import DamagedError

X = torch.arange(64, dtype=torch.float32).reshape(8, 8)


@pypto.jit
def scale(x: pl.Tensor, unused: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.constexpr = 3.0):
    pl.store(pl.load(x, [0, 0], [8, 8]) * factor, [0, 0], out)
    return out


@pytest.fixture
def folder(tmp_path) -> Path:
    return scale.compile(X, X).save(tmp_path / "out")


def edit(folder: Path, old: str, new: str) -> int:
    """Replace text in the assembly; the line where it was."""
    path = folder / "kernels" / "scale.pto"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def test_a_folder_as_it_was_written_is_not_compiled(folder):
    script = (
        "import sys, pypto_jit; pypto_jit.load(sys.argv[1])\n"
        "print([m for m in ('mlir', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert pypto.load(folder) == CompiledProgram.load(folder) == CompiledProgram.from_dir(folder)
    assert torch.equal(pypto.load(folder)(X, X), X * 3)


def test_edited_assembly_is_what_runs(folder):
    edit(folder, "3.000000e+00", "5.000000e+00")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    program = pypto.load(folder)
    assert torch.equal(program(X, X), X * 5)
    original = scale.compile(X, X)
    assert (program.name, program.parameters, program.returns) == ("scale", original.parameters, "out")
    assert program.pto == (folder / "kernels" / "scale.pto").read_text()
    assert program.key != original.key
    assert program.folder == folder
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    # Saved, it is a folder like any other.
    program.save(folder)
    assert torch.equal(CompiledProgram.load(folder)(X, X), X * 5)


def test_without_a_compiler_an_edit_is_refused(folder):
    edit(folder, "3.000000e+00", "5.000000e+00")
    with pytest.raises(AssemblyError, match="was edited") as caught:
        CompiledProgram.from_dir(folder)
    assert "pypto_jit.load(folder)" in str(caught.value)


def test_a_relower_is_given_the_text_and_its_place(folder):
    given = []

    def relower(program, path):
        given.append((program.pto, path))
        return dataclasses.replace(program, name="other")

    assert CompiledProgram.load(folder, relower).name == "scale"
    assert given == []
    edit(folder, "3.000000e+00", "5.000000e+00")
    assert CompiledProgram.load(folder, relower).name == "other"
    path = folder / "kernels" / "scale.pto"
    assert given == [(path.read_text(), path)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pto.tmuls ins", "pto.tmuls inns", "malformed"),
        ("pto.tmuls ins", "pto.tmulz ins", "tmulz"),
        ("ins(%t0, %cst", "ins(%t9, %cst", "%t9"),
        (
            "outs(%t1 : !pto.tile_buf<loc=vec, dtype=f32, rows=8",
            "outs(%t1 : !pto.tile_buf<loc=vec, dtype=f32, rows=4",
            "rows",
        ),
    ],
)
def test_malformed_assembly_is_an_error_at_its_line(folder, old, new, message):
    line = edit(folder, old, new)
    with pytest.raises(AssemblyError, match=message) as caught:
        pypto.load(folder)
    assert (caught.value.span.filename, caught.value.span.line) == (str(folder / "kernels" / "scale.pto"), line)
    assert caught.value.span.excerpt()


def test_a_machine_fault_is_an_error_at_its_line(folder):
    edit(folder, "    %c0_i64 = arith", "    %c1_i64 = arith.constant 1 : i64\n    %c0_i64 = arith")
    line = edit(folder, "%t1 = pto.alloc_tile addr = %c0_i64", "%t1 = pto.alloc_tile addr = %c1_i64")
    with pytest.raises(pypto.PyptoError, match="align") as caught:
        pypto.load(folder)
    assert (caught.value.span.filename, caught.value.span.line) == (str(folder / "kernels" / "scale.pto"), line)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%x", "%y", "'x' is not what"),
        ("%c8_index = arith.constant 8", "%c8_index = arith.constant 16", "'x' is not what|extents"),
    ],
)
def test_another_interface_is_refused(folder, old, new, message):
    edit(folder, old, new)
    with pytest.raises(AssemblyError, match=message):
        pypto.load(folder)


def test_another_direction_is_refused(folder):
    path = folder / "kernels" / "scale.pto"
    path.write_text("\n".join(line for line in path.read_text().split("\n") if "pto.tstore" not in line))
    with pytest.raises(AssemblyError, match="another direction"):
        pypto.load(folder)


def test_another_architecture_is_refused(folder):
    edit(folder, '"a2a3"', '"a5"')
    with pytest.raises(OptionError, match="for 'a5', the platform is 'a2a3sim'"):
        pypto.load(folder)


def test_code_of_another_processor_is_compiled_for_this_one(tmp_path):
    here = json.loads(host_cpu_text())
    foreign = dataclasses.replace(scale.compile(X, X), cpu=json.dumps({**here, "flags": "amx_future"}))
    program = pypto.load(foreign.save(tmp_path / "out"))
    assert program.cpu == host_cpu_text()
    assert torch.equal(program(X, X), X * 3)


def test_what_is_not_assembly_may_not_differ(folder):
    (folder / "kernel.o").write_bytes(b"other")
    with pytest.raises(DamagedError):
        pypto.load(folder)


def test_a_folder_that_is_named_may_be_anybodys(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o022)
    (folder.parent / "link").symlink_to(folder)
    assert torch.equal(pypto.load(folder.parent / "link")(X, X), X * 3)


@pypto.jit
def tasks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for row in pl.range(0, 8, 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [row, 0], [2, 8]) * 3.0, [row, 0], out)
    return out


@pytest.mark.parametrize("name", ["tasks", "tasks_task"])
@pytest.mark.parametrize("load", [pypto.load, CompiledProgram.load])
def test_assembly_of_a_program_with_tasks_may_not_be_edited(tmp_path, name, load):
    folder = tasks.compile(X).save(tmp_path / "out")
    assert torch.equal(load(folder)(X), X * 3)
    path = folder / "kernels" / f"{name}.pto"
    path.write_text(path.read_text().replace("3.000000e+00", "5.000000e+00"))
    with pytest.raises(AssemblyError, match="'tasks' submits tasks: it cannot be compiled from its assembly") as caught:
        load(folder)
    assert caught.value.span.filename == str(path)
    assert "the code that submits them is not assembly" in str(caught.value.found)


def test_a_program_with_tasks_for_another_processor_is_refused_when_it_is_to_run(tmp_path):
    here = json.loads(host_cpu_text())
    foreign = dataclasses.replace(tasks.compile(X), cpu=json.dumps({**here, "flags": "amx_future"}))
    program = pypto.load(foreign.save(tmp_path / "out"))
    with pytest.raises(pypto.LaunchError, match="another processor"):
        program(X)


@pypto.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: float):
    pl.store(pl.load(x, [0, 0], [8, 8]) * factor + 3.0, [0, 0], out)
    return out


def test_edited_assembly_takes_the_scalars_that_it_took(tmp_path):
    program = scaled.compile(X, X, 2.0)
    assert [info.name for info in program.scalars] == ["factor"]
    folder = program.save(tmp_path / "out")
    path = folder / "kernels" / "scaled.pto"
    path.write_text(path.read_text().replace("3.000000e+00", "5.000000e+00"))
    edited = pypto.load(folder)
    assert edited.parameters == program.parameters
    for factor in (2.0, -0.5):
        assert torch.equal(edited(X, None, factor), X * factor + 5)
    # Another scalar is another kernel.
    path.write_text(path.read_text().replace("factor", "other"))
    with pytest.raises(AssemblyError, match="is not what kernel 'scaled' was compiled for"):
        pypto.load(folder)
