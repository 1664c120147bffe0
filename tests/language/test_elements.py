"""Single elements of tensors and tiles, and arrays on the core."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import (
    AssemblyError,
    BoundsError,
    DirectionError,
    DTypeError,
    ShapeError,
    TraceError,
)
from tests.language.everywhere import check

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_of_every_dtype_are_read_and_written(dtype):
    @pypto.jit
    def kernel(x, out):
        out[1, 0] = x[0, 2]
        pl.write(out, [0, 1], pl.read(x, [1, 1]))

    x = torch.tensor([[1, 2, -3], [4, 5, 6]]).to(dtype)
    check(kernel, x, torch.zeros(2, 2, dtype=dtype), out=torch.tensor([[0, 5], [-3, 0]]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32], ids=str)
def test_unsigned_elements_have_no_assembly(dtype):
    @pypto.jit
    def kernel(x, out):
        out[0] = x[1]

    x = torch.tensor([1, 200]).to(dtype)
    check(kernel, x, torch.zeros(1, dtype=dtype), ways=("compiled", "interpreted"), out=x[1:])
    with pytest.raises(AssemblyError, match="no scalars of UINT"):
        kernel.lower(x, torch.zeros(1, dtype=dtype))["pto"]


def test_elements_steer_loops_branches_and_offsets():
    @pypto.jit
    def kernel(lengths, starts, x, out):
        for k in pl.range(0, 3):
            total = 0.0
            for i in pl.range(0, lengths[k]):
                total = total + x[starts[k] + i]
            if lengths[k] > 2:
                total = -total
            out[k, 0] = total

    lengths = torch.tensor([2, 3, 0], dtype=torch.int32)
    starts = torch.tensor([4, 1, 0], dtype=torch.int64)
    x = torch.tensor([1.0, 2, 4, 8, 16, 32])
    check(kernel, lengths, starts, x, torch.zeros(3, 1), out=torch.tensor([[48.0], [-14.0], [0.0]]))


def test_a_block_table():
    @pypto.jit
    def gather(table, pages, out):
        for k in pl.parallel(0, table.shape[0]):
            pl.store(pl.load(pages, [table[k] * 4, 0], [4, 8]), [k * 4, 0], out)

    pages = torch.arange(20 * 8, dtype=torch.float32).reshape(20, 8)
    table = torch.tensor([3, 0, 4, 3], dtype=torch.int32)
    expected = torch.cat([pages[4 * k : 4 * k + 4] for k in table.tolist()])
    check(gather, table, pages, torch.zeros(16, 8), out=expected)


def test_strided_tensors():
    @pypto.jit
    def kernel(x, out):
        out[0, 1] = x[2, 1]

    x = torch.arange(12.0).reshape(3, 4).t()
    out = torch.zeros(4, 4)[::2, ::2]
    kernel(x, out)
    assert out[0, 1] == x[2, 1]
    assert out.sum() == x[2, 1]


def test_elements_of_tiles():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [4, 10])
        old = t
        for i in pl.range(0, 4):
            t = pl.write(t, [i, 2], t[i, 2] + t[i, 9])
        v = pl.row_sum(t)
        v = pl.write(v, [1, 0], v[3, 0])
        pl.store(old + t, [0, 0], out)
        pl.store(v, [0, 10], out)

    x = torch.arange(40.0).reshape(4, 10)
    t = x.clone()
    t[:, 2] += t[:, 9]
    v = t.sum(1, keepdim=True)
    v[1] = v[3]
    check(kernel, x, torch.zeros(4, 11), out=torch.cat([x + t, v], 1))


def test_elements_of_tiles_of_other_ranks():
    @pypto.jit
    def kernel(x, y, out):
        t = pl.load(x, [0, 0, 0], [2, 3, 8])
        t = pl.write(t, [1, 0, 5], t[0, 2, 7])
        pl.store(t, [0, 0, 0], out)
        r = pl.load(y, [0], [8])
        pl.store(pl.write(r, [2], r[7]), [0], y)

    x, y = torch.arange(48.0).reshape(2, 3, 8), torch.arange(8.0)
    out = x.clone()
    out[1, 0, 5] = x[0, 2, 7]
    after = y.clone()
    after[2] = 7
    check(kernel, x, y, torch.zeros_like(x), out=out, y=after)


def test_writes_and_stores_of_one_tensor_keep_their_order():
    @pypto.jit
    def kernel(x, out):
        out[0, 0] = 5.0
        pl.store(pl.load(x, [0, 0], [2, 8]), [0, 0], out)
        out[1, 1] = out[1, 1] + out[0, 0]
        t = pl.load(out, [0, 0], [2, 8])
        out[1, 2] = 9.0
        pl.store(t * 2.0, [2, 0], out)

    x = torch.arange(16.0).reshape(2, 8) + 1
    first = x.clone()
    first[1, 1] += x[0, 0]
    second = first * 2
    first[1, 2] = 9
    check(kernel, x, torch.zeros(4, 8), out=torch.cat([first, second]))
    text = kernel.lower(x, torch.zeros(4, 8))["pto"]
    assert "pto.barrier #pto.pipe<PIPE_ALL>" in text
    assert "pto.fence.barrier_all #pto.fence_scope<gm>" in text


class TestArrays:
    @pytest.mark.parametrize("dtype", ["INT32", "INT64", "INT16", "INT8", "INDEX"])
    def test_arrays_are_memory_through_loops_and_branches(self, dtype):
        dtype = getattr(pl, dtype)

        @pypto.jit
        def histogram(x, out):
            counts = pl.array.create(4, dtype)
            for i in pl.range(0, x.shape[0]):
                if x[i] >= 0:
                    counts[x[i]] = counts[x[i]] + 1
            for k in pl.range(0, 4):
                out[k] = pl.cast(counts[k], pl.INT32)

        x = torch.tensor([0, 3, 3, -1, 1, 3, 0], dtype=torch.int32)
        check(histogram, x, torch.zeros(4, dtype=torch.int32), out=torch.tensor([2, 1, 0, 3], dtype=torch.int32))

    def test_a_fresh_array_in_each_turn(self):
        @pypto.jit
        def kernel(x, out):
            for i in pl.range(0, 3):
                seen = pl.array.create(40, pl.BOOL)
                if i == 1:
                    seen[x[i]] = True
                if seen[2]:
                    out[i] = 1.0
                if seen[39]:
                    out[i] = 2.0

        x = torch.tensor([2, 39, 2], dtype=torch.int32)
        check(kernel, x, torch.zeros(3), out=torch.tensor([0.0, 2.0, 0.0]))

    def test_an_array_that_iterations_share_keeps_them_in_order(self):
        @pypto.jit
        def kernel(x, out):
            last = pl.array.create(1, pl.INT32)
            for i in pl.parallel(0, 64):
                out[i] = last[0]
                last[0] = x[i]

        x = torch.arange(64, dtype=torch.int32)
        check(kernel, x, torch.zeros(64, dtype=torch.int32), out=torch.cat([x[:1] * 0, x[:-1]]))

    def test_arrays_and_annotations(self):
        seen = set()

        @pypto.jit
        def kernel(out):
            a: pl.Array[3, pl.INT32] = pl.array.create(3, pl.INT32)
            seen.add((len(a), a.size, a.dtype, repr(a)))
            pl.array.update_element(a, 1, 7)
            out[0] = pl.array.get_element(a, 1)
            out[1] = sum(a)

        check(kernel, torch.zeros(2, dtype=torch.int32), out=torch.tensor([7, 7], dtype=torch.int32))
        assert seen == {(3, 3, pl.INT32, "Array[3, INT32]")}

    def test_an_array_of_tasks_holds_no_task_at_first(self):
        @pypto.jit
        def kernel(out):
            ids = pl.array.create(2, pl.TASK_ID)
            out[0] = pl.cast(ids[1], pl.INT32)

        check(kernel, torch.zeros(1, dtype=torch.int32), out=torch.tensor([-1], dtype=torch.int32))


INDEX = torch.tensor([7], dtype=torch.int32)
NEGATIVE = torch.tensor([-1], dtype=torch.int32)


@pypto.jit
def reads_tensor(k, x, out):
    out[0] = x[k[0]]


@pypto.jit
def writes_tensor(k, x, out):
    out[k[0]] = x[0]


@pypto.jit
def reads_tile(k, x, out):
    t = pl.load(x, [0], [8], valid_shape=[4])
    out[0] = t[k[0]]


@pypto.jit
def writes_tile(k, x, out):
    t = pl.load(x, [0], [8], valid_shape=[4])
    pl.store(pl.write(t, [k[0]], 1.0), [0], out)


@pypto.jit
def reads_array(k, x, out):
    a = pl.array.create(4, pl.INT32)
    out[0] = a[k[0]]


@pypto.jit
def writes_array(k, x, out):
    a = pl.array.create(4, pl.INT32)
    a[k[0]] = 1
    out[0] = a[0]


@pytest.mark.parametrize("way", ["compiled", "interpret"])
@pytest.mark.parametrize("index", [INDEX, NEGATIVE], ids=["beyond", "negative"])
@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (reads_tensor, "tensor"),
        (writes_tensor, "tensor"),
        (reads_tile, "tile's valid region"),
        (writes_tile, "tile's valid region"),
        (reads_array, "array"),
        (writes_array, "array"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_an_index_that_is_only_known_when_the_kernel_runs_is_checked(way, index, kernel, what):
    run = kernel if way == "compiled" else kernel.interpret
    with pytest.raises(BoundsError, match=f"an element outside of its {what}") as caught:
        run(index, torch.zeros(4), torch.zeros(4))
    assert caught.value.span.filename == __file__


class TestErrors:
    def check(self, error, message, body, *arguments):
        @pypto.jit
        def kernel(x, out):
            body(x, out)

        with pytest.raises(error, match=message) as caught:
            kernel(*(arguments or (torch.zeros(4, 8), torch.zeros(4, 8))))
        assert caught.value.span.filename == __file__

    def test_known_indices(self):
        self.check(BoundsError, "an element outside of tensor 'x'", lambda x, out: x[4, 0])
        self.check(BoundsError, "an element outside of tensor 'out'", lambda x, out: pl.write(out, [0, -1], 1.0))
        self.check(ShapeError, "one entry per dimension", lambda x, out: pl.read(x, [1]))
        self.check(DTypeError, "the index of tensor 'x' takes integers", lambda x, out: pl.read(x, [0, x[0, 0]]))
        self.check(BoundsError, "an element outside of an array", lambda x, out: pl.array.create(4, pl.INT32)[4])

    def test_values(self):
        ints = torch.zeros(2, dtype=torch.int32)
        self.check(
            DTypeError, "write of a INT32 tile takes an integer", lambda x, out: pl.write(out, [0], 0.5), ints, ints
        )
        self.check(DTypeError, "takes an integer scalar", lambda x, out: pl.write(out, [0], x[0]), ints.float(), ints)
        self.check(TraceError, "takes a tile or a scalar", lambda x, out: pl.write(out, [0, 0], x))
        self.check(TraceError, "read takes a tensor or tile", lambda x, out: pl.read(3, [0]))

    def test_tiles_are_values(self):
        def assign(x, out):
            pl.load(x, [0, 0], [4, 8])[0, 0] = 1.0

        self.check(TraceError, "a tile is never changed", assign)

    def test_arrays(self):
        self.check(DTypeError, "no elements of this dtype", lambda x, out: pl.array.create(4, pl.FP32))
        self.check(ShapeError, "at least one element", lambda x, out: pl.array.create(0, pl.INT32))
        self.check(DTypeError, "holds tasks", lambda x, out: pl.array.create(1, pl.TASK_ID).__setitem__(0, 3))

    def test_directions(self):
        @pypto.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            x[0] = 1.0
            out[0] = 1.0

        with pytest.raises(DirectionError, match="'x' is an input, and the kernel writes it"):
            kernel(torch.zeros(4), torch.zeros(4))

        @pypto.jit
        def reading(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[0] = out[1] + x[0]

        with pytest.raises(DirectionError, match="'out' is an output, and the kernel reads it"):
            reading(torch.zeros(4), torch.zeros(4))
