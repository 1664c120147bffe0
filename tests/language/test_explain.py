"""What ``f.explain(...)`` says of kernels, against figures worked out by hand."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ShapeError
from pypto_jit.targets import A5, KIB, Space

A5_CONFIG = pypto.RunConfig(platform="a5sim")


@pypto.jit
def product(x: pl.Tensor, w: pl.Tensor):
    return x @ w


@pypto.jit
def softmax(x: pl.Tensor):
    return pl.softmax(x)


@pypto.jit
def chain(x: pl.Tensor, b: pl.Tensor):
    y = x * 2.0 + b
    return pl.relu(y)


@pypto.jit
def layers(x: pl.Tensor, w: pl.Tensor, v: pl.Tensor):
    return (x @ w) @ v


@pypto.jit
def tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tile = pl.load(x, [0, 0], [16, 64])
    pl.store(tile + tile, [0, 0], out)


def test_a_product():
    found = product.explain(torch.zeros(512, 256), torch.zeros(256, 1024))
    (kernel,) = found.kernels
    # 4 x 4 blocks: each reads 128 rows of x and 256 columns of w, of 256 elements.
    assert kernel.tile == (128, 256, 32)
    assert kernel.blocks == 16
    assert kernel.read == 16 * (128 + 256) * 256 * 4
    assert kernel.written == 512 * 1024 * 4
    assert kernel.flops == 2 * 512 * 1024 * 256
    assert kernel.intensity == pytest.approx(268435456 / (6291456 + 2097152))
    assert kernel.on_chip == {
        # A piece of K is multiplied while the next one is loaded.
        Space.MAT: 2 * (128 + 256) * 32 * 4,
        Space.LEFT: 2 * 128 * 32 * 4,
        Space.RIGHT: 2 * 32 * 256 * 4,
        Space.ACC: 128 * 256 * 4,
    }
    assert [(name, span.line) for name, span in kernel.operations] == [("matmul", 18)]
    assert (kernel.workspace, kernel.why, found.tiles) == (0, "", {})


def test_a_softmax():
    (kernel,) = softmax.explain(torch.zeros(1024, 1000)).kernels
    assert [name for name, _ in kernel.operations] == ["max", "sub", "exp", "sum", "div"]
    assert kernel.tile == (8, 1000)
    assert kernel.blocks == 128
    assert (kernel.read, kernel.written) == (1024 * 1000 * 4, 1024 * 1000 * 4)
    assert kernel.flops == 5 * 1024 * 1000
    assert kernel.intensity == 0.625
    # The row, what is computed from it, and scratch: three tiles.
    assert kernel.on_chip == {Space.VEC: 3 * 8 * 1000 * 4}


def test_a_softmax_whose_rows_do_not_fit():
    (kernel,) = softmax.explain(torch.zeros(16, 100000)).kernels
    # One pass for the maximum, one for the sum, one for what is written.
    assert kernel.read == 3 * 16 * 100000 * 4
    assert kernel.written == 16 * 100000 * 4
    assert kernel.blocks == 16


def test_a_chain():
    found = chain.explain(torch.zeros(100, 64), torch.zeros(64))
    (kernel,) = found.kernels
    assert kernel.tile == (5, 64)
    # Every block of 5 rows reads b.
    assert kernel.blocks == 20
    assert kernel.read == (100 * 64 + 20 * 64) * 4
    assert kernel.written == 100 * 64 * 4
    assert kernel.flops == 3 * 100 * 64
    assert str(found) == (
        "'chain' on a2a3: 1 kernel\n"
        "chain: mul add (line 28), relu (line 29)\n"
        "  tiles: [5, 64]; blocks: 20\n"
        "  on chip: Vec 5 KiB of 184 KiB (3 %)\n"
        "  global memory: 30 KiB read, 25 KiB written; 19,200 FLOP; 0.34 FLOP/byte"
    )


def test_totals_and_reductions_walk_along_what_they_add_up():
    (kernel,) = pypto.jit(lambda x: pl.cumsum(x, 0)).explain(torch.zeros(100, 64)).kernels
    assert (kernel.blocks, kernel.flops, kernel.read, kernel.written) == (1, 6400, 25600, 25600)
    (kernel,) = pypto.jit(lambda x: pl.sum(x, 0)).explain(torch.zeros(100, 64)).kernels
    assert (kernel.blocks, kernel.flops, kernel.read, kernel.written) == (1, 6400, 25600, 256)


def test_a_workspace_says_why_it_is_there():
    found = layers.explain(torch.zeros(512, 256), torch.zeros(256, 1024), torch.zeros(1024, 64))
    first, second = found.kernels
    assert first.workspace == 512 * 1024 * 4
    assert first.why == "a matrix product takes it from memory"
    assert second.workspace == 0
    assert [kernel.name for kernel in found.kernels] == ["layers_0", "layers_1"]
    lines = str(found).splitlines()
    assert lines[0] == "'layers' on a2a3: 2 kernels, 1 workspace (2 MiB)"
    assert "  result in a workspace (2 MiB): a matrix product takes it from memory" in lines


def test_a_kernel_of_tiles_says_what_its_buffers_take():
    found = tiles.explain(torch.zeros(16, 64), torch.zeros(16, 64))
    assert found.kernels == ()
    # The sum takes the place of the tile.
    assert found.tiles == {"tiles": {Space.VEC: 16 * 64 * 4}}
    assert str(found).splitlines()[1:] == ["tiles: tiles as written", "  on chip: Vec 4 KiB of 184 KiB (2 %)"]


def test_of_the_other_machine():
    found = product.explain(torch.zeros(512, 256), torch.zeros(256, 1024), config=A5_CONFIG)
    assert found.target is A5
    assert "L0C 128 KiB of 256 KiB (50 %)" in str(found)
    assert A5.capacity[Space.ACC] == 256 * KIB


def test_a_mistake_is_an_error_of_the_kernel():
    with pytest.raises(ShapeError, match="the inner extents of a matrix product differ"):
        product.explain(torch.zeros(4, 5), torch.zeros(6, 7))


@pypto.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, mask: pl.Tensor):
    return pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125 + mask) @ v


def test_attention_is_one_kernel():
    heads = torch.zeros(2, 512, 64)
    (kernel,) = attention.explain(heads, heads, heads, torch.zeros(512, 512)).kernels
    rows, keys, depth = kernel.tile
    assert (depth, kernel.blocks) == (64, 2 * 512 // rows)
    # Each block reads its queries, all keys and values of its head, and its rows of the mask.
    assert kernel.read == kernel.blocks * (rows * 64 + 2 * 512 * 64 + rows * 512) * 4
    assert kernel.written == 2 * 512 * 64 * 4
    # Two products; the factor, the mask, and the five operations of a softmax, for each score.
    assert kernel.flops == 2 * 512 * 512 * (2 * 64 + 2 * 64 + 7)
    assert kernel.on_chip[Space.MAT] == (rows * 64 + 2 * keys * 64 + rows * keys) * 4
    assert kernel.on_chip[Space.ACC] == rows * (keys + 64) * 4


@pypto.jit
def much_after(x: pl.Tensor, w: pl.Tensor):
    return pl.gelu(x @ w)


def test_tiles_that_share_their_columns_are_one_block():
    (kernel,) = much_after.explain(torch.zeros(1024, 256), torch.zeros(256, 1024)).kernels
    rows, columns, depth = kernel.tile
    stack = kernel.on_chip[Space.ACC] // (rows * columns * 4)
    assert stack > 1
    assert kernel.blocks == (1024 // (stack * rows)) * (1024 // columns)
    assert kernel.read == kernel.blocks * (stack * rows + columns) * 256 * 4
    assert kernel.on_chip[Space.MAT] == 2 * (stack * rows + columns) * depth * 4


def test_sums_of_columns_are_shared_out():
    @pypto.jit
    def kernel(x: pl.Tensor):
        return x.sum(0)

    for columns, width in ((256, 256), (4096, 512), (65536, 8192)):
        (found,) = kernel.explain(torch.empty(64, columns)).kernels
        assert (found.tile[1], found.blocks) == (width, columns // width)
