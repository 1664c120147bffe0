"""The order of the layers: what a compile keeps of each."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit._compiler import Clock, Stages, stage_names
from pypto_jit.errors import AssemblyError
from tests.language.kernels import scale


@pytest.mark.parametrize("name", ["exp", "free", "memcpy", "pypto_entry", "main"])
def test_a_kernel_may_be_called_like_a_function_of_a_library(name):
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.exp(pl.load(x, [0, 0], [4, 8])), [0, 0], out)

    kernel.__name__ = name
    x = torch.randn(4, 8)
    torch.testing.assert_close(pypto.jit(kernel)(x), torch.exp(x))


def test_a_kernel_without_source():
    namespace = {"pl": pl}
    text = "def double(x, out):\n    pl.store(pl.load(x, [0, 0], [4, 8]) * 2.0, [0, 0], out)\n    return out\n"
    exec(text, namespace)
    x = torch.randn(4, 8)
    assert torch.equal(pypto.jit(namespace["double"])(x, torch.empty(4, 8)), x * 2)


def test_a_lambda():
    x = torch.randn(4, 8)
    copy = pypto.jit(lambda x, out: pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out))
    out = torch.empty(4, 8)
    copy(x, out)
    assert torch.equal(out, x)


def test_what_a_program_keeps():
    x = torch.randn(6, 8)
    program = scale.compile(x, torch.empty(6, 8))
    assert program.name == "scale"
    assert program.returns == "out"
    assert program.origin is not None
    assert program.origin.filename.endswith("kernels.py")
    assert program.work > 0
    assert all(seconds > 0 for seconds in program.timings.values())
    with pytest.raises(TypeError):
        program.timings["trace"] = 0.0  # type: ignore[index]


def circle(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Cube and vector work hand over in every iteration: no order of two kernels does that."""
    t = pl.load(x, [0, 0], [16, 16])
    for _ in pl.range(0, 3):
        t = pl.exp(pl.matmul(t, pl.load(w, [0, 0], [16, 16])) * 1.0)
    pl.store(t, [0, 0], out)


def test_asking_for_assembly_that_cannot_be_is_an_error_that_says_why():
    kernel = pypto.jit(circle)
    x, w = torch.randn(16, 16) / 16, torch.randn(16, 16) / 16
    expected = x
    for _ in range(3):
        expected = torch.exp(expected @ w)
    torch.testing.assert_close(kernel(x, w), expected, rtol=1e-4, atol=1e-4)
    program = kernel.compile(x, w)
    assert program.assembly is None
    with pytest.raises(AssemblyError) as caught:
        _ = program.pto
    assert "circle" in str(caught.value)
    stages = kernel.lower(x, w)
    with pytest.raises(AssemblyError):
        stages["pto"]
    assert "pto.tmatmul" in stages["plan"]


def test_stages_are_a_mapping():
    stages = Stages({"trace": "a", "pto": ""}, AssemblyError("none"))
    assert list(stages) == ["trace", "pto"]
    assert stages["trace"] == "a"
    with pytest.raises(AssemblyError):
        stages["pto"]
    assert repr(stages) == "Stages(trace, pto)"
    assert stage_names()[0] == "trace"
    assert stage_names()[-2:] == ("pto", "llvm")


def test_the_clock_adds_up():
    clock = Clock()
    for _ in range(2):
        with clock.step("a"), clock.step("b"):
            pass
    assert clock.seconds["a"] >= clock.seconds["b"] > 0
