"""Recorded reads: what a trace depends on, and that a change is noticed."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
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


def reads_of(kernel, *helpers):
    return {read.name: read for read in collect_reads(kernel, helpers)}


def holds(reads):
    return all(read.holds() for read in reads.values())


def helper(t):
    return t * SCALE


def test_a_trace_carries_the_reads_of_kernel_and_helpers():
    def kernel(x, out):
        pl.store(helper(pl.load(x, [0, 0], [ROWS, 32])), [0, 0], out)

    reads = with_trace(kernel, X, X, then=lambda traced: {read.name: read.value for read in traced.reads})
    assert reads == {"pl": pl, "helper": helper, "ROWS": 16, "SCALE": 2.0}


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
    assert set(reads) == {"odd", "ROWS", "even"}


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


@pytest.mark.parametrize("value", [torch.zeros(2), numpy.zeros(1 << 16)])
def test_what_cannot_be_guarded_is_an_error(value):
    def kernel():
        return value

    with pytest.raises(TraceError, match="kernel code reads 'value'") as caught:
        collect_reads(kernel, ())
    assert caught.value.span.line == kernel.__code__.co_firstlineno
    assert "as an argument" in caught.value.hint


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
