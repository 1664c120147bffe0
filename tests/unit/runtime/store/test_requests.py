"""A request tells calls apart that need different programs, and is not made where nobody can tell."""

from __future__ import annotations

import pytest

from pypto_jit.dtypes import FP16, FP32
from pypto_jit.runtime.store import environment
from pypto_jit.runtime.store.disk import Store
from pypto_jit.runtime.store.requests import make_request
from pypto_jit.signature import Constant, TensorSpec

SPEC = TensorSpec((4, 8), FP32, (8, 1))
SCALE = 2.0


def kernel(x, out=None):
    return x * SCALE


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    monkeypatch.setattr(environment, "package_digest", lambda memory: "package")
    return Store(tmp_path, 1 << 30)


def key(store, arguments, function=kernel, **options) -> str:
    request = make_request(store, function, arguments, options)
    assert request is not None
    return request.key.digest


def test_every_part_of_a_call_is_in_the_key(store, monkeypatch):
    calls = [
        {"x": SPEC, "out": SPEC},
        {"x": SPEC, "out": None},
        {"x": SPEC, "out": Constant(None)},
        {"x": TensorSpec((8, 4), FP32, (4, 1)), "out": None},
        {"x": TensorSpec((4, 8), FP16, (8, 1)), "out": None},
        {"x": TensorSpec((4, 8), FP32, (-1, 1)), "out": None},
        {"x": SPEC, "y": None},
        {"out": None, "x": SPEC},
        *({"x": SPEC, "out": Constant(value)} for value in (1, 1.0, True, 0.0, -0.0, "1", (1,), [1])),
        {"x": SPEC, "out": Constant(lambda t: t)},
        {"x": SPEC, "out": Constant(lambda t: t * SCALE)},
    ]
    keys = [key(store, call) for call in calls]
    keys += [key(store, calls[0], opt_level=1), key(store, calls[0], opt_level=2)]
    for name in ("host_cpu_text", "tools_text", "python_text"):
        with monkeypatch.context() as patch:
            patch.setattr(environment, name, lambda: "another")
            keys.append(key(store, calls[0]))
    assert len(set(keys)) == len(keys)
    assert [key(store, call) for call in calls] == keys[: len(calls)]


def test_what_a_kernel_reads_is_not_in_the_key_but_in_the_records(store, monkeypatch):
    before = make_request(store, kernel, {"x": SPEC}, {})
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    after = make_request(store, kernel, {"x": SPEC}, {})
    assert before is not None
    assert after is not None
    assert before.key.digest == after.key.digest
    assert before.reads.digests() != after.reads.digests()
    assert not before.still_holds()
    assert after.still_holds()


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("make", [Hostile, lambda: open, lambda: (x for x in ())], ids=["hostile", "open", "generator"])
def test_what_cannot_be_looked_at_or_guarded_makes_no_request(store, make):
    value = make()

    def reader(x):
        return value

    assert make_request(store, reader, {"x": SPEC}, {}) is None
    assert make_request(store, kernel, {"x": Constant(value)}, {}) is None


def test_a_package_that_changed_under_the_process_makes_no_request(store, monkeypatch):
    monkeypatch.setattr(environment, "package_digest", lambda memory: None)
    assert make_request(store, kernel, {"x": SPEC}, {}) is None
