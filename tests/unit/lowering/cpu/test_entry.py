"""The entry around hand-written kernels: what it lets through, what it refuses, and how it launches."""

from __future__ import annotations

import threading

import numpy
import pytest
import torch
import tvm_ffi

from pypto_jit import abi
from pypto_jit.dtypes import BF16, FP32, INT8
from pypto_jit.lowering.cpu.entry import EntryTensor, Launch, Operand, is_parallel
from pypto_jit.lowering.cpu.runner import STACK_ARENA
from pypto_jit.runtime.native import load_entry
from pypto_jit.signature import DynVar, TensorSpec
from tests.entries import FAIL, KERNEL, TEAM, build, bump_entry, dense, object_code


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3), (1, 2, 1, 3), (2, 2, 2, 2, 2)])
def test_launches_tensors_of_every_rank(shape):
    entry = bump_entry(dense(*shape))
    x, out = torch.randn(shape), torch.zeros(shape)
    assert entry(x, out) is None
    assert torch.equal(out, x + 1)


@pytest.mark.parametrize(
    ("argument", "number"),
    [
        (lambda x, out: (x[:1], out), 1),
        (lambda x, out: (x, out[:, :2]), 2),
        (lambda x, out: (x.double(), out), 1),
        (lambda x, out: (x, out.int()), 2),
        (lambda x, out: (x.reshape(6), out), 1),
        (lambda x, out: (x.t().contiguous().t(), out), 1),
        (lambda x, out: (3, out), 1),
        (lambda x, out: (x, None), 2),
        (lambda x, out: (x, "out"), 2),
        (lambda x, out: (x.numpy().astype("float64"), out), 1),
        (lambda x, out: (x[:1].expand(2, 3), out), 1),
    ],
)
def test_reports_the_argument_that_does_not_fit(argument, number):
    entry = bump_entry(dense(2, 3))
    out = torch.zeros(2, 3)
    assert entry(*argument(torch.ones(2, 3), out)) == number
    assert not out.any()


def test_takes_another_count_of_arguments_as_a_mismatch():
    entry = bump_entry(dense(2, 3))
    x = torch.ones(2, 3)
    assert entry(x) == entry() == entry(x, x, 1, 0, 0) == entry(x, x.clone(), "threads") == abi.ARITY


def test_takes_numpy_and_foreign_tensors():
    entry = bump_entry(dense(2, 3))
    x, out = numpy.ones((2, 3), "float32"), numpy.zeros((2, 3), "float32")
    assert entry(x, tvm_ffi.from_dlpack(out)) is None
    assert (out == 2).all()


def test_refuses_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    entry = bump_entry(dense(2, 3))
    with FakeTensorMode():
        fake = torch.zeros(2, 3)
    assert entry(torch.zeros(2, 3), fake) == 2


def test_strides_of_single_elements_do_not_matter():
    entry = bump_entry(dense(2, 1, 3))
    out = torch.zeros(2, 1, 3)
    assert entry(torch.ones(2, 3).as_strided((2, 1, 3), (3, 77, 1)), out) is None
    assert (out == 2).all()


@pytest.mark.parametrize("step", [2, 3])
def test_reads_by_stride(step):
    entry = bump_entry(TensorSpec((4,), FP32, (-1,)))
    x, out = torch.randn(4 * step), torch.zeros(4)
    assert entry(x[::step], out) is None
    assert torch.equal(out, x[::step] + 1)


def test_reads_by_negative_and_zero_stride():
    entry = bump_entry(TensorSpec((4,), FP32, (-1,)))
    x, out = numpy.arange(4, dtype="float32"), numpy.zeros(4, "float32")
    assert entry(x[::-1], out) is None
    assert out.tolist() == [4, 3, 2, 1]
    assert entry(torch.tensor([3.0]).expand(4), out) is None
    assert out.tolist() == [4, 4, 4, 4]


def test_a_contiguous_tensor_is_not_taken_by_a_strided_specialization():
    entry = bump_entry(TensorSpec((4,), FP32, (-1,)))
    assert entry(torch.ones(4), torch.zeros(4)) == 1


@pytest.mark.parametrize(
    ("make", "fits"),
    [
        (lambda: torch.zeros(3, 4).t(), True),
        (lambda: torch.zeros(8, 6)[::2, ::2], True),
        (lambda: torch.zeros(4, 1).expand(4, 3), False),
        (lambda: torch.zeros(1, 4).t().expand(4, 3), False),
        (lambda: torch.zeros(20).as_strided((4, 3), (1, 1)), False),
        (lambda: torch.zeros(20).as_strided((4, 3), (2, 1)), False),
        (lambda: torch.zeros(20).as_strided((4, 3), (1, 4)), True),
    ],
)
def test_writes_no_tensor_whose_elements_share_memory(make, fits):
    out = make()
    spec = TensorSpec((4, 3), FP32, tuple(-1 if out.stride(k) != 1 or k == 0 else 1 for k in range(2)))
    kernel = KERNEL.replace("COUNT", "0").replace("STRIDE", "").replace("SCALE", "1")
    tensors = [EntryTensor(dense(4, 3)), EntryTensor(spec, written=True)]
    entry = build(kernel, tensors, [Launch("bump", (Operand("data", 0), Operand("data", 1)), 0, 1, 1)])
    assert (entry(torch.ones(4, 3), out) is None) is fits


def test_in_place_is_exact_and_only_where_proved():
    x = torch.arange(9, dtype=torch.float32)
    proved, unproved = bump_entry(dense(8)), bump_entry(dense(8), in_place=frozenset())
    assert proved(x[:8], x[1:]) == abi.OVERLAP
    assert proved(x[1:], x[:8]) == abi.OVERLAP
    assert unproved(x[:8], x[:8]) == abi.OVERLAP
    assert proved(x[:8], x[:8]) is None
    assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert unproved(x[:8], x[:8], 1, abi.OVERLAP_RESOLVED) is None
    assert x.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 8]


def test_neighbours_do_not_overlap():
    x = torch.zeros(16)
    entry = bump_entry(dense(8))
    assert entry(x[:8], x[8:]) is None
    assert x.tolist() == [0] * 8 + [1] * 8


def test_zero_sized_tensors_are_left_alone():
    entry = bump_entry(dense(0, 3))
    assert entry(torch.zeros(0, 3), torch.zeros(0, 3)) is None
    assert entry(numpy.zeros((0, 3), "float32"), numpy.zeros((0, 3), "float32")) is None
    assert entry(torch.zeros(3, 0), torch.zeros(0, 3)) == 1


def test_unaligned_data_is_refused():
    buffer = numpy.zeros(17, "uint8")
    view = buffer[1:].view("float32") if buffer.ctypes.data % 4 == 0 else buffer[:16].view("float32")
    assert bump_entry(dense(4))(torch.ones(4), view) == 2


@pytest.mark.parametrize(("dtype", "torch_dtype"), [(BF16, torch.bfloat16), (INT8, torch.int8)])
def test_distinguishes_dtypes(dtype, torch_dtype):
    kernel = KERNEL.replace("COUNT", "0").replace("STRIDE", "").replace("SCALE", "1")
    tensors = [EntryTensor(dense(4, dtype=dtype)), EntryTensor(dense(4), written=True)]
    entry = build(kernel, tensors, [Launch("bump", (Operand("data", 0), Operand("data", 1)), 0, 1, 1)])
    assert entry(torch.ones(4, dtype=torch_dtype), torch.zeros(4)) is None
    assert entry(torch.ones(4, dtype=torch.float16), torch.zeros(4)) == 1
    assert entry(torch.ones(4, dtype=torch.uint8), torch.zeros(4)) == 1


def team_entry(threads: int, arena: int, trips: int = -1, work: int = -1):
    tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
    launch = Launch("team", (Operand("data", 0), Operand("workspace", 0)), arena, trips, work)
    return build(TEAM.replace("LAST", str(max(arena - 1, 0))), tensors, [launch], [100])


@pytest.mark.parametrize("arena", [64, STACK_ARENA, STACK_ARENA + 1, 1 << 20])
def test_every_thread_of_the_team_runs_its_own_block(arena):
    out = torch.zeros(8, dtype=torch.int8)
    entry = team_entry(3, arena)
    assert entry(out, 3) is None
    assert out.tolist() == [3, 3, 3, 0, 0, 0, 0, 0]
    assert entry(out.zero_(), 1) is None
    assert out.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_no_more_threads_than_trips_and_none_for_little_work():
    out = torch.zeros(8, dtype=torch.int8)
    assert team_entry(3, 64, trips=2)(out, 3) is None
    assert out.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert team_entry(3, 64, work=100)(out.zero_(), 3) is None
    assert out.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert not is_parallel([Launch("team", (), 0, 1, -1), Launch("team", (), 0, 9, 100)])


def test_a_failed_check_is_reported_and_stops_the_later_kernels():
    tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
    fail = Launch("fail", (Operand("data", 0),), 0, 1, 1)
    team = Launch("team", (Operand("data", 0), Operand("workspace", 0)), 64, 1, 1)
    entry = build(FAIL + TEAM.replace("LAST", "63"), tensors, [fail, team], [100])
    out = torch.zeros(8, dtype=torch.int8)
    assert entry(out) == -7
    assert not out.any()


def test_many_threads_may_call_one_entry():
    entry = bump_entry(dense(64), work=-1)
    wrong = []

    def call(seed: int) -> None:
        x, out = torch.full((64,), float(seed)), torch.zeros(64)
        for _ in range(50):
            if entry(x, out, 2) is not None or not (out == seed + 1).all():
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_counts_its_calls():
    tensors = [EntryTensor(dense(8, dtype=INT8), written=True)]
    kernel = FAIL.replace("store i64 7", "store i64 0")
    loaded = load_entry(object_code(kernel, tensors, [Launch("fail", (Operand("data", 0),), 0, 1, 1)]))
    out = torch.zeros(8, dtype=torch.int8)
    for _ in range(3):
        assert loaded.function(out) is None
    assert loaded.function(out[:4]) == 1
    assert loaded.calls == 3


class TestDynamicExtents:
    ROWS, BOTH = (DynVar("M"), None), (DynVar("M"), DynVar("N"))

    def entry(self, x: TensorSpec, out: TensorSpec):
        kernel = KERNEL.replace("COUNT", "0").replace("STRIDE", "").replace("SCALE", "1")
        tensors = [EntryTensor(x), EntryTensor(out, written=True)]
        return build(kernel, tensors, [Launch("bump", (Operand("data", 0), Operand("data", 1)), 0, 1, 1)])

    def test_one_name_is_one_number(self):
        double = (DynVar("M") * 2 + 1, None)
        entry = self.entry(TensorSpec((-1, 4), FP32, (4, 1), self.ROWS), TensorSpec((-1, 4), FP32, (4, 1), double))
        for rows in (0, 1, 3, 50):
            assert entry(torch.zeros(rows, 4), torch.zeros(2 * rows + 1, 4)) is None
            assert entry(torch.zeros(rows, 4), torch.zeros(2 * rows + 2, 4)) == 2
        assert entry(torch.zeros(3, 5), torch.zeros(7, 4)) == 1
        assert entry(torch.zeros(6, 8)[:3, :4], torch.zeros(7, 4)) == 1
        assert entry(torch.zeros(6, 8)[:1, :4], torch.zeros(3, 4)) is None

    def test_layouts_are_told_apart(self):
        out = TensorSpec((-1, -1), FP32, (-1, 1), self.BOTH)
        by_rows, turned = self.entry(out, out), self.entry(TensorSpec((-1, -1), FP32, (-1, -1), self.BOTH), out)
        for x, fits in [
            (torch.zeros(3, 4), True),
            (torch.zeros(3, 9)[:, :4], True),
            (torch.zeros(4, 3).t(), False),
            (torch.zeros(3, 8)[:, ::2], False),
        ]:
            assert by_rows(x, torch.zeros(3, 4)) == (None if fits else 1)
            assert turned(x, torch.zeros(3, 4)) == (1 if fits else None)
        assert by_rows(torch.zeros(4, 0).t(), torch.zeros(0, 4)) is None
        assert by_rows(torch.zeros(3, 4), torch.zeros(1, 4).expand(3, 4)) == 2

    @pytest.mark.parametrize(
        ("shape", "strides"),
        [((3, 4), (1 << 62, 4)), ((1 << 49, 4), (0, 4)), ((1 << 40, 4), (1 << 24, 4)), ((3, 4), (-(1 << 61), 4))],
    )
    def test_nothing_overflows(self, shape, strides):
        spec = TensorSpec((-1, -1), FP32, (-1, 1), self.BOTH)
        hostile = numpy.lib.stride_tricks.as_strided(numpy.zeros(8, "float32"), shape, strides)
        other = TensorSpec((4,), FP32, (1,))
        assert self.entry(spec, other)(hostile, torch.zeros(4)) == 1
