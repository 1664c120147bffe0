"""The modules that a PyPTO source imports, under this package's name."""

from __future__ import annotations

import importlib

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit import backend, ir
from pypto_jit.backend import BackendType
from pypto_jit.runtime import RunConfig, RunResult, run


@pl.program
class Double:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        return pl.store(pl.load(x, [0, 0], [8, 16]) * 2.0, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        out = self.double(x, out)
        return out


X = torch.arange(128.0).reshape(8, 16)


def test_ir_compile(tmp_path):
    compiled = ir.compile(Double, str(tmp_path), ir.OptimizationStrategy.Default, skip_ptoas=True, platform="a5sim")
    assert isinstance(compiled, ir.CompiledProgram)
    assert compiled.platform == "a5sim"
    assert torch.equal(compiled(X), X * 2)
    assert compiled.folder is not None
    assert compiled.folder.parent.samefile(tmp_path)


def test_run():
    out = torch.empty(8, 16)
    result = run(Double, X, out, config=RunConfig(platform="a2a3sim"))
    assert isinstance(result, RunResult)
    assert result.passed
    assert result
    assert (result.test_name, result.error, result.profile) == ("Double", None, None)
    assert result.execution_time > 0
    assert torch.equal(out, X * 2)
    assert torch.equal(run(ir.compile(Double), X).outputs, X * 2)
    failed = run(Double, X[:4])
    assert not failed
    assert failed.error is not None
    assert failed.error.startswith("ArgumentError: [PYPTO-ARGUMENT] 'x' has another shape than declared")
    with pytest.raises(pypto.ArgumentError, match=r"run\(\) takes a kernel, a program or a compiled one"):
        run("kernel")  # type: ignore[arg-type]
    with pytest.raises(pypto.ArgumentError, match="takes a RunConfig"):
        run(Double, X, config="a5")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        (ir, "PassManager", "pypto_jit.ir has no 'PassManager': the passes are the compiler's: see what they do with"),
        (ir, "Compiler", "pypto_jit.ir has no 'Compiler': what there is: CompiledEntries, "),
        (backend, "set_backend_type", "no 'set_backend_type': the target belongs to a call: config=RunConfig"),
        (importlib.import_module("pypto_jit.runtime"), "ChipWorker", "kernels run in this process"),
        (pl, "parse_program", "a kernel is a Python function"),
    ],
)
def test_what_is_not_here_says_what_to_use(module, name, instead):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert instead in str(caught.value)


def test_names():
    assert BackendType is pypto.BackendType
    for module in (ir, backend, importlib.import_module("pypto_jit.runtime")):
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pypto")
