"""Views of tensors: parts and other forms, without a copy, in every way a kernel can be run."""

from __future__ import annotations

import inspect

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import BoundsError, DirectionError, ShapeError, TraceError
from tests.language.everywhere import check
from tests.tracing import lines, spec


def _numbers(*shape):
    count = 1
    for extent in shape:
        count *= extent
    return torch.arange(count, dtype=torch.float32).reshape(shape)


def test_slices_move_the_box():
    @pypto.jit
    def kernel(x, out):
        for k in pl.range(4):
            rows = x[k * 16 : (k + 1) * 16, 8:24]
            inner = rows[4:12]
            pl.store(pl.load(inner, [2, 4], [4, 8]), [0, 8], out[k * 4 : k * 4 + 4])

    x, expected = _numbers(64, 32), torch.zeros(16, 16)
    for k in range(4):
        expected[4 * k : 4 * k + 4, 8:] = x[16 * k + 6 : 16 * k + 10, 12:20]
    check(kernel, x, torch.zeros(16, 16), out=expected)


def test_an_integer_drops_its_dimension():
    @pypto.jit
    def kernel(x, out):
        for k in pl.range(3):
            pl.store(pl.load(x[k], [0, 0], [4, 8]), [0, 0], out[k, 1])
            pl.store(pl.load(x[k, 2], [0], [8]), [0], out[k, 0, 3])

    x, expected = _numbers(3, 4, 8), torch.zeros(3, 2, 4, 8)
    expected[:, 1] = x
    expected[:, 0, 3] = x[:, 2]
    check(kernel, x, torch.zeros(3, 2, 4, 8), out=expected)


def test_the_last_dimension_may_be_dropped():
    @pypto.jit
    def kernel(x, out):
        pl.store(pl.load(x[:, :, 5], [1, 0], [2, 8]), [0, 0], out[:, 2, :])

    x, expected = _numbers(4, 8, 16), torch.zeros(2, 4, 8)
    expected[:, 2] = x[1:3, :, 5]
    check(kernel, x, torch.zeros(2, 4, 8), out=expected)


def test_a_transposed_tensor_is_loaded_and_stored():
    @pypto.jit
    def kernel(x, out):
        turned = pl.transpose(x, 0, 1)
        pl.store(pl.load(turned[8:16], [0, 0], [8, 16]) + 1.0, [0, 0], out)
        pl.store(pl.load(x, [0, 0], [16, 8]), [0, 0], pl.transpose(out, -1, 0)[:, 8:16])

    x, expected = _numbers(16, 24), torch.zeros(16, 16)
    expected[:8] = x.T[8:16] + 1
    expected[8:] = x[:, :8].T
    check(kernel, x, torch.zeros(16, 16), out=expected)


def test_a_tensor_in_another_shape():
    @pypto.jit
    def kernel(x, out):
        flat = pl.reshape(x[4:12], [2, 4, 16])
        for k in pl.range(2):
            pl.store(pl.load(flat[k], [1, 0], [2, 16]), [k, 0, 0], pl.reshape(out, [2, 2, 16]))

    x = _numbers(16, 16)
    expected = x[4:12].reshape(2, 4, 16)[:, 1:3].reshape(2, 32).clone()
    check(kernel, x, torch.zeros(2, 32), out=expected)


def test_the_valid_shape_of_a_slice_is_that_of_its_loads():
    @pypto.jit
    def kernel(x, count, out):
        for k in pl.range(3):
            part = pl.slice(x, [8, 16], [k * 8, 0], clamp=True)
            pl.store(pl.load(part, [0, 0], [8, 16]) + 1.0, [k * 8, 0], out)
        few = pl.slice(x, [8, 16], [0, 0], valid_shape=[count[0], 16])
        pl.store(pl.load(few, [1, 0], [4, 16]), [0, 0], out)

    x, expected = _numbers(20, 16), _numbers(20, 16) + 1
    expected[:2] = x[1:3]
    check(kernel, x, torch.tensor([3]), torch.zeros(20, 16), out=expected)


def test_single_elements_of_views():
    @pypto.jit
    def kernel(x, out):
        turned = pl.transpose(x, 0, 1)
        flat = pl.reshape(x, [64])
        for k in pl.range(4):
            out[k, 0] = turned[k, 1]
            pl.write(out[k], [1], pl.read(flat, [k * 9]))
            out[k, 2] = x[2:4][1, k]

    x, expected = _numbers(8, 8), torch.zeros(4, 8)
    for k in range(4):
        expected[k, :3] = torch.stack([x[1, k], x.flatten()[9 * k], x[3, k]])
    check(kernel, x, torch.zeros(4, 8), out=expected)


def test_views_inside_and_outside_of_tasks():
    @pypto.jit
    def kernel(x, table, out):
        for k in pl.range(4):
            page = x[table[k]]
            with pl.at(name_hint="page"):
                pl.store(pl.load(page, [0, 0], [4, 16]) * 2.0, [k * 4, 0], out)
        with pl.spmd(2):
            row = out[pl.get_block_idx() * 8 : pl.get_block_idx() * 8 + 8]
            pl.store(pl.load(row, [0, 0], [8, 16]) + 1.0, [0, 0], row)

    x, table = _numbers(5, 4, 16), torch.tensor([4, 0, 3, 3])
    check(
        kernel, x, table, torch.zeros(16, 16), ways=("compiled", "interpreted", "trace"),
        out=x[table].reshape(16, 16) * 2 + 1,
    )  # fmt: skip


def test_a_tile_is_assigned_to_a_part():
    @pypto.jit
    def kernel(x, out):
        tile = pl.load(x, [0, 0], [4, 16])
        out[4:8, :] = tile + 1.0
        out[0:4] = tile

    check(kernel, _numbers(4, 16), torch.zeros(8, 16), out=torch.cat([_numbers(4, 16), _numbers(4, 16) + 1]))


def test_what_a_view_writes_its_tensor_does():
    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(out, [0, 0], [4, 16]), [0, 0], x[4:8])

    with pytest.raises(DirectionError, match="'x' is an input, and the kernel writes it"):
        kernel(_numbers(8, 16), torch.zeros(4, 16))


def test_a_slice_that_leaves_its_tensor_is_found_when_it_runs():
    @pypto.jit
    def kernel(x, at, out):
        pl.store(pl.load(x[at[0]], [0, 0], [4, 16]), [0, 0], out)

    for way in (kernel, kernel.interpret):
        with pytest.raises(BoundsError):
            way(_numbers(3, 4, 16), torch.tensor([3]), torch.zeros(4, 16))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda x: x[0:4:0], TraceError, "the step of a slice is zero"),
        (lambda x: x["a"], TraceError, "subscripted with integers, slices, ... and None"),
        (lambda x: x[-17, 0:4], BoundsError, "a subscript leaves 'x'"),
        (lambda x: pl.slice(x, [17, 16], [0, 0]), BoundsError, "a slice leaves 'x'"),
        (lambda x: x[16], BoundsError, "a subscript leaves 'x'"),
        (lambda x: x[0:1, 0:1, 0:1], ShapeError, "more subscripts than dimensions"),
        (lambda x: pl.slice(x, [4], [0, 0]), ShapeError, "one extent and one offset for each dimension"),
        (lambda x: pl.slice(x, [4, 4], [0, 0], [5, 4]), ShapeError, "a valid shape lies in its slice"),
        (lambda x: pl.slice(x, [4, 4], [0, 0], [4]), ShapeError, "valid_shape has one extent per dimension"),
        (lambda x: pl.slice(x, [4, 4], [0, 0], drop_dims=[0]), ShapeError, "only a dimension of extent 1"),
        (lambda x: pl.slice(x, [4, 4], [0, 0], pad_value=0), TraceError, "is not padded"),
        (lambda x: pl.slice(x, [4, 4], [13, 0]), BoundsError, "clamp=True"),
        (lambda x: pl.reshape(x, [3, 5]), ShapeError, "reshape keeps the number of elements"),
        (lambda x: pl.reshape(x, [-1, -1]), ShapeError, "works out one extent"),
        (lambda x: pl.reshape(x, [-1, 3]), ShapeError, "works out one extent"),
        (lambda x: pl.reshape(x, [-2, 3]), ShapeError, "an extent is negative"),
        (lambda x: x.view(4, "a"), TraceError, "the shape of reshape takes integers"),
        (lambda x: pl.transpose(x, 0, 2), ShapeError, "transpose swaps two dimensions"),
        (lambda x: pl.view(3), TraceError, "pl.view takes a tensor"),
        (lambda x: pl.view(x, layout="NZ"), TraceError, "a view keeps the layout"),
    ],
)
def test_what_is_wrong_is_said(wrong, error, message):
    def kernel(x, out):
        wrong(x)
        pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

    with pytest.raises(error) as raised:
        lines(kernel, spec(16, 16), spec(16, 16))
    assert message in str(raised.value)


@pypto.jit
def last_rows(x: pl.Tensor, at: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    for k in pl.range(1, 5):
        pl.store(pl.load(x[0:k], [k - at, 0], [1, 16]), [k - 1, 0], out)


def test_a_slice_may_end_where_a_loop_says():
    x = torch.randn(4, 16)
    assert torch.equal(last_rows(x, 1, torch.zeros(4, 16)), x)
    with pytest.raises(BoundsError) as raised:
        last_rows(x, 0, torch.zeros(4, 16))
    assert "a load reads outside of its tensor" in str(raised.value)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16], ids=str)
def test_a_slice_from_a_position_in_memory(dtype):
    @pypto.jit
    def kernel(x, at, out):
        for k in pl.range(3):
            p = pl.read(at, [k])
            out[:, p : p + 2] = x[2 * p + 1 : 2 * p + 3].T + 1.0

    x, at = _numbers(20, 6), torch.tensor([3, 0, 7], dtype=dtype)
    expected = torch.zeros(6, 9)
    for p in at.tolist():
        expected[:, p : p + 2] = x[2 * p + 1 : 2 * p + 3].T + 1
    check(kernel, x, at, torch.zeros(6, 9), out=expected)
    with pytest.raises(BoundsError, match="a slice leaves its tensor"):
        kernel(x, at + 1, torch.zeros(6, 9))


def test_a_box_that_leaves_its_slice_is_found_at_its_line():
    first = inspect.currentframe().f_lineno + 4

    @pypto.jit
    def kernel(x, at, out):
        part = pl.slice(x, [4, 16], [at[0], 0])
        pl.store(pl.load(part, [at[1], 0], [2, 16]), [at[2], 0], out[0:4])

    x = _numbers(16, 16)
    expected = torch.zeros(16, 16)
    expected[2:4] = x[7:9]
    check(kernel, x, torch.tensor([5, 2, 2]), torch.zeros(16, 16), ways=("compiled", "interpreted", "trace"),
          out=expected)  # fmt: skip
    # Each is inside of the tensor.
    for at, line in (([13, 0, 0], 0), ([-1, 1, 0], 0), ([4, 3, 0], 1), ([4, -1, 0], 1), ([4, 0, 3], 1)):
        for way in (kernel, kernel.interpret):
            out = torch.zeros(16, 16)
            with pytest.raises(BoundsError) as raised:
                way(x, torch.tensor(at), out)
            assert raised.value.span.line == first + line
            # What a failed check is about is not moved.
            assert torch.equal(out[4:], torch.zeros(12, 16))


def test_an_element_beyond_its_slice_or_shape_is_none():
    @pypto.jit
    def kernel(x, at, out):
        out[0, 0] = x[4:8][at[0], 1]
        pl.write(pl.reshape(out, [4, 64]), [at[1], at[2]], 2.0)

    for at in ([4, 0, 0], [-1, 0, 0], [0, 1, 64], [0, 0, -1]):
        for way in (kernel, kernel.interpret):
            with pytest.raises(BoundsError):
                way(_numbers(16, 16), torch.tensor(at), torch.zeros(16, 16))


def test_a_box_that_is_certain_to_stay_in_its_slice_is_not_checked():
    @pypto.jit
    def kernel(x, out):
        for k in pl.range(4):
            rows = x[k * 4 : k * 4 + 4]
            for j in pl.range(2):
                pl.store(pl.load(rows, [j * 2, 0], [2, 16]), [j * 2, 0], out[k * 4 : k * 4 + 4])

    lowered = kernel.lower(_numbers(16, 16), torch.zeros(16, 16))
    assert "within" not in lowered["views"]
    check(kernel, _numbers(16, 16), torch.zeros(16, 16), out=_numbers(16, 16))


def test_the_assembly_has_no_checks():
    @pypto.jit
    def kernel(x, at, out):
        pl.store(pl.load(pl.slice(x, [4, 16], [at[0], 0]), [at[1], 0], [2, 16]), [0, 0], out)

    lowered = kernel.lower(_numbers(16, 16), torch.tensor([1, 1]), torch.zeros(2, 16))
    assert "pto.within" in lowered["plan"]
    assert "within" not in lowered["pto"]


def test_a_store_to_a_slice_knows_how_large_its_tile_is():
    @pypto.jit
    def kernel(x, at, out):
        part = pl.slice(out, [4, 16], [at[0], 0])
        pl.store(pl.load(x, [0, 0], [4, 16], valid_shape=[at[1], 16]), [at[2], 0], part)

    x, expected = _numbers(16, 16), torch.zeros(16, 16)
    expected[4:6] = x[:2]
    check(kernel, x, torch.tensor([2, 2, 2]), torch.zeros(16, 16), ways=("compiled", "interpreted", "trace"),
          out=expected)  # fmt: skip
    for way in (kernel, kernel.interpret):
        with pytest.raises(BoundsError):
            way(x, torch.tensor([2, 3, 2]), torch.zeros(16, 16))
