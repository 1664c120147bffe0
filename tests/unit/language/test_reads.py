"""Recorded reads: what a trace depends on, and that a change is noticed."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import enum
import itertools
import logging
import math
import os
import random
import re
import sys
import time
import types
import uuid
from typing import ClassVar

import numpy
import pytest
import torch

import pypto_jit.language as pl
from pypto_jit.errors import TraceError
from pypto_jit.language.reads import collect_reads
from tests.tracing import spec, with_trace

ROWS = 16
SCALE = 2.0
TABLE = [1.0, 2.0]
X = spec(16, 32)


def define(text):
    namespace = {}
    exec(text, namespace)
    return next(value for value in namespace.values() if isinstance(value, types.FunctionType))


def repr_briefly(value):
    return repr(value)[:20]


def reads_of(kernel, *helpers):
    """The reads by name; those that are parts of functions by the function's name as well."""
    return {_name(read): read for read in collect_reads(kernel, helpers)}


def _name(read):
    return f"{read.container.__name__}.{read.name}" if read.name.startswith("__") else read.name


def holds(reads):
    return all(read.holds() for read in reads.values())


def helper(t):
    return t * SCALE


def test_a_trace_carries_the_reads_of_kernel_and_helpers():
    def kernel(x, out):
        pl.store(helper(pl.load(x, [0, 0], [ROWS, 32])), [0, 0], out)

    reads = with_trace(kernel, X, X, then=lambda traced: {_name(read): read.value for read in traced.reads})
    code = {"helper.__code__": helper.__code__}
    assert reads == {"pl": pl, "helper": helper, "ROWS": 16, "SCALE": 2.0, **code}


def test_a_changed_global_is_noticed(monkeypatch):
    def kernel():
        return ROWS

    reads = reads_of(kernel)
    assert holds(reads)
    monkeypatch.setitem(globals(), "ROWS", 17)
    assert not holds(reads)
    monkeypatch.setitem(globals(), "ROWS", True)
    assert not holds(reads)


def test_a_deleted_global_is_noticed(monkeypatch):
    def kernel():
        return ROWS

    reads = reads_of(kernel)
    monkeypatch.delitem(globals(), "ROWS")
    assert not holds(reads)


def test_a_changed_cell_is_noticed():
    n = 1

    def kernel():
        return n

    reads = reads_of(kernel)
    assert holds(reads)
    n = 2
    assert not holds(reads)


def test_a_redefined_helper_is_noticed(monkeypatch):
    def kernel(t):
        return helper(t)

    reads = reads_of(kernel)
    monkeypatch.setitem(globals(), "helper", lambda t: t)
    assert not holds(reads)


def test_what_helpers_of_helpers_read_is_followed_through_cycles(monkeypatch):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == ROWS else even(n - 1)

    reads = reads_of(even)
    assert set(reads) == {"odd", "odd.__code__", "ROWS", "even"}


@pytest.mark.parametrize(
    ("change", "before"),
    [
        (lambda c: c.append(1), [1, 2]),
        (lambda c: c.__setitem__(0, 1.0), [1, 2]),
        (lambda c: c.__setitem__(0, True), [1, 2]),
        (lambda c: c.update(a=2), {"a": 1}),
        (lambda c: c["a"].append(3), {"a": [1, 2]}),
        (lambda c: c.add(3), {1, 2}),
        (lambda c: c.__setitem__(0, 5), numpy.arange(3)),
        (lambda c: c.__setitem__(0, -0.0), [0.0]),
        (lambda c: c.__setitem__(0, 65), bytearray(b"abc")),
    ],
)
def test_contents_are_compared(change, before):
    value = before

    def kernel():
        return value

    reads = reads_of(kernel)
    assert reads["value"].kind == "contents"
    assert holds(reads)
    change(value)
    assert not holds(reads)


def test_equal_contents_of_another_object_hold():
    value = [1, {"a": (2.0, math.nan)}]

    def kernel():
        return value

    reads = reads_of(kernel)
    value = [1, {"a": (2.0, math.nan)}]
    assert holds(reads)


def test_attributes_of_the_users_objects_are_compared():
    class Config:
        def __init__(self):
            self.rows = 4

    @dataclasses.dataclass
    class Nested:
        config: Config

    class Slotted:
        __slots__ = ("rows",)

    slotted = Slotted()
    slotted.rows = 1
    nested = Nested(Config())
    method = nested.__repr__

    def kernel():
        return nested, slotted, method

    reads = reads_of(kernel)
    assert holds(reads)
    nested.config.rows = 5
    assert not reads["nested"].holds()
    assert not reads["method"].holds()
    nested.config.rows = 4
    assert holds(reads)
    slotted.rows = 2
    assert not reads["slotted"].holds()


def test_attributes_of_their_classes_are_compared_too(monkeypatch):
    class Base:
        offsets: ClassVar = [1, 2]

    class Config(Base):
        rows = 4

        def shift(self, value):
            return value + self.rows

    config = Config()

    def kernel():
        return config.shift(config.offsets[0])

    reads = reads_of(kernel)
    assert holds(reads)
    for owner, name, value in (
        (Config, "rows", 5),
        (Config, "rows", 4.0),
        (Base, "offsets", [1, 3]),
        (Config, "shift", lambda self, value: value),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert not holds(reads)
        assert holds(reads)
    Base.offsets.append(3)
    assert not holds(reads)


def test_objects_that_contain_themselves():
    value: list = [1]
    value.append(value)

    def kernel():
        return value

    reads = reads_of(kernel)
    assert holds(reads)
    value[0] = 2
    assert not holds(reads)


def test_constants_of_the_users_modules_and_classes_are_followed(monkeypatch, tmp_path):
    module = types.ModuleType("settings")
    module.__file__ = str(tmp_path / "settings.py")
    module.ROWS = 4
    monkeypatch.setitem(sys.modules, "settings", module)
    monkeypatch.setitem(globals(), "settings", module)

    class Shape:
        columns = 8

    class Wide(Shape):
        pass

    monkeypatch.setitem(globals(), "Wide", Wide)

    def kernel():
        return settings.ROWS + Wide.columns + math.pi  # noqa: F821

    reads = reads_of(kernel)
    assert set(reads) == {"settings", "ROWS", "Wide", "columns", "math"}
    module.ROWS = 5
    assert not reads["ROWS"].holds()
    Shape.columns = 9
    assert not reads["columns"].holds()


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        1,
        "a",
        None,
        (1, (2.0, "b")),
        math.pi,
        helper,
        Color.RED,
        pl.FP32,
        numpy.dtype("f4"),
        torch.float32,
        len,
        int,
        pl,
    ],
)
def test_what_cannot_change_is_compared_by_identity(value):
    def kernel():
        return value

    read = reads_of(kernel)["value"]
    assert read.kind == "identity"
    assert read.value is value


def test_builtins_are_not_read():
    def kernel(x):
        return len(x) + max(x)

    assert reads_of(kernel) == {}


def test_nested_functions_and_comprehensions_are_searched():
    def kernel(items):
        def inner():
            return [SCALE * i for i in items]

        return inner, lambda: ROWS

    assert set(reads_of(kernel)) == {"SCALE", "ROWS"}


def nested(depth):
    value = [1.0]
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.zeros(2), "a tensor whose elements may change"),
        (numpy.zeros(1 << 16), "an array of more than 65536 bytes"),
        ([numpy.zeros(1 << 16)], "an array of more than 65536 bytes"),
        (open(os.devnull), "an open file"),  # noqa: SIM115
        (iter([1]), "an iterator"),
        (itertools.count(), "an iterator"),
        (random.Random(0), "a random generator"),
        (numpy.random.default_rng(0), "a random generator"),
        (torch.Generator(), "a random generator"),
        ([random.Random(0)], "a random generator"),
        (os.environ, "the environment"),
        (list(range(20_001)), "an object of more than 20000 values"),
        (types.SimpleNamespace(rows=list(range(20_001))), "an object of more than 20000 values"),
        (nested(40), "an object nested deeper than 32"),
    ],
    ids=repr_briefly,
)
def test_what_cannot_be_guarded_is_an_error(value, reason):
    def kernel():
        x = 1
        return x, value

    with pytest.raises(TraceError, match=f"kernel code reads 'value', {reason}") as caught:
        collect_reads(kernel, ())
    assert caught.value.span.filename == __file__
    assert caught.value.span.line == kernel.__code__.co_firstlineno + 2
    assert "as an argument" in caught.value.hint


def test_what_is_only_named_or_written_to_may_be_anything(tmp_path):
    log, logger = open(tmp_path / "log", "w+"), logging.getLogger("kernels")  # noqa: SIM115

    def kernel():
        log.write("traced")
        logger.info("traced")
        print("traced", file=sys.stderr)
        return random, time, torch.float32, torch.nn.functional.relu, numpy.float32, re.compile, dataclasses

    names = {"log", "logger", "random", "time", "torch", "numpy", "re", "dataclasses", "sys"}
    assert set(reads_of(kernel)) == names


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: time.time(), "time"),
        (lambda: time.perf_counter(), "perf_counter"),
        (lambda: random.random(), "random"),
        (lambda: random.randint(1, 2), "randint"),
        (lambda: numpy.random.rand(), "rand"),
        (lambda: torch.rand(1), "rand"),
        (lambda: datetime.datetime.now(), "now"),
        (lambda: open(os.devnull), "open"),  # noqa: SIM115
        (lambda: os.getenv("HOME"), "getenv"),
        (lambda: os.environ.get("HOME"), "get"),
        (lambda: uuid.uuid4(), "uuid4"),
        (lambda: eval("1"), "eval"),
        (lambda: globals(), "globals"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_calls_of_what_gives_another_result_each_time_are_errors(call, name):
    def kernel(x, out):
        call()
        pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

    with pytest.raises(
        TraceError, match=f"'{name}'.* (result does not follow|the environment|a random generator)"
    ) as e:
        with_trace(kernel, X, X, then=lambda traced: None)
    assert e.value.span.filename == __file__
    assert e.value.span.line == call.__code__.co_firstlineno


def test_calls_that_no_trace_reaches_are_none():
    seed = None

    def kernel(x, out):
        if seed is not None:
            random.seed(seed)
            print(time.time())
        pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

    with_trace(kernel, X, X, then=lambda traced: None)


def test_without_source_all_that_is_named_counts_as_called():
    namespace = {"time": time}
    exec("def helper():\n    return time.time()", namespace)
    helper = namespace["helper"]

    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [16, 32]) * min(1.0, helper()), [0, 0], out)

    with pytest.raises(TraceError, match="kernel code reads 'time', whose result does not follow"):
        with_trace(kernel, X, X, then=lambda traced: None)


CHANGES = {
    "a namespace": (types.SimpleNamespace(rows=1), lambda v: setattr(v, "rows", 2)),
    "parsed arguments": (argparse.Namespace(rows=1), lambda v: setattr(v, "rows", 2)),
    "a deque": (collections.deque([1]), lambda v: v.append(2)),
    "a user dict": (collections.UserDict(rows=1), lambda v: v.update(rows=2)),
    "a tensor in a list": ([torch.zeros(2)], lambda v: v[0].add_(1)),
    "deep within": (nested(12), lambda v: v[0][0].append(1)),
    "a function's code": (
        define("def f(): return 1"),
        lambda f: setattr(f, "__code__", define("def f(): return 2").__code__),
    ),
    "a default": (define("def f(a=1): return a"), lambda f: setattr(f, "__defaults__", (2,))),
    "within a default": (define("def f(a=[1]): return a"), lambda f: f.__defaults__[0].append(2)),
    "a keyword's default": (define("def f(*, a=1): return a"), lambda f: f.__kwdefaults__.update(a=2)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_else_is_compared_by_contents(what):
    value, change = CHANGES[what]

    def kernel():
        return value

    reads = reads_of(kernel)
    assert holds(reads)
    change(value)
    assert not holds(reads)


def test_a_view_of_a_dict_is_compared_by_contents():
    table = {"rows": 1}
    value = types.MappingProxyType(table)

    def kernel():
        return value

    reads = reads_of(kernel)
    assert holds(reads)
    table["rows"] = 2
    assert not holds(reads)


def test_attributes_of_functions_are_compared():
    def helper():
        return helper.rows

    helper.rows = 1
    reads = reads_of(helper)
    helper.rows = 2
    assert not holds(reads)


IMPORTS = [
    "import settings_of_a_test; return settings_of_a_test.ROWS",
    "import settings_of_a_test as s; return s.ROWS",
    "from settings_of_a_test import ROWS; return ROWS",
    "from settings_of_a_test import COLUMNS, ROWS as r; return r",
    "import package_of_a_test.settings; return package_of_a_test.settings.ROWS",
    "import package_of_a_test.settings as s; x = 1; return s.ROWS + x",
    "from package_of_a_test import settings; return settings.ROWS",
    "import settings_of_a_test as s; return [s.ROWS for _ in range(2)]",
    "import settings_of_a_test as s; return (lambda: s.ROWS)()",
]


@pytest.mark.parametrize("body", IMPORTS)
def test_modules_imported_where_they_are_read_are_followed(body, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "package_of_a_test").mkdir()
    (tmp_path / "package_of_a_test" / "__init__.py").write_text("")
    for name in ("settings_of_a_test", "package_of_a_test/settings"):
        (tmp_path / f"{name}.py").write_text("ROWS = 1\nCOLUMNS = 1\n")
    kernel = define(f"def kernel(): {body}")
    try:
        kernel()
        reads = reads_of(kernel)
        assert holds(reads)
        for name in ("settings_of_a_test", "package_of_a_test.settings"):
            if name in sys.modules:
                sys.modules[name].ROWS = 2
        assert not holds(reads)
    finally:
        for name in ("settings_of_a_test", "package_of_a_test", "package_of_a_test.settings"):
            sys.modules.pop(name, None)


class TestGuards:
    def check(self, read, variables):
        condition = read.guard()
        names = {f"v{k}": value for k, value in enumerate(condition.values)}
        return bool(eval(condition.template.format(*names), {**variables, **names}))

    def test_a_global_of_the_kernel_is_looked_up_by_name(self):
        def kernel():
            return ROWS

        read = reads_of(kernel)["ROWS"]
        assert read.guard().template == "ROWS is {0}"
        assert self.check(read, {"ROWS": 16})
        assert not self.check(read, {"ROWS": 17})

    def test_a_global_hidden_by_a_parameter_is_not(self, monkeypatch):
        def inner():
            return ROWS

        def kernel(ROWS):
            return inner()

        read = reads_of(kernel)["ROWS"]
        assert self.check(read, {"ROWS": "the argument"})
        monkeypatch.setitem(globals(), "ROWS", 17)
        assert not self.check(read, {})

    def test_cells_and_contents(self):
        n, items = 1, [1]

        def kernel():
            return n, items

        reads = reads_of(kernel)
        assert all(self.check(read, {}) for read in reads.values())
        n = 2
        items.append(2)
        assert not any(self.check(read, {}) for read in reads.values())
