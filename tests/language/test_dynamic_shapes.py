"""Tensors whose extents are only known when the kernel runs."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, DecoratorError
from tests.language.everywhere import WAYS, check

M = pl.dynamic("M")
N = pl.dynamic("N")


@pypto.jit
def affine(x: pl.Tensor[[M, 64], pl.FP32], out: pl.Out[pl.Tensor[[M, 64], pl.FP32]]):
    """2 x + 1, sixteen rows at a time."""
    rows = x.shape[0]
    for i in pl.range(0, rows, 16):
        t = pl.load(x, [i, 0], [16, 64], valid_shape=[pl.min(16, rows - i), 64])
        pl.store(t * 2.0 + 1.0, [i, 0], out)


@pypto.jit
def add(a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    """a + b in ragged tiles, block by block."""
    rows, columns = pl.dim(a, 0), pl.tensor.dim(a, -1)
    for i in pl.parallel(0, rows, 8):
        for j in pl.range(0, columns, 32):
            valid = [pl.min(8, rows - i), pl.min(32, columns - j)]
            left = pl.load(a, [i, j], [8, 32], valid_shape=valid)
            right = pl.load(b, [i, j], [8, 32], valid_shape=valid)
            pl.store(left + right, [i, j], out)


def numbered(*shape: int) -> torch.Tensor:
    return torch.arange(int(numpy.prod(shape)), dtype=torch.float32).reshape(shape)


def test_one_program_serves_fifty_extents():
    affine.cache_clear()
    for rows in range(50):
        x = numbered(rows, 64)
        out = torch.full((rows, 64), -1.0)
        for _ in range(2):
            affine(x, out)
            assert torch.equal(out, 2 * x + 1)
            assert torch.equal(affine(x), 2 * x + 1)
    info = affine.cache_info()
    assert (info.misses, info.size) == (1, 1)


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (5, 0), (8, 32), (9, 33), (30, 100), (257, 3)])
def test_two_dynamic_extents(shape):
    a, b = numbered(*shape), numbered(*shape) * 3 + 1
    check(add, a, b, torch.zeros(shape), out=a + b)


def test_numpy_allocates_outputs_by_name():
    a = numbered(7, 40).numpy()
    for _ in range(2):
        result = add(a, a)
        assert isinstance(result, numpy.ndarray)
        numpy.testing.assert_array_equal(result, 2 * a)


def test_layouts():
    add.cache_clear()
    wide = numbered(20, 100)
    whole, part, turned = numbered(20, 30), wide[:, 5:35], numbered(30, 20).t()
    for a in (whole, part, turned):
        for _ in range(2):
            assert torch.equal(add(a, whole), a + whole)
    # Rows of any pitch are one specialization, columns of any pitch another.
    assert add.cache_info().misses == 2
    row = wide[:1, :30]
    assert torch.equal(add(row, row), 2 * row)
    assert torch.equal(add(wide[:, :1], wide[:, 1:2]), wide[:, :1] + wide[:, 1:2])
    assert add.cache_info().misses == 2


def test_rows_of_a_known_width_that_are_apart():
    affine.cache_clear()
    wide = numbered(20, 100)
    for rows in (20, 1, 0, 7):
        x = wide[:rows, :64]
        assert torch.equal(affine(x), 2 * x + 1)
    # One row has no pitch, and counts as contiguous.
    assert affine.cache_info().misses == 2


def test_an_output_that_is_the_input():
    for rows in (3, 50):
        x = numbered(rows, 64)
        expected = 2 * x + 1
        affine(x, x)
        assert torch.equal(x, expected)


def test_an_output_that_overlaps_the_input():
    memory = numbered(40, 64)
    x, out = memory[:30], memory[3:33]
    expected = 2 * x.clone() + 1
    affine(x, out)
    assert torch.equal(out, expected)


def test_names_stand_for_one_extent():
    for call in (affine, affine.interpret, affine.compile()):
        with pytest.raises(ArgumentError) as error:
            call(numbered(3, 64), numbered(4, 64))
        assert "'M' stands for two extents in this call" in str(error.value)
        assert "found:    x.shape[0] = 3 and out.shape[0] = 4" in str(error.value)
        assert "expected: 3 as dimension 0 of 'out', which is M" in str(error.value)
    affine(numbered(3, 64), numbered(3, 64))
    with pytest.raises(ArgumentError, match="'M' stands for two extents"):
        affine(numbered(3, 64), numbered(4, 64))


def test_other_extents_are_fixed():
    with pytest.raises(ArgumentError, match="'x' has another shape than declared") as error:
        affine(numbered(3, 32))
    assert "[M, 32]" in str(error.value)
    assert "[M, 64]" in str(error.value)
    with pytest.raises(ArgumentError, match="'x' has another rank than declared"):
        affine(numbered(3, 4, 64))


@pypto.jit
def halves(x: pl.Tensor[[M * 2, 8], pl.FP32], shifted: pl.Out[pl.Tensor[[M + 1, 8], pl.FP32]]):
    """Sums of neighbouring rows; the last row holds zeros."""
    count = x.shape[0] // 2
    for i in pl.range(count):
        pl.store(pl.load(x, [2 * i, 0], [1, 8]) + pl.load(x, [2 * i + 1, 0], [1, 8]), [i, 0], shifted)
    pl.store(pl.full([1, 8], pl.FP32, 0.0), [count, 0], shifted)


def test_composite_extents():
    halves.cache_clear()
    for pairs in (0, 1, 5):
        x = numbered(2 * pairs, 8)
        expected = torch.cat([x[0::2] + x[1::2], torch.zeros(1, 8)])
        assert torch.equal(halves(x), expected)
        check(halves, x, torch.ones(pairs + 1, 8), shifted=expected)
    assert halves.cache_info().misses == 1
    with pytest.raises(ArgumentError, match="dimension 0 of 'x' is no M"):
        halves(numbered(3, 8))
    with pytest.raises(ArgumentError, match="'M' stands for two extents"):
        halves(numbered(4, 8), numbered(4, 8))


def test_an_extent_that_only_an_omitted_output_has():
    @pypto.jit
    def fill(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
        pl.store(pl.load(x, [0, 0], [1, 8]), [0, 0], out)

    with pytest.raises(ArgumentError, match="'out' is left out, and no tensor of the call tells its extent N"):
        fill(numbered(2, 8))
    out = torch.zeros(3, 8)
    fill(numbered(2, 8), out)
    assert torch.equal(out[0], numbered(2, 8)[0])


def test_what_is_no_dimension():
    with pytest.raises(DecoratorError, match=r"pl.dynamic\(...\) takes a name"):
        pl.dynamic("two words")
    with pytest.raises(DecoratorError, match="a positive multiple of one name") as error:
        M * N
    assert "M * N" in str(error.value)
    with pytest.raises(DecoratorError, match=r"the shape of pl.Tile\[...\] is known while compiling"):
        pl.Tile[[M, 8], pl.FP32]
    assert repr((M * 2 + 1, 3 - 2 + M, M - 1)) == "(M * 2 + 1, M + 1, M - 1)"


def test_a_tile_of_a_dynamic_shape():
    @pypto.jit
    def whole(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
        pl.store(pl.load(x, [0, 0], [x.shape[0], 8]), [0, 0], out)

    with pytest.raises(pypto.errors.ShapeError, match="static") as error:
        whole(numbered(2, 8))
    assert "valid_shape" in str(error.value)


def test_boxes_are_checked_against_the_extents_of_the_call():
    @pypto.jit
    def first(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)

    assert torch.equal(first(numbered(6, 8)), numbered(6, 8)[:4])
    for call in (first, first.interpret):
        with pytest.raises(pypto.errors.BoundsError):
            call(numbered(3, 8))


def test_expanded_tensors():
    column = numbered(1, 64)
    for rows in (5, 40):
        assert torch.equal(affine(column.expand(rows, 64)), 2 * column.expand(rows, 64) + 1)
    with pytest.raises(ArgumentError, match="several of its elements share memory"):
        affine(numbered(5, 64), column.expand(5, 64))


@pytest.mark.parametrize("way", WAYS)
def test_ragged_sums(way):
    @pypto.jit
    def total(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, 1], pl.FP32]]):
        rows, columns = x.shape
        for i in pl.range(0, rows, 4):
            height = pl.min(4, rows - i)
            sums = pl.set_validshape(pl.full([4, 1], pl.FP32, 0.0), height, 1)
            for j in pl.range(-(-columns // 16)):
                width = pl.min(16, columns - 16 * j)
                t = pl.load(x, [i, 16 * j], [4, 16], valid_shape=[height, width])
                sums = sums + pl.row_sum(t)
            pl.store(sums, [i, 0], out)

    x = (numbered(6, 35) % 7) - 3
    check(total, x, torch.ones(6, 1), ways=(way,), out=x.sum(1, keepdim=True))


@pypto.jit
def bound(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
    """x + y, row by row; the shapes of x and y are bound in the body."""
    x.bind_dynamic(0, M)
    y.bind_dynamic(0, M)
    for i in pl.range(x.shape[0]):
        pl.store(pl.load(x, [i, 0], [1, 16]) + pl.load(y, [i, 0], [1, 16]), [i, 0], out)


def test_binding_in_the_body():
    bound.cache_clear()
    for rows in range(50):
        x = numbered(rows, 16)
        assert torch.equal(bound(x, x), 2 * x)
        assert torch.equal(bound.interpret(x, x), 2 * x)
    assert bound.cache_info().misses == 1
    for call in (bound, bound.interpret):
        with pytest.raises(ArgumentError, match="'M' stands for two extents"):
            call(numbered(3, 16), numbered(4, 16))
    program = bound.compile(numbered(3, 16), numbered(3, 16))
    assert torch.equal(program(numbered(9, 16), numbered(9, 16)), 2 * numbered(9, 16))
    assert bound.cache_info().misses == 1
    # Another width is another kernel, and known to have any number of rows.
    with pytest.raises(pypto.errors.BoundsError):
        bound(numbered(3, 15), numbered(3, 15))


def test_names_in_a_called_kernel_are_those_of_its_caller():
    @pypto.jit
    def double(x: pl.Tensor, out: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
        x.bind_dynamic(0, N)
        for i in pl.range(x.shape[0]):
            pl.store(pl.load(x, [i, 0], [1, 16]) * 2.0, [i, 0], out)
        return out

    @pypto.jit
    def outer(x: pl.Tensor, out: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
        double(x, out)
        return out

    for rows in (4, 9, 0):
        assert torch.equal(outer(numbered(rows, 16)), numbered(rows, 16) * 2)
    assert outer.cache_info().misses == 1


def test_what_cannot_be_bound():
    @pypto.jit
    def kernel(x: pl.Tensor, axis: pl.constexpr, name: pl.constexpr, out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
        x.bind_dynamic(0, M)
        x.bind_dynamic(axis, N if name == "N" else name)
        pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], out)

    x = numbered(3, 16)
    with pytest.raises(pypto.errors.TraceError, match="dimension 0 of 'x' has two names") as error:
        kernel(x, -2, "N")
    assert "M and N" in str(error.value)
    with pytest.raises(pypto.errors.TraceError, match="bind_dynamic takes a name"):
        kernel(x, 1, "rows")
    with pytest.raises(pypto.errors.ShapeError, match="'x' has no dimension 2"):
        kernel(x, 2, "N")


def test_a_second_process_finds_the_program(tmp_path):
    import os
    import subprocess
    import sys

    source = tmp_path / "kernel.py"
    source.write_text(
        "import sys, torch, pypto_jit as pypto, pypto_jit.language as pl\n"
        "M = pl.dynamic('M')\n"
        "@pypto.jit\n"
        "def f(x: pl.Tensor, out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):\n"
        "    x.bind_dynamic(0, M)\n"
        "    for i in pl.range(x.shape[0]):\n"
        "        pl.store(pl.load(x, [i, 0], [1, 16]) + 1.0, [i, 0], out)\n"
        "x = torch.rand(int(sys.argv[1]), 16)\n"
        "assert torch.equal(f(x), x + 1)\n"
        "print('pypto_jit._mlir' in sys.modules, 'load' in f.compile(x).timings)\n"
    )
    environment = {**os.environ, "PYPTO_JIT_CACHE": "1", "PYPTO_JIT_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, str(source), rows], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for rows in ("3", "3", "8")
    ]
    # The third has to trace once to see that the extent is bound.
    assert said == [["True", "False"], ["False", "True"], ["True", "True"]]


@pypto.jit
def two_tasks(x: pl.Tensor[[M, 64], pl.FP32], out: pl.Out[pl.Tensor[[M, 64], pl.FP32]]):
    rows = x.shape[0]
    middle = pl.create_tensor([rows, 64], pl.FP32)
    with pl.spmd(-(-rows // 16)):
        i = pl.get_block_idx() * 16
        t = pl.load(x, [i, 0], [16, 64], valid_shape=[pl.min(16, rows - i), 64])
        pl.store(t * 2.0, [i, 0], middle)
    for i in pl.range(0, rows, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(middle, [i, 0], [8, 64], valid_shape=[pl.min(8, rows - i), 64])
            pl.store(t + 1.0, [i, 0], out)


def test_tasks_of_any_extent():
    two_tasks.cache_clear()
    for rows in (0, 1, 16, 33, 500):
        x = numbered(rows, 64)
        assert torch.equal(two_tasks(x), 2 * x + 1)
        assert torch.equal(two_tasks.interpret(x), 2 * x + 1)
    assert two_tasks.cache_info().misses == 1
    for platform in ("a2a3sim", "a5sim"):
        assembly = two_tasks.lower(config=pypto.options.RunConfig(platform=platform))["pto"]
        assert "!pto.tensor_view<?x64xf32>" in assembly


def test_transposed_views():
    @pypto.jit
    def turned(x: pl.Tensor[[M, 8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, M, 16], pl.FP32]]):
        t = pl.transpose(x, 0, 1)
        for i in pl.range(x.shape[0]):
            pl.store(pl.load(t, [0, i, 0], [8, 1, 16]), [0, i, 0], out)

    for rows in (0, 1, 7):
        x = numbered(rows, 8, 16)
        assert torch.equal(turned(x), x.transpose(0, 1))
