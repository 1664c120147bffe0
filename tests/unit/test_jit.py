"""The decorator and what hangs on a kernel; calls themselves are in tests/language/test_calls.py."""

from __future__ import annotations

import ast
import gc
import inspect
import os
import subprocess
import sys
import threading
import weakref

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit._compiler import stage_names
from pypto_jit.runtime import door, native
from tests.language.kernels import add, both, scale

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)


def fresh(function=None):
    """A kernel with a cache of its own."""
    return pypto.jit(function or scale.__wrapped__)


# Decoration


def test_keeps_what_a_function_has():
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "factor * x."
    assert scale.__module__ == "tests.language.kernels"
    assert list(inspect.signature(scale).parameters) == ["x", "out", "factor"]
    assert "pl.parallel" in inspect.getsource(scale)
    assert pl.jit is pypto.jit


def test_decorating_a_kernel_again_gives_another_kernel():
    again = pypto.jit(scale)
    assert again is not scale
    assert again.__wrapped__ is scale.__wrapped__


def test_default_options():
    @pypto.jit(config=pypto.RunConfig(platform="a5sim"))
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8]), [0, 0], out)

    assert kernel.compile(X).platform == "a5sim"
    assert 'pto.target_arch = "a5"' in kernel.compile(X).pto
    assert kernel.compile(X, config=pypto.RunConfig()).platform == "a2a3sim"
    assert kernel.cache_info().size == 2


def test_options_are_taken_as_they_were_when_decorating():
    config = pypto.RunConfig(platform="a2a3sim")
    kernel = pypto.jit(config=config)(scale.__wrapped__)
    config.platform = "a5sim"
    assert kernel.compile(X).platform == "a2a3sim"


class Method:
    def __call__(self, x):
        pass


async def coroutine(x):
    pass


def generator(x):
    yield x


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, config: None, "'config' cannot be a parameter"),
        (lambda *x: None, "takes any number of arguments"),
        (lambda x, **options: None, "takes any number of arguments"),
        (coroutine, "is a coroutine or generator"),
        (generator, "is a coroutine or generator"),
        (Method(), "takes a function"),
        (len, "takes a function"),
        (Method, "takes a function"),
        (staticmethod(generator), "takes a function"),
        (7, "takes a function"),
    ],
)
def test_what_cannot_be_a_kernel(wrong, message):
    with pytest.raises(pypto.DecoratorError, match=message):
        pypto.jit(wrong)


def test_unknown_options():
    with pytest.raises(pypto.DecoratorError, match="no option 'confg'") as caught:
        pypto.jit(confg=1)
    assert caught.value.hint == "did you mean 'config'?"
    with pytest.raises(pypto.DecoratorError, match="takes a RunConfig"):
        pypto.jit(config="a5")(scale.__wrapped__)


# Looking inside


def test_stages():
    stages = scale.lower(X)
    assert tuple(stages) == stage_names()
    assert stages["trace"].startswith("module")
    assert '"pypto.load"' in stages["trace"]
    assert "pto.tload" in stages["pto"]
    assert "define i32 @pypto_entry" in stages["llvm"]
    assert len(stages) == len(list(stages.items()))
    with pytest.raises(KeyError):
        stages["no such stage"]


def test_compile_is_what_a_call_uses():
    kernel = fresh()
    program = kernel.compile(X, torch.empty_like(X), factor=3.0)
    assert kernel.cache_info()[:3] == (0, 1, 1)
    assert [(p.name, p.direction) for p in program.parameters] == [("x", "in"), ("out", "out"), ("factor", "in")]
    assert list(program.timings) == ["trace", "passes", "assembly", "cpu", "codegen"]
    assert torch.equal(program(X), X * 3)
    assert torch.equal(kernel(X, torch.empty_like(X), 3.0), X * 3)
    assert program.calls == 2
    assert kernel.compile(X, torch.empty_like(X), 3.0) is program


def test_cache_info():
    kernel, out = fresh(), torch.empty_like(X)
    assert kernel.cache_info()[:3] == (0, 0, 0)
    for _ in range(5):
        kernel(X, out)
    assert kernel.cache_info()[:3] == (4, 1, 1)
    kernel(X, out, 3.0)
    assert kernel.cache_info()[:3] == (4, 2, 2)
    kernel.cache_clear()
    assert kernel.cache_info()[:3] == (0, 0, 0)
    assert torch.equal(kernel(X, out), X * 2)
    assert kernel.cache_info()[:3] == (0, 1, 1)


def test_interpreter():
    out = torch.empty_like(X)
    assert scale.interpret(X, out) is out
    assert torch.equal(out, X * 2)
    assert torch.equal(pypto.interpret(scale)(X, factor=3.0), X * 3)
    high, low = both.interpret(X.numpy() - 20)
    assert (high + low == X.numpy() - 20).all()
    assert isinstance(high, numpy.ndarray)
    with pytest.raises(TypeError, match=r"decorated with @pypto.jit"):
        pypto.interpret(len)
    with pytest.raises(pypto.ArgumentError):
        scale.interpret(X.double())
    with pytest.raises(pypto.BoundsError):
        scale.interpret(X, torch.empty(5, 8))


def test_interpreter_for_a_whole_process(monkeypatch):
    kernel = fresh()
    monkeypatch.setenv("PYPTO_JIT_INTERPRET", "1")
    assert torch.equal(kernel(X), X * 2)
    assert kernel.cache_info()[:3] == (0, 0, 0)
    monkeypatch.setenv("PYPTO_JIT_INTERPRET", "0")
    assert torch.equal(kernel(X), X * 2)
    assert kernel.cache_info().size == 1


# Calls that fail


def test_the_kernels_own_exception_reaches_the_caller_and_the_next_call_retries():
    failing = [True]

    def helper():
        if failing:
            raise LookupError("not today")

    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        helper()
        pl.store(pl.load(x, [0, 0], [6, 8]), [0, 0], out)

    for _ in range(2):
        with pytest.raises(LookupError, match="not today"):
            kernel(X)
    assert kernel.cache_info()[:3] == (0, 0, 0)
    failing.clear()
    assert torch.equal(kernel(X), X)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupt_while_compiling_leaves_everything_usable(monkeypatch, kind):
    import pypto_jit.frontend.trace as frontend

    kernel = fresh()

    def interrupted(*_, **__):
        raise kind

    with monkeypatch.context() as patched:
        patched.setattr(frontend, "Builder", interrupted)
        with pytest.raises(kind):
            kernel(X)
    assert kernel.cache_info()[:3] == (0, 0, 0)
    assert torch.equal(kernel(X), X * 2)


def test_a_kernel_that_writes_nothing():
    @pypto.jit
    def idle(x: pl.Tensor):
        pl.load(x, [0, 0], [6, 8])

    with pytest.raises(pypto.DirectionError, match="writes nothing"):
        idle(X)


def test_a_failed_call_keeps_no_tensor_alive():
    given = X.clone()
    reference = weakref.ref(given)
    for wrong in (object(), torch.empty(5, 8)):
        with pytest.raises(pypto.PyptoError):
            scale(given, wrong)
    del given
    gc.collect()
    assert reference() is None


# Kernels in kernels, threads, processes


def test_a_kernel_called_by_a_kernel_is_part_of_it():
    @pypto.jit
    def outer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        scale(x, out, 5.0)

    assert torch.equal(outer(X), X * 5)


def test_many_specializations_take_turns():
    kernel = fresh()
    tensors = [X[:, :columns].contiguous() for columns in range(1, 8)]
    for _ in range(20):
        for tensor in tensors:
            assert torch.equal(kernel(tensor), tensor * 2)
    assert kernel.cache_info()[:3] == (19 * 7, 7, 7)


def test_threads_compile_different_kernels_at_once():
    kernels = [fresh(), fresh(add.__wrapped__), fresh()]
    results = []

    def call(k):
        kernel = kernels[k]
        for columns in (8, 5):
            x = X[:, :columns].contiguous()
            expected = x + x if k == 1 else x * 2
            results.append(torch.equal(kernel(x, x) if k == 1 else kernel(x), expected))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 6


def test_a_forked_child_compiles_and_runs():
    kernel = fresh()
    kernel(X)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            good = torch.equal(kernel(X), X * 2) and torch.equal(kernel(X, torch.empty_like(X), 3.0), X * 3)
            status = 0 if good else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_spawned_process_gets_the_kernel_by_name():
    script = (
        "import multiprocessing, torch\n"
        "from tests.language.kernels import scale\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.apply(scale, (torch.ones(2, 8),)).sum().item())\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "32.0", done.stderr


def test_pools_of_forked_and_spawned_processes_run_kernels_and_return_errors(tmp_path):
    script = tmp_path / "pools.py"
    script.write_text(
        "import multiprocessing, torch\n"
        "from tests.language.kernels import scale\n"
        "def wrong(x):\n"
        "    try: scale(x, 3)\n"
        "    except Exception as error: return error\n"
        "if __name__ == '__main__':\n"
        "    tensors = [torch.full((rows, 8), 1.0) for rows in (1, 2, 1, 2)]\n"
        "    scale(tensors[0])\n"
        "    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print([int(result.sum()) for result in pool.map(scale, tensors)])\n"
        "            print(type(pool.apply(wrong, (tensors[0],))).__name__)\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.split("\n")[:-1] == ["[16, 32, 16, 32]", "ArgumentError"] * 2, done.stderr


def test_without_what_is_known_of_torch_calls_are_the_same(monkeypatch):
    monkeypatch.setattr(door, "find_torch_layout", lambda: None)
    for cached in (door.door_values, native.binding_values):
        cached.cache_clear()
    try:
        kernel, out = fresh(), torch.empty_like(X)
        for count in range(1, 4):
            assert kernel(X, out) is out
            assert (X._version, out._version) == (0, count)
        assert torch.equal(out, X * 2)
        assert torch.equal(kernel(torch._neg_view(X)), X * -2)
        with pytest.raises(pypto.ArgumentError, match="negative view"):
            kernel(X, torch._neg_view(out))
        assert (kernel(X.numpy()) == X.numpy() * 2).all()
        with torch.inference_mode():
            assert torch.equal(kernel(X, torch.empty_like(X)), X * 2)
    finally:
        for cached in (door.door_values, native.binding_values):
            cached.cache_clear()


def test_torch_compile_runs_kernels_eagerly():
    compiled = torch.compile(lambda x: scale(x + 1) + 1, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), (X + 1) * 2 + 1)


def test_source_of_the_package_names_no_machine():
    tree = ast.parse(inspect.getsource(sys.modules["pypto_jit._jit"]))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in ("a2a3", "a5")]
