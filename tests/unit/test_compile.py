"""compile(): stages, traced modules and assembly become programs that do what the kernel does."""

from __future__ import annotations

import dataclasses
import inspect
import json

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, AssemblyError, OptionError
from pypto_jit.options import BackendType, CompileOptions, RunConfig
from tests.language.kernels import scale

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)
STAGES = scale.lower(X, torch.empty_like(X), 3.0)


@pypto.jit
def linear(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor], total: pl.InOut[pl.Tensor]):
    """Cube and vector work, a column vector, and a tensor that is read and written."""
    y = pl.matmul(pl.load(x, [0, 0], [16, 32]), pl.load(w, [0, 0], [32, 16]))
    y = pl.relu(pl.add(y, pl.load(bias, [0, 0], [16, 16])))
    pl.store(y, [0, 0], out)
    pl.store(pl.add(pl.load(total, [0, 0], [16, 1]), pl.row_sum(y)), [0, 0], total)


def test_the_defaults_are_those_of_a_config():
    parameters = dict(inspect.signature(pypto.compile).parameters)
    assert parameters.pop("program").kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert parameters.pop("backend_type").default is None
    assert parameters.pop("platform").default is None
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert {**defaults, "platform": "a2a3sim"} == RunConfig().compile_kwargs()
    assert pypto.compile(STAGES).platform == "a2a3sim"
    assert {*defaults, "platform"} == {field.name for field in dataclasses.fields(CompileOptions)}


@pytest.mark.parametrize("program", [STAGES, STAGES["trace"], STAGES["pto"]], ids=["stages", "trace", "pto"])
def test_each_form_of_a_kernel(program):
    made = pypto.compile(program, **RunConfig(opt_level=1).compile_kwargs())
    assert made.name == "scale"
    assert [(p.name, p.direction) for p in made.tensors] == [("x", "in"), ("out", "out")]
    assert made.options.opt_level == 1
    assert torch.equal(made(X), X * 3)
    with pytest.raises(ArgumentError):
        made(X[:3])


def test_stages_keep_what_text_cannot_say():
    made = pypto.compile(STAGES)
    assert [p.name for p in made.parameters] == ["x", "out", "factor"]
    assert made.origin is not None
    assert made.pto == STAGES["pto"]
    assert "loc(" not in pypto.compile(STAGES["trace"]).pto


@pytest.mark.parametrize("stage", ["trace", "pto"])
def test_kernels_of_several_functions_and_directions(stage):
    torch.manual_seed(0)
    tensors = [torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 16), torch.empty(16, 16)]
    total = torch.randn(16, 1)
    expected = torch.relu(tensors[0] @ tensors[1] + tensors[2])
    made = pypto.compile(linear.lower(*tensors, total)[stage])
    assert made.name == "linear"
    directions = {p.name: p.direction for p in made.tensors}
    assert directions == {"x": "in", "w": "in", "bias": "in", "out": "out", "total": "inout"}
    total_before = total.clone()
    made(*tensors, total)
    torch.testing.assert_close(tensors[3], expected)
    torch.testing.assert_close(total, total_before + expected.sum(1, keepdim=True))


@pytest.mark.parametrize("stage", ["trace", "pto"])
def test_strides_that_are_read_at_run_time(stage):
    made = pypto.compile(scale.lower(X.t(), torch.empty(8, 6), 3.0)[stage])
    assert torch.equal(made(X.t()), X.t() * 3)
    wide = torch.randn(8, 12)
    assert torch.equal(made(wide[:, ::2]), wide[:, ::2] * 3)


def test_the_platform_is_the_programs_own_and_wins_over_the_backend():
    a5 = scale.lower(X, config=RunConfig(platform="a5"))
    for form in (a5, a5["trace"], a5["pto"]):
        assert pypto.compile(form).platform == "a5sim"
        assert pypto.compile(form, platform="a5").platform == "a5"
        assert pypto.compile(form, platform="a5", backend_type=BackendType.Ascend910B).platform == "a5"
        with pytest.raises(OptionError, match="the program is for 'a5', the platform is 'a2a3sim'"):
            pypto.compile(form, platform="a2a3sim")
    with pytest.raises(OptionError, match="is for 'a2a3', the platform is 'a5sim'"):
        pypto.compile(STAGES, backend_type=BackendType.Ascend950)
    assert pypto.compile(STAGES, backend_type=BackendType.Ascend910B).platform == "a2a3sim"
    with pytest.raises(ValueError, match="did you mean 'a2a3sim'"):
        pypto.compile(STAGES, platform="a2a3sin")


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (3, ArgumentError, "what f.lower"),
        (scale, ArgumentError, "what f.lower"),
        ("", AssemblyError, "no kernel"),
        ("garbage", AssemblyError, "malformed assembly"),
        (STAGES["plan"], AssemblyError, "between two passes"),
        (STAGES["llvm"], AssemblyError, "malformed"),
        (STAGES["trace"].replace("f32, [8, 1]", "q3, [8, 1]"), AssemblyError, "no MLIR text of ours"),
        (STAGES["trace"].replace('"a2a3"', '"a9"'), AssemblyError, "no such architecture"),
        (STAGES["trace"].replace('["x", "out"]', '["x", "x"]'), AssemblyError, "names every argument once"),
        (STAGES["trace"].replace("%c0, %1, %c8)", "%c0, %1, %c6)"), AssemblyError, "extents of its box"),
        (
            STAGES["trace"].replace("    return", "    %m = memref.alloc() : memref<4xf32>\n return"),
            AssemblyError,
            "no such",
        ),
        (STAGES["trace"].replace('"pypto.muls"', '"pypto.mul"'), AssemblyError, "expected base type"),
        (STAGES["pto"].replace("dtype=f32", "dtype=f16"), pypto.PyptoError, "f16|FP16"),
        (STAGES["pto"].replace("cols=8", "cols=9"), pypto.PyptoError, "32 bytes|row"),
    ],
)
def test_what_is_no_kernel(program, error, message):
    with pytest.raises(error, match=message):
        pypto.compile(program)


def test_outputs(tmp_path):
    made = pypto.compile(STAGES, output_dir=str(tmp_path), dump_passes=True, profiling=True, diagnostic_phase="pre")
    assert made.folder is not None
    assert made.folder.parent == tmp_path
    names = {str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file()}
    assert {"manifest.json", "kernels/scale.pto", "passes/00_trace.mlir", "report/perf_hints.log"} <= names
    profile = json.loads((made.folder / "report/pipeline_profile.json").read_text())
    assert list(profile["steps"]) == ["parse", "passes", "assembly", "cpu", "codegen"]
    assert torch.equal(pypto.CompiledProgram.load(made.folder)(X), X * 3)
    with pytest.raises(OptionError, match="been through the passes"):
        pypto.compile(STAGES["pto"], dump_passes=True, output_dir=str(tmp_path))
    assert pypto.compile(STAGES["pto"], output_dir=str(tmp_path)).folder is not None
