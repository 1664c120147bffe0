"""The generated function: its signature, what it checks before the entry, and when it takes the slow path."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings

import numpy
import pytest
import torch

from pypto_jit.runtime.arguments import FOREIGN, NUMPY, OMITTED, SUBCLASS, TORCH
from pypto_jit.runtime.caller import ALLOCATED, GeneratedCaller, Guard, HotPath, HotPaths, constant_guard

VALUE = object()


def kernel(x, out, factor=2.0):
    """A kernel."""


class Recorder:
    """Stands for the slow path and for an entry."""

    def __init__(self, answer=None) -> None:
        self.answer = answer
        self.calls: list[tuple] = []

    def __call__(self, *arguments):
        self.calls.append(arguments)
        return self.answer


def path(entry, *, kinds=(TORCH, TORCH), guards=(), sees=True, **options) -> HotPath:
    options = {"written": frozenset({"out"}), "returns": "out", "parallel": False, **options}
    tensors = tuple(zip(("x", "out"), kinds, strict=True))
    return HotPath(entry, tensors, tuple(guards), sees_torch=sees, **options)


@pytest.fixture
def slow() -> Recorder:
    return Recorder("slow")


@pytest.fixture
def caller(slow) -> GeneratedCaller:
    return GeneratedCaller(kernel, slow)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.zeros(2)


def test_binds_like_the_kernel(caller, slow):
    call = caller.function
    call(1, 2)
    call(1, out=2)
    call(out=2, x=1, factor=3)
    call(1, 2, 3, 4, 5, config="c", other=6)
    call()
    assert slow.calls == [
        ((1, 2, 2.0), (), {}),
        ((1, 2, 2.0), (), {}),
        ((1, 2, 3), (), {}),
        ((1, 2, 3), (4, 5), {"config": "c", "other": 6}),
        ((OMITTED, OMITTED, 2.0), (), {}),
    ]


def test_keeps_every_kind_of_parameter(slow):
    def mixed(a, /, b, c=3, *, d, e=5):
        pass

    call = GeneratedCaller(mixed, slow).function
    call(1, 2, d=4)
    call(1, b=2, c=0, d=4, e=6)
    call(a=1)
    assert slow.calls == [
        ((1, 2, 3, 4, 5), (), {}),
        ((1, 2, 0, 4, 6), (), {}),
        ((OMITTED, OMITTED, 3, OMITTED, 5), (), {"a": 1}),
    ]


def test_names_of_the_kernel_do_not_clash_with_ours(slow):
    def named(_pypto_result, _pypto_object, Exception, type, torch):
        pass

    call = GeneratedCaller(named, slow).function
    call(1, 2, 3, 4, 5)
    assert slow.calls == [((1, 2, 3, 4, 5), (), {})]
    assert GeneratedCaller(lambda x: x, slow).function(7) == "slow"


def test_generates_without_a_warning(caller, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        caller.install([path(Recorder(), guards=[constant_guard("factor", v) for v in (2.0, 0.0, True, "s", (1, 2))])])


def test_the_entry_gets_the_tensors_and_the_caller_its_output(caller, slow, x):
    entry, out = Recorder(), torch.zeros(2)
    caller.install([path(entry)])
    assert caller.function(x, out) is out
    assert entry.calls == [(x, out)]
    assert not slow.calls


@pytest.mark.parametrize("answer", [1, -3, 1 << 16])
def test_any_answer_of_the_entry_but_none_leads_to_the_slow_path(caller, slow, x, answer):
    caller.install([path(Recorder(answer))])
    assert caller.function(x, x, 2.0) == "slow"
    assert slow.calls == [((x, x, 2.0), (), {})]


def test_an_exception_of_the_entry_leads_to_the_slow_path_but_an_interrupt_passes(caller, x):
    def fails(*_):
        raise BufferError("no")

    def interrupted(*_):
        raise KeyboardInterrupt

    caller.install([path(fails)])
    assert caller.function(x, x) == "slow"
    caller.install([path(interrupted)])
    with pytest.raises(KeyboardInterrupt):
        caller.function(x, x)


def test_a_path_that_fails_does_not_hide_the_others(caller, x):
    def fails(*_):
        raise BufferError("no")

    caller.install([path(fails), path(Recorder())])
    assert caller.function(x, x) is x


def test_paths_of_other_libraries_do_not_wait_for_those_of_torch(caller, x):
    entry = Recorder(1)
    caller.install([path(entry), path(Recorder(), kinds=(NUMPY, NUMPY))])
    array = numpy.zeros(2)
    assert caller.function(array, array) is array
    assert not entry.calls


def test_surplus_and_named_arguments_lead_to_the_slow_path(caller, x):
    entry = Recorder()
    caller.install([path(entry)])
    assert caller.function(x, x, 2.0, 9) == "slow"
    assert caller.function(x, x, config=None) == "slow"
    assert not entry.calls


def test_paths_are_tried_in_order(caller, slow, x):
    entries = [Recorder(1), Recorder(), Recorder()]
    caller.install([path(entry) for entry in entries])
    assert caller.function(x, x) is x
    assert [len(entry.calls) for entry in entries] == [1, 1, 0]
    caller.install(())
    assert caller.function(x, x) == "slow"


@pytest.mark.parametrize("mode", [True, False])
def test_gradients(caller, x, mode):
    entry, leaf = Recorder(), torch.zeros(2, requires_grad=True)
    caller.install([path(entry)])
    with torch.set_grad_enabled(mode):
        assert caller.function(leaf, x) is ("slow" if mode else x)
        assert caller.function(x, leaf) is ("slow" if mode else leaf)
        assert caller.function(x, x) is x
    caller.install([path(entry, kinds=(SUBCLASS, NUMPY))])
    with torch.set_grad_enabled(mode):
        array = numpy.zeros(2)
        assert caller.function(leaf, array) is ("slow" if mode else array)


def test_a_tensor_of_another_library_leads_to_the_slow_path_in_grad_mode(caller, x):
    caller.install([path(Recorder())])
    assert caller.function(numpy.zeros(2), x) == "slow"


@pytest.mark.parametrize(
    ("kind", "fits", "misfits"),
    [
        (NUMPY, numpy.zeros(2), torch.zeros(2)),
        (FOREIGN, object(), torch.zeros(2)),
        (ALLOCATED, OMITTED, torch.zeros(2)),
    ],
)
def test_each_library_has_its_own_path(caller, x, kind, fits, misfits):
    options = {"allocators": (("out", lambda: "new", ()),)} if kind == ALLOCATED else {}
    caller.install([path(Recorder(), kinds=(TORCH, kind), **options)])
    assert caller.function(x, fits) is ("new" if kind == ALLOCATED else fits)
    assert caller.function(x, misfits) == "slow"


def test_an_output_left_out_is_left_out_for_the_slow_path_too(caller, slow, x):
    caller.install([path(Recorder(1), kinds=(TORCH, ALLOCATED), allocators=(("out", lambda: "new", ()),))])
    assert caller.function(x) == "slow"
    assert slow.calls == [((x, OMITTED, 2.0), (), {})]


def test_the_thread_count_follows_the_tensors(caller, x):
    entry = Recorder()
    caller.install([path(entry, parallel=True)])
    caller.function(x, x)
    caller.install([path(entry, parallel=True, threads=7)])
    caller.function(x, x)
    assert entry.calls == [(x, x, torch.get_num_threads()), (x, x, 7)]


def test_nested_returns(caller, x):
    caller.install([path(Recorder(), returns=("out", ("x",), ()))])
    out = torch.zeros(2)
    assert caller.function(x, out) == (out, (x,), ())


@pytest.mark.parametrize("value", [1, 1.0, True, False, 0, 0.0, -0.0, float("nan"), "s", b"s", None, (1, 2), int, max])
def test_constants_are_told_apart_by_type_and_bits(caller, x, value):
    caller.install([path(Recorder(), guards=[constant_guard("factor", value)])])
    others = [1, 1.0, True, False, 0, 0.0, -0.0, float("nan"), "s", "t", b"s", None, (1, 2), (1, 2.0), [1, 2], int, max]
    for other in others:
        same = type(other) is type(value) and (repr(other) == repr(value))
        assert (caller.function(x, x, other) is x) is same, other


def test_guards_over_globals_and_values(caller, x):
    global VALUE
    held = VALUE
    container = {"a b": held}
    caller.install(
        [path(Recorder(), guards=[Guard("VALUE is {0}", (held,)), Guard("{0}[{1}] is {2}", (container, "a b", held))])]
    )
    assert caller.function(x, x) is x
    VALUE = object()
    assert caller.function(x, x) == "slow"
    VALUE = held
    container.clear()
    assert caller.function(x, x) == "slow"


def test_without_native_checks_python_checks(caller, x):
    entry = Recorder()
    caller.install([path(entry, sees=False)])
    out = torch.zeros(2)
    assert caller.function(x, out) is out
    assert (x._version, out._version) == (0, 1)
    assert caller.function(torch._neg_view(x), out) == "slow"
    assert caller.function(x, numpy.zeros(2)) == "slow"
    with torch.inference_mode():
        frozen = torch.zeros(2)
        assert caller.function(x, frozen) is frozen


def test_replacing_the_code_under_running_calls(caller, x):
    entries = [path(Recorder()), path(Recorder())]
    wrong, stop = [], threading.Event()

    def call():
        while not stop.is_set():
            if caller.function(x, x) not in (x, "slow"):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for k in range(200):
        caller.install([entries[k % 2]] if k % 3 else ())
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tracebacks_show_the_generated_lines(caller):
    assert "kernel" in inspect.getsource(caller.function)
    assert sys.version_info < (3, 11) or caller.function.__code__.co_qualname == "kernel"


def test_few_paths_are_hot_and_a_frequent_one_replaces_the_oldest():
    hot = HotPaths()
    paths = [path(Recorder()) for _ in range(HotPaths.MOST + 1)]
    assert all(hot.admit(p) for p in paths[:-1])
    assert not hot.admit(paths[0])
    admitted = [hot.admit(paths[-1]) for _ in range(HotPaths.PATIENCE)]
    assert admitted == [False] * (HotPaths.PATIENCE - 1) + [True]
    assert hot.paths == paths[1:]
