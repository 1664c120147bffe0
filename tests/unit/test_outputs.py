"""Every option of a compile is in the key of the result, or is seen in what is written, on a hit as on a miss."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path

import pytest
import torch

import pypto_jit as pypto
from pypto_jit._cached import key_options
from pypto_jit.errors import OptionError
from pypto_jit.options import CompileOptions, MemoryPlanner, RunConfig
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store import files
from tests.language.kernels import scale

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)
NAMES = {"output_dir": "save_kernels_dir", "profiling": "compile_profiling"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYPTO_PROG_BUILD_DIR", raising=False)
    monkeypatch.delenv("PTOAS_ROOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def assembler(tmp_path) -> Path:
    """Stands for the vendor's: it prints what it is called with as the dump of its passes."""
    path = tmp_path / "bin" / "ptoas"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\necho "IR Dump $@" >&2\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(params=["miss", "hit"])
def kernel(request):
    """A kernel that was never called, or has the specialization already."""
    made = pypto.jit(scale.__wrapped__)
    if request.param == "hit":
        made(X)
    return made


def written(root: Path = Path("build_output")) -> set[str]:
    """The files of the one folder that was written."""
    (folder,) = root.iterdir()
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def config(field: str, value: object) -> RunConfig:
    return RunConfig(**{NAMES.get(field, field): value})


# A value of each field, and what it does: another key, an error because there is no other value, or a file.
CHANGES = {
    "platform": ("a5sim", "key"),
    "output_dir": ("mine", "manifest.json"),
    "dump_passes": (True, "passes/00_trace.mlir"),
    "profiling": (True, "report/pipeline_profile.json"),
    "strategy": ("fastest", OptionError),
    "memory_planner": (MemoryPlanner.PYPTO, "key"),
    "diagnostic_phase": ("post", "report/perf_hints.log"),
    "disabled_diagnostics": (("PH001",), "report/perf_hints.log"),
    "distributed_config": ([0, 1], ValueError),
    "analyze_auto_scopes_for_deps": (True, OptionError),
    "dump_ptoas_passes": (True, "report/ptoas_passes.txt"),
    "verification_level": (0, "key"),
    "emit_source_loc": (False, "key"),
    "runtime": ("cpu", "key"),
    "opt_level": (3, "key"),
}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(CompileOptions)])
def test_every_field_changes_the_key_or_shows_its_effect(field, kernel, assembler):
    value, effect = CHANGES[field]
    if isinstance(effect, type):
        with pytest.raises(effect, match=field):
            kernel(X, config=config(field, value))
        return
    before = kernel.cache_info().misses
    assert torch.equal(kernel(X, config=config(field, value)), X * 2)
    if effect == "key":
        changed = dataclasses.replace(CompileOptions(), **{field: value})
        assert key_options(changed) != key_options(CompileOptions())
        assert kernel.cache_info().misses == before + 1
        assert kernel.compile(X, config=config(field, value)) is not kernel.compile(X)
        assert not Path("build_output").exists()
    else:
        assert kernel.cache_info().misses == 1
        assert effect in written(Path("mine" if field == "output_dir" else "build_output"))


def test_key_fields_do_what_they_say(kernel):
    assert 'target_arch = "a5"' in kernel.compile(X, config=RunConfig(platform="a5sim")).pto
    assert "loc(" in kernel.compile(X).pto
    assert "loc(" not in kernel.compile(X, config=RunConfig(emit_source_loc=False)).pto
    codes = {kernel.compile(X, config=RunConfig(opt_level=level)).code for level in range(4)}
    assert len(codes) >= 3
    for level in range(4):
        assert torch.equal(kernel(X, config=RunConfig(opt_level=level)), X * 2)


def test_nothing_is_written_unless_asked_for(kernel, tmp_path):
    kernel(X)
    kernel(X, config=RunConfig(save_kernels=True, codegen_only=True, rtol=1.0, diagnostic_phase="none"))
    kernel.compile(X)
    assert list(tmp_path.iterdir()) == []


def test_two_folders_each_get_their_files(kernel, tmp_path):
    for name in ("one", "two", "one"):
        kernel(X, config=RunConfig(save_kernels_dir=name, dump_passes=True))
    names = [written(tmp_path / name) for name in ("one", "two")]
    assert names[0] == names[1]
    assert kernel.cache_info().size == 1
    for root in ("one", "two"):
        (folder,) = (tmp_path / root).iterdir()
        assert torch.equal(CompiledProgram.load(folder)(X), X * 2)


def test_names_follow_the_content(kernel, tmp_path):
    folders = [kernel.compile(X, config=RunConfig(save_kernels_dir=name)).folder for name in ("one", "two")]
    assert folders[0].name == folders[1].name
    other = kernel.compile(X[:3], config=RunConfig(save_kernels_dir="one")).folder
    wishes = kernel.compile(X, config=RunConfig(save_kernels_dir="one", dump_passes=True)).folder
    assert len({folders[0].name, other.name, wishes.name}) == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    kernel.compile(X, config=RunConfig(save_kernels_dir="one", dump_passes=True))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_is_in_a_folder(kernel):
    asked = RunConfig(save_kernels_dir="out", dump_passes=True, compile_profiling=True, disabled_diagnostics=())
    program = kernel.compile(X, config=asked)
    assert program.folder is not None
    stages = list(kernel.lower(X))
    stages.remove("pto")
    passes = sorted(path.name for path in (program.folder / "passes").iterdir())
    assert [name.split(".")[0].split("_", 1)[1] for name in passes] == stages
    assert (program.folder / "passes" / passes[0]).read_text() == kernel.lower(X)["trace"]
    assert (program.folder / "kernels" / "scale.pto").read_text() == program.pto
    profile = json.loads((program.folder / "report" / "pipeline_profile.json").read_text())
    assert list(profile["steps"]) == ["trace", "passes", "assembly", "cpu", "codegen"]
    assert list(profile["passes"]) == [name for name in stages if name not in ("trace", "llvm")]
    assert profile["total"] == pytest.approx(sum(profile["steps"].values()))
    manifest = json.loads((program.folder / "manifest.json").read_text())
    effective = dataclasses.asdict(asked.compile_options())
    assert manifest["options"] == {**effective, "strategy": "Default", "disabled_diagnostics": []}
    assert [p["name"] for p in manifest["parameters"]] == ["x", "out", "factor"]


def test_hints_by_phase_and_identifier(kernel):
    def hints(**asked) -> set[str]:
        folder = kernel.compile(X, config=RunConfig(save_kernels_dir="out", **asked)).folder
        return {line.split(":")[0] for line in (folder / "report" / "perf_hints.log").read_text().splitlines()}

    assert hints(diagnostic_phase="pre") == {"PH001"}
    assert hints(diagnostic_phase="post") == set()
    assert hints(disabled_diagnostics=()) == {"PH001"}
    assert hints(disabled_diagnostics=("PH001",)) == set()
    with pytest.raises(OptionError, match="no diagnostic 'PH002'"):
        hints(disabled_diagnostics=("PH002",))
    with pytest.raises(OptionError, match="diagnostic_phase"):
        hints(diagnostic_phase="middle")


def test_the_assembler_is_asked_for_its_passes(kernel, assembler):
    kernel(X, config=RunConfig(save_kernels_dir="out", dump_ptoas_passes=True))
    (folder,) = Path("out").iterdir()
    assert "--mlir-print-ir-after-all" in (folder / "report" / "ptoas_passes.txt").read_text()
    assembler.write_text('#!/bin/sh\necho "unknown argument" >&2\nexit 1\n')
    with pytest.raises(OptionError, match="does not dump its passes") as caught:
        kernel(X[:2], config=RunConfig(save_kernels_dir="out", dump_ptoas_passes=True))
    assert caught.value.found == "unknown argument"
    assert len(list(Path("out").iterdir())) == 1
    assembler.unlink()
    with pytest.raises(OptionError, match="needs the vendor's assembler"):
        kernel(X, config=RunConfig(dump_ptoas_passes=True))


def test_a_variable_moves_what_has_no_folder_of_its_own(kernel, monkeypatch, tmp_path):
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path / "elsewhere"))
    kernel(X, config=RunConfig(dump_passes=True))
    assert "passes/00_trace.mlir" in written(tmp_path / "elsewhere")


def test_a_folder_that_cannot_be_written_leaves_nothing(kernel, monkeypatch, tmp_path):
    Path("file").write_text("")
    with pytest.raises(OSError, match="file"):
        kernel(X, config=RunConfig(save_kernels_dir="file"))

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "rename", full)
    with pytest.raises(OSError, match="no space left"):
        kernel(X, config=RunConfig(save_kernels_dir="out"))
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "file"]


def test_a_program_whose_assembly_was_edited_runs_as_edited(kernel):
    folder = kernel.compile(X, config=RunConfig(save_kernels_dir="out")).folder
    path = folder / "kernels" / "scale.pto"
    path.write_text(path.read_text().replace("2.000000e+00", "3.000000e+00"))
    assert torch.equal(pypto.load(folder)(X), X * 3)
    assert torch.equal(pypto.compile(path.read_text())(X), X * 3)
