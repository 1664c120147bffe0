"""Programs: classes of functions, builders that return them, and what may be done with one."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl

BLOCK = 16


def operands(rows: int = 16, cols: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(rows, cols, generator=generator), torch.randn(rows, cols, generator=generator)


def build_add(rows: int, cols: int, factor: float = 1.0):
    shape = [rows, cols]

    @pl.program
    class AddProgram:
        """Adds, and scales by a constant of the class."""

        SCALE = factor

        @pl.function(type=pl.FunctionType.InCore)
        def add(self, a: pl.Tensor[[rows, cols], pl.FP32], b: pl.Tensor[[rows, cols], pl.FP32],
                out: pl.Out[pl.Tensor[[rows, cols], pl.FP32]]):  # fmt: skip
            pl.func_attr({"split": "up_down"})
            total = self.whole(a) + self.whole(b)
            for _ in pl.range(2):
                total = total * self.SCALE
            return pl.store(total, [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, a: pl.Tensor[[rows, cols], pl.FP32], b: pl.Tensor[[rows, cols], pl.FP32],
                 out: pl.Out[pl.Tensor[[rows, cols], pl.FP32]]):  # fmt: skip
            out = self.add(a, b, out)
            return out

        def whole(self, x):
            return pl.load(x, [0, 0], shape)

    return AddProgram


def test_a_program_is_called_through_its_entry():
    a, b = operands()
    program = build_add(16, 32)
    assert isinstance(program, pypto.Program)
    assert program.orchestration_names == ("main",)
    assert list(program.functions) == ["add", "main"]
    for call in (program, program.main, program["main"], program.entry, program().main, program.add):
        out = torch.empty(16, 32)
        assert call(a, b, out) is out
        assert torch.equal(out, a + b)
    assert torch.equal(program.interpret(a, b), a + b)
    assert "func.func @main" in program.lower()["trace"] or "@main" in program.lower()["trace"]
    assert program.SCALE == 1.0
    assert program.__doc__ == "Adds, and scales by a constant of the class."


def test_a_builder_gives_a_program_for_its_arguments():
    for rows, cols, factor in ((16, 32, 2.0), (8, 64, 3.0)):
        a, b = operands(rows, cols)
        torch.testing.assert_close(build_add(rows, cols, factor)(a, b), (a + b) * factor**2)


def test_a_program_compiles_for_its_declared_shapes():
    a, b = operands()
    for compiled in (pypto.compile(build_add(16, 32)), build_add(16, 32).compile()):
        out = torch.empty(16, 32)
        assert compiled(a, b, out) is out
        assert torch.equal(out, a + b)
        assert torch.equal(compiled(a, b), a + b)
        assert "pto.tadd" in compiled.pto
    a5 = pypto.compile(build_add(16, 32), platform="a5")
    assert a5.platform == "a5"
    assert pypto.compile(build_add(16, 32), backend_type=pypto.BackendType.Ascend950).platform == "a5sim"


def test_a_kernel_compiles_for_its_declared_shapes():
    @pypto.jit
    def double(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor], times: int = 1):
        pl.store(pl.load(x, [0, 0], [8, 64]) * (2.0 * times), [0, 0], out)
        return out

    x = torch.randn(8, 64)
    assert torch.equal(double.compile()(x), x * 2)
    assert torch.equal(double.compile(times=2)(x, None, 2), x * 4)
    double(x)
    assert double.cache_info().size == 1
    undeclared = pypto.jit(lambda x, out: None)
    with pytest.raises(pypto.ArgumentError, match="misses 'x'"):
        undeclared.compile()
    with pytest.raises(pypto.ArgumentError) as caught:
        _undeclared.compile()
    assert str(caught.value).endswith(
        "  found:    x: pl.Tensor\n  expected: x: pl.Tensor[[rows, columns], pl.FP32], or tensors as arguments"
    )


@pypto.jit
def _undeclared(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [8, 64]), [0, 0], out)


@pl.program
class Several:
    """Two entries over one kernel."""

    @pl.function(type=pl.FunctionType.AIV)
    def scale(self, x: pl.Tensor, factor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], x.shape) * factor, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def double(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        return self.scale(x, 2.0, out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def triple(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        return self.scale(x, factor=3.0, out=out)


def test_a_program_of_several_entries():
    x = torch.randn(8, 16)
    assert torch.equal(Several.double(x), x * 2)
    assert torch.equal(Several.triple(x), x * 3)
    compiled = pypto.compile(Several)
    assert isinstance(compiled, pypto.CompiledEntries)
    assert compiled.orchestration_names == tuple(compiled) == ("double", "triple")
    assert torch.equal(compiled.triple(x), x * 3)
    assert torch.equal(compiled["double"](x), x * 2)
    for call, shown in ((Several, "Several"), (compiled, "compiled")):
        with pytest.raises(TypeError) as caught:
            call(x)
        assert str(caught.value).splitlines()[0] == "[PYPTO-ARGUMENT] program 'Several' has several entries"
        assert str(caught.value).endswith(f"  found:    double, triple\n  hint: choose one: {shown}.double(...)")
    with pytest.raises(AttributeError, match="no entry 'tripel'"):
        _ = compiled.tripel


def test_entries_that_are_not_declared():
    @pl.program
    class Implicit:
        @pl.function
        def helper(self, x, out):
            pl.store(pl.load(x, [0, 0], [8, 16]) * 2.0, [0, 0], out)

        @pl.function(strict_ssa=True, auto_scope=False)
        def run(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
            self.helper(x, out)

    x = torch.randn(8, 16)
    assert Implicit.orchestration_names == ("run",)
    assert torch.equal(Implicit(x), x * 2)


def test_a_program_inherits():
    class Base:
        FACTOR = 2.0

        @staticmethod
        def scaled(tile, factor):
            return tile * factor

    @pl.program
    class Derived(Base):
        @pl.function
        def run(self, x, out: pl.Out[pl.Tensor]):
            pl.store(self.scaled(pl.load(x, [0, 0], [8, 16]), self.FACTOR), [0, 0], out)

    x = torch.randn(8, 16)
    assert torch.equal(Derived(x), x * 2)


def test_a_function_without_a_class_is_a_kernel():
    @pl.function(type=pl.FunctionType.InCore)
    def scale(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        pl.store(pl.load(x, [0, 0], [8, 16]) * 2.0, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        return scale(x, out)

    x = torch.randn(8, 16)
    assert torch.equal(main(x), x * 2)
    assert torch.equal(main.compile()(x), x * 2)


# What cannot be a program


def test_what_is_no_program():
    with pytest.raises(pypto.DecoratorError, match="takes a class"):
        pl.program(lambda: None)
    with pytest.raises(pypto.DecoratorError, match="program 'Empty' has no functions"):

        @pl.program
        class Empty:
            pass

    with pytest.raises(pypto.DecoratorError, match="cannot be named 'compile'"):

        @pl.program
        class Hidden:
            @pl.function
            def compile(self, x):
                pass

    with pytest.raises(pypto.DecoratorError, match="takes a pl.FunctionType") as caught:
        pl.function(type="InCore")  # type: ignore[arg-type]
    assert "pl.FunctionType.InCore" in str(caught.value)


def test_a_class_that_is_not_decorated():
    class Undecorated:
        @pl.function
        def run(self, x):
            pass

    with pytest.raises(pypto.DecoratorError) as caught:
        Undecorated().run(torch.zeros(1))  # type: ignore[call-arg]
    assert re.fullmatch(
        r"\[PYPTO-DECORATOR\] the class of '.*Undecorated.run' is no program\n  --> .*test_programs.py:\d+\n(.*\n)*"
        r"  hint: decorate the class with @pl.program",
        str(caught.value),
    )


def test_attributes_of_a_program():
    with pytest.raises(AttributeError, match="program 'Several' has no 'tripel'; did you mean 'triple'?"):
        _ = Several.tripel
    with pytest.raises(KeyError, match="no function 'quadruple', but scale, double, triple"):
        Several["quadruple"]
    with pytest.raises(AttributeError, match="a program cannot be changed"):
        Several.double = None
    assert Several.get_function("quadruple") is None
    assert repr(Several) == "Program(Several: scale, double, triple)"


def test_a_missing_function_is_named_at_its_line():
    @pl.program
    class Wrong:
        @pl.function
        def run(self, x, out: pl.Out[pl.Tensor]):
            self.scal(x, out)

    with pytest.raises(AttributeError, match="program 'Wrong' has no 'scal'"):
        Wrong(torch.zeros(8, 16), torch.zeros(8, 16))


def test_texts_are_refused():
    for name in ("parse", "loads", "parse_program", "loads_program"):
        with pytest.raises(AttributeError, match=rf"no '{name}': a kernel is a Python function"):
            getattr(pl, name)


def test_attributes_of_a_function():
    @pypto.jit
    def wrong(x, out: pl.Out[pl.Tensor]):
        pl.func_attr(["split"])  # type: ignore[arg-type]

    with pytest.raises(pypto.TraceError, match="takes a dictionary"):
        wrong(torch.zeros(8, 16), torch.zeros(8, 16))


# The disk cache


SCRIPT = """
import sys, torch
import pypto_jit as pypto
import pypto_jit.language as pl

@pl.program
class P:
    SCALE = {scale}

    @pl.function(type=pl.FunctionType.{kind})
    def scale(self, x, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [8, 16]) * self.SCALE, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x, out: pl.Out[pl.Tensor]):
        return self.scale(x, out)

x = torch.ones(8, 16)
print(P(x)[0, 0].item(), "trace" in P.compile(x).timings)
"""


def test_a_program_is_cached_by_all_it_says(tmp_path):
    script = tmp_path / "script.py"
    environment = {**os.environ, "PYPTO_JIT_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_JIT_CACHE": "1"}

    def run(**values):
        script.write_text(SCRIPT.format(**values))
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert run(scale=2.0, kind="InCore") == ["2.0", "True"]
    assert run(scale=2.0, kind="InCore") == ["2.0", "False"]
    assert run(scale=3.0, kind="InCore") == ["3.0", "True"]
    assert run(scale=2.0, kind="Inline")[0] == "2.0"
