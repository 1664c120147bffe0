"""What kernels read is found by Python's own scoping, through helpers, objects and cycles, and counts by content."""

from __future__ import annotations

import builtins
import sys
import types

import pytest

from pypto_jit.runtime.store.reads import collect_reads, digest_code

BASE = """
import functools, math
N = 4
M = 8
TABLE = {'rows': [1, 2], 'other': 5}
class Config:
    rows = 1
    unused = 2
    def __init__(self): self.cols = 3
    def tile(self): return [self.rows, N]
    @property
    def computed(self): return M
config = Config()
def leaf(x): return x * N
def helper(x): return leaf(x) + 1
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
"""


def define(body: str, **variables) -> types.FunctionType:
    """The function ``kernel`` of a module with the base definitions, some variables set otherwise."""
    namespace = {"__name__": "user_module", "__builtins__": builtins}
    exec(compile(BASE + body, "user_module.py", "exec", dont_inherit=True), namespace)
    namespace.update(variables)
    return namespace["kernel"]


def digests(body: str, **variables) -> dict[str, str]:
    reads = collect_reads(define(body, **variables))
    assert not reads.unguarded
    return reads.digests()


def changed(body: str, **variables) -> list[str]:
    """Paths of the reads that differ once some variables have other values."""
    before, after = digests(body), digests(body, **variables)
    return [path for path in dict.fromkeys((*before, *after)) if before.get(path) != after.get(path)]


def edited(old: str, new: str, body: str) -> list[str]:
    """Paths of the reads that differ once the base definitions are edited."""
    assert old in BASE
    before = digests(body)
    namespace = {"__name__": "user_module"}
    exec(compile(BASE.replace(old, new) + body, "user_module.py", "exec", dont_inherit=True), namespace)
    after = collect_reads(namespace["kernel"]).digests()
    return [path for path in dict.fromkeys((*before, *after)) if before.get(path) != after.get(path)]


@pytest.mark.parametrize("value", [5, 4.0, True, "4", None])
def test_a_global_counts_by_type_and_bits(value):
    assert changed("def kernel(x): return x + N", N=value) == ["kernel: N"]


def test_what_is_not_read_does_not_count():
    assert changed("def kernel(x): return x + N", M=9, TABLE={}) == []
    assert changed("def kernel(x):\n  N = x\n  return N", N=5) == []
    assert changed("def kernel(N): return N", N=5) == []


def test_a_helper_of_a_helper_counts():
    assert changed("def kernel(x): return helper(x)", N=5) == ["kernel/helper/leaf: N"]
    assert edited("x * N", "x * N * 1", "def kernel(x): return helper(x)") == ["kernel/helper/leaf"]


def test_functions_that_call_each_other_end():
    assert "kernel/even/odd" in digests("def kernel(x): return even(x)")
    assert edited("n != 0", "n > 0", "def kernel(x): return even(x)") == ["kernel/even/odd"]


def test_only_the_constant_subscript_that_is_read_counts():
    body = "def kernel(x): return x + TABLE['rows'][1]"
    assert changed(body, TABLE={"rows": [9, 2], "other": 6}) == []
    assert changed(body, TABLE={"rows": [1, 3]}) == ["kernel: TABLE['rows'][1]"]


def test_a_subscript_that_is_not_constant_reads_all():
    assert changed("def kernel(x): return TABLE[x]", TABLE={"rows": [1, 3]}) == ["kernel: TABLE"]


def test_attributes_count_one_by_one():
    body = "def kernel(x): return x + config.rows"
    assert edited("unused = 2", "unused = 3", body) == []
    assert edited("rows = 1", "rows = 7", body) == ["kernel: config.rows"]


def test_methods_count_by_code_and_by_their_object():
    body = "def kernel(x): return config.tile()"
    assert edited("[self.rows, N]", "[N, self.rows]", body) == ["kernel: config.tile: self", "kernel/config.tile"]
    assert edited("self.cols = 3", "self.cols = 4", body)[0] == "kernel: config.tile: self"


def test_a_property_counts_by_its_code():
    assert edited("return M", "return N", "def kernel(x): return config.computed") == ["kernel: config.computed"]


def test_partials_count_by_function_and_arguments():
    body = "part = functools.partial(leaf, {})\ndef kernel(x): return part()"
    before, after = digests(body.format(1)), digests(body.format(2))
    assert [p for p in before if before[p] != after[p]] == ["kernel: part: arguments"]
    assert edited("x * N", "x * M", body.format(1)) == ["kernel/part", "kernel/part: N", "kernel/part: M"]


def test_a_cell_hides_a_global():
    body = "def make(N):\n  def kernel(x): return x + N\n  return kernel\nkernel = make({})"
    assert changed(body.format(3), N=99) == []
    before, after = digests(body.format(3)), digests(body.format(4))
    assert [p for p in before if before[p] != after[p]] == ["kernel: N"]


def test_a_lambda_that_captures_a_loop_variable_counts_by_its_value():
    kernels = [(lambda j: lambda x: x * j)(k) for k in range(3)]
    assert len({tuple(collect_reads(kernel).digests().items()) for kernel in kernels}) == 3


def test_nested_functions_and_comprehensions_read_for_the_kernel():
    assert changed("def kernel(x): return [y * N for y in x]", N=5) == ["kernel: N"]
    assert changed("def kernel(x):\n  def inside(): return N\n  return inside()", N=5) == ["kernel: N"]
    body = "def kernel(x):\n  N = x\n  def inside(): return N\n  return inside()"
    assert changed(body, N=5) == []


def test_defaults_and_annotations_count():
    before, after = (digests(f"def kernel(x, k={k}): return x") for k in (1, 2))
    assert [p for p in before if before[p] != after[p]] == ["kernel: defaults"]
    assert edited("N = 4", "N = 5", "def kernel(x: N): return x") == ["kernel: annotation of x"]
    assert changed("def kernel(x: 'N'): return x", N=5) == ["kernel: N"]
    body = "def make(shape):\n  def kernel(x: 'shape'): return shape and x\n  return kernel\nkernel = make({})"
    before, after = digests(body.format(3)), digests(body.format(4))
    assert [p for p in before if before[p] != after[p]] == ["kernel: shape"]


def test_a_name_without_a_value_is_a_read():
    assert changed("def kernel(x): return later", later=1) == ["kernel: later"]


def test_a_builtin_that_is_shadowed_counts():
    assert changed("def kernel(x): return len(x)", len=lambda x: 3)[0].startswith("kernel")


def test_modules_imported_in_the_kernel_are_followed(monkeypatch):
    module = types.ModuleType("user_constants")
    exec("K = 1\ndef f(x): return x * K", module.__dict__)
    monkeypatch.setitem(sys.modules, "user_constants", module)
    bodies = [
        "def kernel(x):\n  import user_constants\n  return user_constants.f(x)",
        "def kernel(x):\n  import user_constants as u\n  return u.f(x)",
        "def kernel(x):\n  from user_constants import f\n  return f(x)",
        "def kernel(x):\n  import user_constants\n  return [user_constants.f(y) for y in x]",
    ]
    before = [digests(body) for body in bodies]
    module.K = 2
    after = [digests(body) for body in bodies]
    assert all(old != new for old, new in zip(before, after, strict=True))


def test_a_function_that_moves_in_its_file_is_the_same():
    body = "def kernel(x):\n    return x + N\n"
    assert digests(body) == digests("\n\n\n" + body)
    assert digest_code(define(body)) == digest_code(define("\n\n" + body))
    assert digest_code(define(body)) != digest_code(define(body.replace("return", "\n    return")))


def test_code_hidden_by_a_decorator_is_found():
    body = "def deco(f):\n  @functools.wraps(f)\n  def inside(*a): return f(*a)\n  return inside\n"
    body += "wrapped = deco(leaf)\ndef kernel(x): return wrapped(x)"
    assert edited("x * N", "x * M", body) != []
    assert changed(body, N=5) != []


def test_code_within_a_container_is_found():
    body = "HELPERS = {'a': [leaf]}\ndef kernel(x):\n  for f in HELPERS['a']: x = f(x)\n  return x"
    assert changed(body, N=5) == ["kernel: HELPERS['a']"]
    assert [f.__name__ for f in collect_reads(define(body)).reached] == ["kernel", "leaf"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("import time\ndef kernel(x): return time.time()", "kernel: time.time"),
        ("import random\ndef kernel(x): return random.random()", "kernel: random.random"),
        ("import random\nrng = random.Random(0)\ndef kernel(x): return rng.random()", "kernel: rng.random"),
        ("f = open('/dev/null')\ndef kernel(x): return f.read()", "kernel: f.read"),
        ("g = iter([1])\ndef kernel(x): return next(g)", "kernel: g"),
        ("def kernel(x): return globals()['N']", "kernel: globals"),
        ("import datetime\ndef kernel(x): return datetime.datetime.now()", "kernel: datetime.datetime.now"),
        ("import numpy as np\ndef kernel(x): return np.random.rand()", "kernel: np.random.rand"),
        ("import torch\ndef kernel(x): return torch.rand(1)", "kernel: torch.rand"),
        ("BIG = list(range(100000))\ndef kernel(x): return BIG[x]", "kernel: BIG"),
    ],
)
def test_what_cannot_be_guarded_is_reported_with_its_line(body, path):
    reads = collect_reads(define(body))
    assert [each.path for each in reads.unguarded] == [path]
    found = reads.unguarded[0]
    assert found.filename == "user_module.py"
    assert (BASE + body).splitlines()[found.line - 1].startswith("def kernel")


def test_values_are_shown_briefly_and_without_addresses():
    reads = collect_reads(define("def kernel(x): return x + N + TABLE['rows'][0] if config else 'a' * M"))
    shown = {path: read.shown for path, read in reads.values.items()}
    assert shown["kernel: N"] == "4"
    assert shown["kernel: config"] == "a Config"
    assert not any(" at 0x" in text for text in shown.values())


def test_the_world_is_the_same_until_something_changes():
    kernel = define("def kernel(x): return x + N")
    before = collect_reads(kernel)
    assert before.same(collect_reads(kernel))
    kernel.__globals__["N"] = 5
    assert not before.same(collect_reads(kernel))


def test_reading_runs_nothing_of_the_users():
    class Loud:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

        def __eq__(self, other):
            raise AssertionError("compared")

        def __repr__(self):
            raise AssertionError("shown")

        __hash__ = None

    kernel = define("def kernel(x): return x + loud.rows + config.computed", loud=Loud())
    assert collect_reads(kernel).values["kernel: loud.rows"].shown == "a Loud"
