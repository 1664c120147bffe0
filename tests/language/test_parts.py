"""Valid shapes that are set and filled, parts of tiles that are taken out and written in."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import AssemblyError, BoundsError, DTypeError, LayoutError, PyptoError, ShapeError, TraceError
from tests.asm.test_legality import faults
from tests.language.everywhere import check

X = torch.arange(160.0).reshape(8, 20) - 70
PADS = {"zero": 0.0, "max": float("inf"), "min": -float("inf")}
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8]


def limits(dtype: torch.dtype, pad: str) -> float:
    if dtype.is_floating_point or pad == "zero":
        return PADS[pad]
    return getattr(torch.iinfo(dtype), pad)


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fillpad_makes_everything_valid(dtype, pad):
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], [8, 20], valid_shape=[n[0], n[1]])
        pl.store(pl.fillpad(t, pl.PadValue[pad]), [0, 0], out)

    x = torch.arange(160).reshape(8, 20).remainder(100).to(dtype)
    for rows, columns in ((5, 13), (8, 20), (0, 0), (8, 1)):
        expected = torch.full((8, 20), limits(dtype, pad)).to(dtype)
        expected[:rows, :columns] = x[:rows, :columns]
        n = torch.tensor([rows, columns], dtype=torch.int32)
        check(kernel, x, n, torch.zeros(8, 20, dtype=dtype), out=expected)


def test_fillpad_before_a_reduction():
    @pypto.jit
    def kernel(x, n, out):
        t = pl.set_validshape(pl.load(x, [0, 0], [8, 20]), 8, n[0])
        pl.store(pl.row_max(pl.fillpad(t, pl.PadValue.min)), [0, 0], out)
        pl.store(pl.row_max(t), [0, 1], out)

    most = X[:, :7].max(1, keepdim=True).values
    check(kernel, X, torch.tensor([7], dtype=torch.int32), torch.zeros(8, 2), out=torch.cat([most, most], 1))


def test_fillpad_of_columns_and_of_other_ranks():
    @pypto.jit
    def kernel(x, y, n, out, other):
        v = pl.row_sum(pl.load(x, [0, 0], [8, 20], valid_shape=[n[0], 20]))
        pl.store(pl.fillpad(v, pl.PadValue.max), [0, 0], out)
        pl.store(pl.fillpad_expand(v, [12, 1], pl.PadValue.min), [0, 1], out)
        t = pl.load(y, [0, 0, 0], [4, 2, 8], valid_shape=[n[0] - 2, 2, 8])
        pl.store(pl.fillpad(t), [0, 0, 0], other)

    y = torch.arange(64.0).reshape(4, 2, 8)
    out = torch.zeros(12, 2)
    out[:8, 0] = float("inf")
    out[:, 1] = -float("inf")
    out[:5] = X[:5].sum(1, keepdim=True)
    other = y.clone()
    other[3] = 0
    n = torch.tensor([5], dtype=torch.int32)
    check(kernel, X, y, n, torch.zeros(12, 2), torch.ones_like(y), out=out, other=other)


def test_fillpad_into_a_larger_tile():
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], [4, 10], valid_shape=[n[0], 9])
        pl.store(pl.fillpad_expand(t, [8, 24], pl.PadValue.max), [0, 0], out)

    expected = torch.full((8, 24), float("inf"))
    expected[:3, :9] = X[:3, :9]
    check(kernel, X, torch.tensor([3], dtype=torch.int32), torch.zeros(8, 24), out=expected)


def test_a_valid_shape_that_shrinks_and_grows_back():
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], [8, 20])
        small = pl.set_validshape(t, n[0], n[1])
        pl.store(small * 2.0, [0, 0], out)
        pl.store(pl.set_validshape(small, 8, 20) + t, [8, 0], out)

    n = torch.tensor([3, 11], dtype=torch.int64)
    expected = torch.zeros(16, 20)
    expected[:3, :11] = 2 * X[:3, :11]
    expected[8:] = 2 * X
    check(kernel, X, n, torch.zeros(16, 20), out=expected)


@pytest.mark.parametrize("dtype", [t for t in DTYPES if t != torch.uint8], ids=str)
def test_slices(dtype):
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], [8, 20])
        pl.store(pl.slice(t, [4, 10], [2, 8]), [0, 0], out)
        pl.store(pl.slice(t, [4, 7], [n[0], n[1]]), [0, 10], out)
        pl.store(pl.slice(t, [4, 20], [n[0] + 3, 0], clamp=True), [4, 0], out)

    x = torch.arange(160).reshape(8, 20).remainder(100).to(dtype)
    expected = torch.zeros(8, 20, dtype=dtype)
    expected[:4, :10], expected[:4, 10:17], expected[4:6] = x[2:6, 8:18], x[3:7, 5:12], x[6:8]
    check(kernel, x, torch.tensor([3, 5], dtype=torch.int32), torch.zeros_like(x), out=expected)


def test_a_slice_of_a_partly_valid_tile_is_valid_where_the_tile_is():
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], [8, 20], valid_shape=[n[0], 15])
        part = pl.slice(t, [4, 8], [2, 10], pad_value=pl.PadValue.zero)
        pl.store(part, [0, 0], out)

    expected = torch.zeros(4, 8)
    expected[:3, :5] = X[2:5, 10:15]
    check(kernel, X, torch.tensor([5], dtype=torch.int32), torch.ones(4, 8), out=expected)


def test_columns_in_and_out_of_tiles():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [8, 20])
        column = pl.slice(t, [8, 1], [0, 19])
        half = pl.slice(column, [4, 1], [4, 0])
        column = pl.assemble(column, half * 2.0, [0, 0])
        row = pl.slice(t, [1, 20], [6, 0])
        t = pl.assemble(t, column, [0, 3])
        t = pl.assemble(t, row, [0, 0])
        t = pl.assemble(t, pl.slice(column, [1, 1], [5, 0]), [7, 7])
        pl.store(t, [0, 0], out)

    column = X[:, 19].clone()
    column[:4] = 2 * X[4:, 19]
    expected = X.clone()
    expected[:, 3] = column
    expected[0] = X[6]
    expected[7, 7] = column[5]
    check(kernel, X, torch.zeros(8, 20), out=expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "part", "place"),
    [((5, 37), (5, 9), (0, 3)), ((8, 32), (3, 16), (2, 5)), ((1, 40), (1, 7), (0, 9)), ((33, 20), (17, 5), (16, 15))],
    ids=str,
)
def test_parts_at_any_column(dtype, shape, part, place):
    @pypto.jit
    def kernel(x, n, out):
        t = pl.load(x, [0, 0], list(shape))
        known = pl.slice(t, list(part), list(place))
        pl.store(known, [0, 0], out)
        pl.store(pl.slice(t, list(part), [place[0], n[0]], valid_shape=[part[0], n[1]]), [part[0], 0], out)
        pl.store(pl.assemble(t, known, [0, n[0]]), [2 * part[0], 0], out)

    x = torch.arange(shape[0] * shape[1]).remainder(100).reshape(shape).to(dtype)
    (rows, columns), (top, left) = part, place
    at, width = 11, columns - 2
    expected = torch.zeros(2 * rows + shape[0], shape[1], dtype=dtype)
    expected[:rows, :columns] = x[top : top + rows, left : left + columns]
    expected[rows : 2 * rows, :width] = x[top : top + rows, at : at + width]
    expected[2 * rows :] = x
    expected[2 * rows : 3 * rows, at : at + columns] = expected[:rows, :columns]
    n = torch.tensor([at, width], dtype=torch.int32)
    check(kernel, x, n, torch.zeros_like(expected), out=expected)
    for target in ("a2a3", "a5"):
        text = kernel.lower(x, n, torch.zeros_like(expected), config=pypto.RunConfig(platform=f"{target}sim"))["pto"]
        assert list(faults(text, target)) == []
        # The newer machine moves parts by any number of elements.
        assert ("ttrans" in text) == (target == "a2a3")


def test_assemble_in_a_loop():
    @pypto.jit
    def kernel(x, out):
        whole = pl.full([8, 20], pl.FP32, 0.0)
        for i in pl.range(0, 4):
            part = pl.load(x, [2 * i, 0], [2, 20])
            whole = pl.assemble(whole, part + part, [6 - 2 * i, 0])
        pl.store(whole, [0, 0], out)

    expected = 2 * X.reshape(4, 2, 20).flip(0).reshape(8, 20)
    check(kernel, X, torch.zeros(8, 20), out=expected)


def test_assemble_leaves_its_target_as_it_was():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [8, 20])
        u = pl.assemble(t, pl.slice(t, [2, 8], [0, 0]), [4, 8])
        pl.store(t + u, [0, 0], out)

    after = X.clone()
    after[4:6, 8:16] = X[:2, :8]
    check(kernel, X, torch.zeros(8, 20), out=X + after)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8], ids=str)
def test_parts_of_mat_tiles_are_operands(dtype):
    @pypto.jit
    def kernel(a, b, out):
        left = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        right = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        first = pl.extract(left, 0, 0, [32, 32], target_memory=pl.Mem.Left)
        acc = pl.matmul(first, pl.extract(right, 0, 0, [32, 32], target_memory=pl.Mem.Right))
        acc = pl.matmul_acc(
            acc, pl.slice(left, [32, 32], [0, 32]), pl.move(pl.slice(right, [32, 32], [32, 0]), pl.Mem.Right)
        )
        pl.store(acc, [0, 0], out)

    a = torch.randint(-3, 4, (32, 64)).to(dtype)
    b = torch.randint(-3, 4, (64, 32)).to(dtype)
    result = torch.int32 if dtype == torch.int8 else torch.float32
    expected = (a.double() @ b.double()).to(result)
    check(kernel, a, b, torch.zeros(32, 32, dtype=result), out=expected)
    assert kernel.lower(a, b, torch.zeros(32, 32, dtype=result))["pto"].count("pto.textract") == 4


@pytest.mark.parametrize(("row", "column", "prints"), [(16, 32, True), (0, 16, False)])
def test_parts_of_mat_tiles_are_whole_fractals(row, column, prints):
    @pypto.jit
    def kernel(a, b, out):
        left = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        right = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        part = pl.extract(left, row, column, [16, 32], target_memory=pl.Mem.Left)
        pl.store(pl.matmul(part, right), [0, 0], out)

    a = torch.randint(-3, 4, (32, 64)).to(torch.int8)
    b = torch.randint(-3, 4, (32, 32)).to(torch.int8)
    expected = (a[row : row + 16, column : column + 32].double() @ b.double()).int()
    out = torch.zeros(16, 32, dtype=torch.int32)
    check(kernel, a, b, out, ways=("compiled", "interpreted", "trace"), out=expected)
    if prints:
        assert "pto.textract" in kernel.lower(a, b, out)["pto"]
        return
    with pytest.raises(AssemblyError, match="INT8 in Mat starts at a multiple of 16 rows and 32 columns") as caught:
        kernel.lower(a, b, out)["pto"]
    assert caught.value.span is not None
    assert "pl.extract" in caught.value.span.excerpt()


def test_accumulators_are_written_into_mat():
    @pypto.jit
    def kernel(a, b, out):
        left = pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        staged = pl.create_tile([16, 64], pl.BF16, target_memory=pl.Mem.Mat)
        for k in pl.range(0, 4):
            right = pl.load(b, [0, k * 16], [32, 16], target_memory=pl.Mem.Mat)
            staged = pl.assemble(staged, pl.matmul(left, right), [0, k * 16])
        square = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(staged, pl.transpose_view(square)), [0, 0], out)

    a = torch.randint(-2, 3, (16, 32)).bfloat16()
    b = torch.randint(-2, 3, (32, 64)).bfloat16()
    staged = (a.float() @ b.float()).bfloat16().float()
    check(kernel, a, b, torch.zeros(16, 32), out=staged @ b.float().T)


def test_a_clamped_load():
    @pypto.jit
    def kernel(x, n, out):
        for i in pl.range(0, 9, 4):
            t = pl.load(x, [i, n[0]], [4, 20], clamp=True)
            pl.store(t, [i, 0], out)

    expected = torch.zeros(12, 20)
    expected[:8, :15] = X[:, 5:]
    check(kernel, X, torch.tensor([5], dtype=torch.int32), torch.zeros(12, 20), out=expected)


@pypto.jit
def set_too_large(n, x, out):
    pl.store(pl.set_validshape(pl.load(x, [0, 0], [8, 20]), 8, n[0]) * 2.0, [0, 0], out)


@pypto.jit
def slice_outside(n, x, out):
    pl.store(pl.slice(pl.load(x, [0, 0], [8, 20]), [4, 8], [0, n[0]]), [0, 0], out)


@pypto.jit
def slice_of_too_much(n, x, out):
    pl.store(pl.slice(pl.load(x, [0, 0], [8, 20]), [4, 8], [0, 0], valid_shape=[4, n[0]]), [0, 0], out)


@pypto.jit
def assemble_outside(n, x, out):
    t = pl.load(x, [0, 0], [8, 20])
    pl.store(pl.assemble(t, pl.slice(t, [2, 8], [0, 0]), [0, n[0]]), [0, 0], out)


@pytest.mark.parametrize("way", ["compiled", "interpret"])
@pytest.mark.parametrize("number", [21, -1])
@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (set_too_large, "the valid shape does not lie in its tile"),
        (slice_outside, "a part of a tile leaves its valid region"),
        (slice_of_too_much, "a part of a tile"),
        (assemble_outside, "a tile is written outside of the valid region of another"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_boxes_that_are_only_known_when_the_kernel_runs_are_checked(way, number, kernel, what):
    run = kernel if way == "compiled" else kernel.interpret
    with pytest.raises(BoundsError, match=what) as caught:
        run(torch.tensor([number], dtype=torch.int32), X, torch.zeros(8, 20))
    assert caught.value.span.filename == __file__


def in_mat(x):
    return pl.load(x, [0, 0], [8, 20], target_memory=pl.Mem.Mat)


@pytest.mark.parametrize(
    ("error", "message", "body"),
    [
        (BoundsError, "the box of slice leaves", lambda x, t: pl.slice(t, [4, 8], [5, 0])),
        (BoundsError, "the box of slice leaves", lambda x, t: pl.slice(t, [4, 8], [-1, 0])),
        (ShapeError, "a part of a tile is no larger than it", lambda x, t: pl.slice(t, [9, 8], [0, 0], [1, 1])),
        (ShapeError, "one entry per dimension of the tile", lambda x, t: pl.slice(t, [8], [0, 0])),
        (ShapeError, "the shape of slice is static", lambda x, t: pl.slice(t, [pl.read(t, [0, 0]), 1], [0, 0])),
        (TraceError, "slice drops no dimensions", lambda x, t: pl.slice(t, [1, 8], [0, 0], drop_dims=[0])),
        (TraceError, "fillpad takes a pad value", lambda x, t: pl.fillpad(t, pl.PadValue.null)),
        (TraceError, "fillpad takes a tile", lambda x, t: pl.fillpad(x)),
        (ShapeError, "at least the tile's shape", lambda x, t: pl.fillpad_expand(t, [4, 20])),
        (ShapeError, "does not lie in its tile", lambda x, t: pl.set_validshape(t, 9, 20)),
        (BoundsError, "assemble writes outside", lambda x, t: pl.assemble(t, pl.slice(t, [2, 8], [0, 0]), [7, 0])),
        (BoundsError, "assemble writes outside", lambda x, t: pl.assemble(pl.slice(t, [2, 8], [0, 0]), t, [0, 0])),
        (DTypeError, "assemble does not convert", lambda x, t: pl.assemble(t, pl.cast(t, pl.FP16), [0, 0])),
        (LayoutError, "is a multiple of 16", lambda x, t: pl.slice(in_mat(x), [4, 8], [0, 8])),
        (LayoutError, "does not go to", lambda x, t: pl.extract(t, 0, 0, [4, 8], target_memory=pl.Mem.Left)),
        (LayoutError, "fillpad fills tiles in Vec", lambda x, t: pl.fillpad(in_mat(x))),
    ],
)  # fmt: skip
def test_errors(error, message, body):
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x, [0, 0], [8, 20])
        body(x, t)
        pl.store(t, [0, 0], out)

    with pytest.raises(PyptoError, match=message) as caught:
        kernel(X, torch.zeros(8, 20))
    assert isinstance(caught.value, error)
    assert caught.value.span.filename == __file__


def test_an_fp32_part_of_mat_has_no_instruction_on_the_older_machine():
    @pypto.jit
    def kernel(a, out):
        left = pl.load(a, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
        staged = pl.assemble(
            pl.create_tile([16, 32], pl.FP32, target_memory=pl.Mem.Mat), pl.matmul(left, left), [0, 16]
        )
        pl.store(pl.matmul(left, staged), [0, 0], out)

    with pytest.raises(DTypeError, match="writes a part of a Mat tile in FP16 or BF16"):
        kernel(torch.zeros(16, 16), torch.zeros(16, 32))


def test_parts_of_tensors():
    @pypto.jit
    def kernel(x, out, total):
        t = pl.load(x, [0, 0], [4, 20])
        pl.assemble(out, t * 2.0, [4, 0])
        pl.assemble(total, t, [2, 0], atomic=pl.AtomicType.Add)

    out, total = torch.zeros(8, 20), torch.ones(8, 20)
    out[4:] = 2 * X[:4]
    total[2:6] += X[:4]
    check(kernel, X, torch.zeros(8, 20), torch.ones(8, 20), out=out, total=total)
