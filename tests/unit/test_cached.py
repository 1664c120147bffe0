"""A kernel found on disk is the kernel that would be compiled now: never one of an earlier constant, helper or line."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import linecache
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import pypto_jit
from pypto_jit import _compiler
from pypto_jit._cached import key_options
from pypto_jit.errors import BoundsError
from pypto_jit.options import CompileOptions, MemoryPlanner, OptimizationStrategy, RunConfig
from pypto_jit.runtime.store import environment
from pypto_jit.runtime.store.files import decode_manifest, read_folder
from pypto_jit.runtime.store.location import CacheWarning

PACKAGE = Path(pypto_jit.__file__).parent
X = torch.arange(32, dtype=torch.float32).reshape(4, 8)

SOURCE = """\
import dataclasses
import functools

import pypto_jit as pypto
import pypto_jit.language as pl

SCALE = 2.0
TABLE = {'bias': [1.0, 2.0]}


@dataclasses.dataclass
class Settings:
    offset: float = 3.0

    def shift(self, t):
        return t + self.offset


settings = Settings()


def inner(t):
    return t * SCALE


def helper(t):
    return inner(t) + TABLE['bias'][0]


def make(factor):
    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        t = pl.load(x, [0, 0], [4, 8])
        pl.store(settings.shift(helper(t)) * factor, [0, 0], out)
        return out

    return kernel


kernel = make(5.0)
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """A disk cache of the test's own; the package counts as it is now, whoever edits it meanwhile."""
    monkeypatch.setenv("PYPTO_JIT_CACHE", "1")
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "package_digest", lambda memory: "package")
    return tmp_path / "cache" / "v1"


class Counter:
    """How often kernels were traced and compiled."""

    def __init__(self, monkeypatch):
        self.traces = self.codegens = 0
        trace, compile_llvm_ir = _compiler.trace, _compiler.compile_llvm_ir

        def counted_trace(*arguments):
            self.traces += 1
            return trace(*arguments)

        def counted_codegen(*arguments):
            self.codegens += 1
            return compile_llvm_ir(*arguments)

        monkeypatch.setattr(_compiler, "trace", counted_trace)
        monkeypatch.setattr(_compiler, "compile_llvm_ir", counted_codegen)

    def take(self) -> tuple[int, int]:
        """Traces and compiles since the last time."""
        taken = (self.traces, self.codegens)
        self.traces = self.codegens = 0
        return taken


@pytest.fixture
def counter(monkeypatch) -> Counter:
    return Counter(monkeypatch)


def load(tmp_path: Path, text: str, name: str = "user_kernels"):
    """The module of a text, as a new process would import it."""
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    linecache.clearcache()
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Not through a .pyc: two texts of one length, written within a second, look alike to it.
    exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def run(module, x=X, **config):
    arguments = {"config": RunConfig(**config)} if config else {}
    return module.kernel(x, torch.zeros_like(x), **arguments)


def expected(scale=2.0, bias=1.0, offset=3.0, factor=5.0):
    return (X * scale + bias + offset) * factor


def test_the_second_process_neither_traces_nor_compiles(tmp_path, counter):
    first = load(tmp_path, SOURCE)
    assert torch.equal(run(first), expected())
    assert counter.take() == (1, 1)
    program = first.kernel.compile(X, X)
    second = load(tmp_path, SOURCE)
    assert torch.equal(run(second), expected())
    found = second.kernel.compile(X, X)
    assert counter.take() == (0, 0)
    assert list(found.timings) == ["load"]
    assert found == dataclasses.replace(program, timings=found.timings)
    assert found.pto == program.pto


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("SCALE = 2.0", "SCALE = 4.0", {"scale": 4.0}),
        ("[1.0, 2.0]", "[7.0, 2.0]", {"bias": 7.0}),
        ("offset: float = 3.0", "offset: float = 9.0", {"offset": 9.0}),
        ("make(5.0)", "make(6.0)", {"factor": 6.0}),
        ("t * SCALE", "t * SCALE * 2.0", {"scale": 4.0}),
        ("t + self.offset", "t + self.offset * 3.0", {"offset": 9.0}),
        ("inner(t) +", "t * 3.0 +", {"scale": 3.0}),
        (") * factor", ") * 2.0 * factor", {"factor": 10.0}),
        ("settings = Settings()", "settings = Settings(10.0)", {"offset": 10.0}),
    ],
)
def test_an_edit_between_two_processes_is_seen(tmp_path, old, new, values):
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    assert SOURCE.count(old) == 1
    assert torch.equal(run(load(tmp_path, SOURCE.replace(old, new))), expected(**values))
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())


def test_edits_of_what_is_not_read_compile_nothing(tmp_path, counter):
    run(load(tmp_path, SOURCE))
    counter.take()
    for text in (SOURCE.replace("1.0, 2.0]", "1.0, 9.0]"), SOURCE + "\nOTHER = 1\n", "# moved\n\n" + SOURCE):
        assert torch.equal(run(load(tmp_path, text)), expected())
    assert counter.take() == (0, 0)


def test_the_same_module_by_other_code_is_traced_and_not_compiled(tmp_path, counter):
    run(load(tmp_path, SOURCE))
    counter.take()
    text = SOURCE.replace("    return inner(t) +", "    # now two lines\n    t = inner(t)\n    return t +")
    assert torch.equal(run(load(tmp_path, text)), expected())
    assert counter.take() == (1, 0)
    assert torch.equal(run(load(tmp_path, text)), expected())
    assert counter.take() == (0, 0)


BOUNDS = """\
import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(0, 8, 4):
        t = pl.load(x, [i, 0], [4, 8])  # outside
        pl.store(t, [0, 0], out)
    return out
"""


@pytest.mark.parametrize(
    ("edit", "counts"),
    [
        (lambda text: text, (0, 0)),
        (lambda text: "\n\n\n" + text, (0, 0)),
        (lambda text: text.replace("    for", "    # a line more\n    for"), (1, 0)),
    ],
)
def test_errors_name_the_line_where_it_is_now(tmp_path, counter, edit, counts):
    with pytest.raises(BoundsError) as before:
        run(load(tmp_path, BOUNDS))
    counter.take()
    text = edit(BOUNDS)
    module = load(tmp_path, text)
    with pytest.raises(BoundsError) as after:
        run(module)
    assert counter.take() == counts
    for error, source in ((before.value, BOUNDS), (after.value, text)):
        assert source.splitlines()[error.span.line - 1].endswith("# outside")
    program = module.kernel.compile(X, X)
    line = 1 + next(k for k, each in enumerate(text.splitlines()) if each.endswith("# outside"))
    assert f'user_kernels.py":{line}:' in program.pto
    assert program.origin.line == 1 + text.splitlines().index("@pypto.jit")


def test_a_file_that_moves_takes_its_kernels_along(tmp_path, counter):
    run(load(tmp_path, SOURCE))
    counter.take()
    (tmp_path / "elsewhere").mkdir()
    module = load(tmp_path / "elsewhere", SOURCE)
    assert torch.equal(run(module), expected())
    program = module.kernel.compile(X, X)
    assert counter.take() == (0, 0)
    assert program.origin.filename == str(tmp_path / "elsewhere" / "user_kernels.py")


def test_another_shape_dtype_stride_or_platform_is_another_kernel(tmp_path, counter):
    calls = [
        lambda module: run(module),
        lambda module: run(module, X.half()),
        lambda module: run(module, torch.zeros(5, 8)),
        lambda module: run(module, torch.arange(64.0).reshape(4, 16)[:, ::2]),
        lambda module: run(module, platform="a5sim"),
    ]
    first = load(tmp_path, SOURCE)
    results = [call(first) for call in calls]
    assert counter.take()[1] == len(calls)
    second = load(tmp_path, SOURCE)
    for call, result in zip(calls, results, strict=True):
        assert torch.equal(call(second), result)
    assert counter.take() == (0, 0)


CONSTANT = """\
import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], k=None):
    t = pl.load(x, [0, 0], [4, 8])
    if callable(k):
        t = k(t)
    else:
        t = t * {int: 2.0, float: 3.0, bool: 4.0, type(None): 5.0}[type(k)]
    pl.store(t, [0, 0], out)
    return out


def double(t):
    return t + t
"""


def test_constant_arguments_count_by_type_and_functions_by_code(tmp_path, counter):
    given = [(1, 2.0), (1.0, 3.0), (True, 4.0), (None, 5.0)]
    for expected_counts in ((4, 4), (0, 0)):
        module = load(tmp_path, CONSTANT)
        for k, factor in given:
            assert torch.equal(module.kernel(X, torch.zeros_like(X), k), X * factor)
        assert counter.take() == expected_counts
    for text, result in ((CONSTANT, X * 2), (CONSTANT.replace("t + t", "t + t + t"), X * 3), (CONSTANT, X * 2)):
        module = load(tmp_path, text)
        assert torch.equal(module.kernel(X, torch.zeros_like(X), module.double), result)


NEEDING = """
import pypto_jit as pypto
import pypto_jit.language as pl

STEP = 2

@pypto.jit
def kernel(x: pl.Tensor, n, factor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [4, n // STEP]) * factor, [0, 0], out)
"""


def test_the_need_of_a_value_is_remembered_while_it_lasts(tmp_path, counter):
    """Two traces find out about it and make it; afterwards none, whatever the other scalars are."""
    for expected in ((2, 1), (0, 0)):
        module = load(tmp_path, NEEDING)
        assert torch.equal(module.kernel(X, 4, 3.0), X[:, :2] * 3)
        assert "specialized on n: the shape of load" in module.kernel.explain_last_miss()
        assert counter.take() == expected
    assert torch.equal(load(tmp_path, NEEDING).kernel(X, 4, 5.0), X[:, :2] * 5)
    assert counter.take() == (0, 0)
    # What the trace read has changed: what it needs may have, too.
    module = load(tmp_path, NEEDING.replace("STEP = 2", "STEP = 4"))
    assert torch.equal(module.kernel(X, 4, 3.0), X[:, :1] * 3)
    assert counter.take() == (2, 1)


def test_a_change_in_a_warm_process_is_seen(tmp_path, counter):
    run(load(tmp_path, SOURCE))
    module = load(tmp_path, SOURCE)
    assert torch.equal(run(module), expected())
    module.SCALE = 4.0
    assert torch.equal(run(module), expected(scale=4.0))
    module.settings.offset = 1.0
    assert torch.equal(run(module), expected(scale=4.0, offset=1.0))
    module.inner = lambda t: t * 7.0
    assert torch.equal(run(module), expected(scale=7.0, offset=1.0))


INDIRECT = SOURCE.replace("settings.shift(helper(t))", "STEPS['first'][0](t)") + "\nSTEPS = {'first': [helper]}\n"


def test_helpers_within_containers_are_seen(tmp_path, counter):
    for text, scale in ((INDIRECT, 2.0), (INDIRECT.replace("SCALE = 2.0", "SCALE = 8.0"), 8.0), (INDIRECT, 2.0)):
        module = load(tmp_path, text)
        assert torch.equal(run(module), (X * scale + 1.0) * 5.0)
    assert counter.take() == (2, 2)
    module.SCALE = 16.0
    assert torch.equal(run(module), (X * 16.0 + 1.0) * 5.0)


INLINED = """\
import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def inner(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [4, 8]) * 2.0, [0, 0], out)
    return out


@pypto.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    return inner(x, out)
"""


def test_a_kernel_within_a_kernel_is_seen(tmp_path, counter):
    for factor in (2.0, 3.0, 2.0):
        module = load(tmp_path, INLINED.replace("* 2.0", f"* {factor}"))
        assert torch.equal(run(module), X * factor)
    assert counter.take() == (2, 2)


def test_an_imported_helper_is_seen(tmp_path, counter):
    text = SOURCE.replace("def inner(t):\n    return t * SCALE\n", "from user_helpers import inner\n")
    for scale in (2.0, 6.0, 2.0):
        load(tmp_path, f"FACTOR = {scale}\ndef inner(t):\n    return t * FACTOR\n", "user_helpers")
        assert torch.equal(run(load(tmp_path, text)), expected(scale=scale))
    assert counter.take() == (2, 2)


def test_names_of_any_length_make_entries(tmp_path, cache, counter):
    name = "k" * 300
    for _ in range(2):
        module = load(tmp_path, INLINED.replace("def kernel", f"def {name}") + f"\n\nkernel = {name}\n")
        assert torch.equal(run(module), X * 2.0)
    assert counter.take() == (1, 1)


@pytest.mark.parametrize("victim", ["kernel.so", "kernel.o", "manifest.json", "records"])
def test_damage_is_repaired_with_one_warning(tmp_path, cache, counter, victim):
    run(load(tmp_path, SOURCE))
    counter.take()
    pattern = "records/*/*.json" if victim == "records" else f"artifacts/*/*/{victim}"
    for path in cache.glob(pattern):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    assert [w.category for w in caught] == [CacheWarning]
    assert counter.take() == ((1, 0) if victim == "records" else (1, 1))
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    assert counter.take() == (0, 0)


# Within a process a hash does not change.
UNGUARDED = SOURCE.replace("    return inner(t)", "    hash('a')\n    return inner(t)")
COUNTING = SOURCE.replace("def inner(t):", "CALLS = [0]\n\n\ndef inner(t):\n    CALLS[0] += 1")


@pytest.mark.parametrize("text", [UNGUARDED, COUNTING], ids=["unguarded", "changes what it reads"])
def test_what_no_record_can_tell_is_not_found_on_disk(tmp_path, counter, text):
    for _ in range(2):
        assert torch.equal(run(load(tmp_path, text)), expected())
        assert counter.take()[0] == 1


def test_every_entry_point_finds_what_another_one_compiled(tmp_path, counter):
    load(tmp_path, SOURCE).kernel.compile(X, X)
    assert counter.take() == (1, 1)
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    load(tmp_path, SOURCE).kernel.compile(X, X)
    assert counter.take() == (0, 0)


def test_entries_are_small_and_hold_no_source(tmp_path, cache):
    run(load(tmp_path, SOURCE))
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 200_000
    assert not [path for path in files if b"import dataclasses" in path.read_bytes()]


def test_a_source_that_is_not_what_runs_leads_nowhere(tmp_path, counter):
    module = load(tmp_path, SOURCE)
    (tmp_path / "user_kernels.py").write_text(SOURCE.replace("* SCALE", "* 99.0"))
    linecache.clearcache()
    run(module)  # may see either
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())


def test_without_a_cache_nothing_is_written(tmp_path, cache, monkeypatch, counter):
    monkeypatch.setenv("PYPTO_JIT_CACHE", "0")
    for _ in range(2):
        assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    assert counter.take() == (2, 2)
    assert not cache.exists()


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path, monkeypatch, counter):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "file"))
    assert torch.equal(run(load(tmp_path, SOURCE)), expected())
    assert counter.take() == (1, 1)


def test_another_package_or_processor_compiles_anew(tmp_path, monkeypatch, counter):
    run(load(tmp_path, SOURCE))
    monkeypatch.setattr(environment, "package_digest", lambda memory: "another")
    run(load(tmp_path, SOURCE))
    sibling = json.dumps({**json.loads(environment.host_cpu_text()), "model name": "another"})
    monkeypatch.setattr(environment, "host_cpu_text", lambda: sibling)
    run(load(tmp_path, SOURCE))
    monkeypatch.setattr(environment, "tools_text", lambda: "others")
    run(load(tmp_path, SOURCE))
    assert counter.take() == (4, 4)


OTHER_VALUES = {
    "platform": "a5sim",
    "strategy": "another",
    "memory_planner": MemoryPlanner.PYPTO,
    "distributed_config": "one",
    "analyze_auto_scopes_for_deps": True,
    "verification_level": 0,
    "emit_source_loc": False,
    "runtime": "another",
    "opt_level": 0,
}


@pytest.mark.parametrize("field", dataclasses.fields(CompileOptions), ids=lambda field: field.name)
def test_every_option_is_in_the_key_or_decides_only_what_is_written_beside(field):
    assert field.metadata["role"] in ("key", "output")
    if field.metadata["role"] == "key":
        changed = dataclasses.replace(CompileOptions(), **{field.name: OTHER_VALUES[field.name]})
        assert json.dumps(key_options(changed), default=str) != json.dumps(key_options(CompileOptions()), default=str)
    assert OptimizationStrategy.Default is CompileOptions().strategy


SCRIPT = """\
import sys
sys.path.insert(0, sys.argv[1])
import torch
import user_kernels
x = torch.arange(32, dtype=torch.float32).reshape(4, 8)
out = user_kernels.kernel(x, torch.zeros_like(x))
again = user_kernels.kernel(x, torch.zeros_like(x))
unwanted = ('mlir', 'torch_mlir', 'llvmlite', 'tvm_ffi', 'pypto_jit.frontend', 'pypto_jit.lowering')
loaded = [m for m in unwanted if m in sys.modules]
print(torch.equal(out, (x * 2 + 4) * 5), torch.equal(out, again), loaded)
"""


@pytest.fixture
def installed(tmp_path) -> Path:
    """A copy of the package that nobody edits meanwhile."""
    shutil.copytree(PACKAGE, tmp_path / "installed" / "pypto_jit", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "installed"


def process(installed: Path, tmp_path: Path, seed: str = "0") -> str:
    (tmp_path / "user_kernels.py").write_text(SOURCE)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONHASHSEED": seed},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_new_process_loads_without_any_compiler(tmp_path, installed):
    assert "'mlir'" in process(installed, tmp_path, "1")
    assert process(installed, tmp_path, "2") == "True True []"


# The processes of the tests below are forked, before they compile anything, from one that has imported everything.
STRESS = """\
import os, random, signal, sys, threading, time, warnings
sys.path.insert(0, sys.argv[1])
import torch
import user_kernels
from pypto_jit.runtime.store.files import decode_manifest, read_folder
from pypto_jit.runtime.store.location import CacheWarning

def call(rows):
    x = torch.arange(8.0 * rows).reshape(rows, 8)
    out = user_kernels.kernel(x, torch.zeros_like(x))
    assert torch.equal(out[:4], ((x * 2 + 4) * 5)[:4]), out

def work(seed, failures):
    try:
        rows = [4, 5, 6, 7]
        random.Random(seed).shuffle(rows)
        for each in rows:
            call(each)
    except BaseException as error:
        failures.append(error)

def child(seed):
    warnings.simplefilter('error', CacheWarning)
    failures = []
    threads = [threading.Thread(target=work, args=(4 * seed + k, failures)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(repr(failure), file=sys.stderr)
    os._exit(1 if failures else 0)

def spawn(seed):
    process = os.fork()
    if process == 0:
        child(seed)
    return process

if sys.argv[2] == 'stress':
    processes = [spawn(seed) for seed in range(8)]
    print([os.waitpid(process, 0)[1] for process in processes])
else:
    for attempt in range(12):
        process = spawn(attempt)
        time.sleep(0.1 + 0.15 * attempt)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    print([os.waitpid(spawn(99), 0)[1]])
"""


def stress(installed: Path, tmp_path: Path, how: str) -> str:
    (tmp_path / "user_kernels.py").write_text(SOURCE)
    done = subprocess.run(
        [sys.executable, "-c", STRESS, str(tmp_path), how],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() + done.stderr


def check_entries(cache: Path) -> None:
    """Every entry is whole."""
    entries = list(cache.glob("artifacts/*/*"))
    assert len(entries) >= 4
    for entry in entries:
        read_folder(entry)
    for record in cache.glob("records/*/*.json"):
        decode_manifest(record.read_bytes())


@pytest.mark.slow
def test_many_processes_and_threads_share_one_cache(tmp_path, cache, installed):
    assert stress(installed, tmp_path, "stress") == str([0] * 8)
    check_entries(cache)
    assert list(cache.glob("locks/*")) == []


@pytest.mark.slow
def test_processes_that_are_killed_leave_a_cache_that_works(tmp_path, cache, installed):
    assert stress(installed, tmp_path, "crash") == "[0]"
    check_entries(cache)
