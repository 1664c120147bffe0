"""``x[...]`` of tensors in memory and of computed ones, read and written, against NumPy."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import BoundsError, ShapeError, TraceError
from tests.language.everywhere import check

BOTH = ("compiled", "interpreted")


class _Taken:
    """Keeps what it is subscripted with."""

    def __getitem__(self, subscripts):
        return subscripts


TAKE = _Taken()
PARTS = {
    "last": TAKE[-1],
    "range": TAKE[2:5],
    "dots": TAKE[..., 3],
    "from the end": TAKE[:, -3:-1],
    "every second": TAKE[::2],
    "steps": TAKE[1::3, ::2],
    "steps along rows": TAKE[:, :, 1::4],
    "new first": TAKE[None],
    "new between": TAKE[:, None],
    "new last": TAKE[..., None],
    "all kinds": TAKE[2, None, -9:9:2, ..., 3],
    "backwards": TAKE[::-1],
    "backwards between": TAKE[:, ::-1],
    "backwards along rows": TAKE[:, :, ::-1],
    "backwards in steps": TAKE[::-2, 1:9:3, ::-3],
    "beyond the end": TAKE[5:100],
    "before the start": TAKE[-100:3],
    "one element": TAKE[-1, ..., -1:],
}
X = torch.randn(7, 10, 12, generator=torch.Generator().manual_seed(0))


def _by_numpy(x, part):
    return torch.from_numpy(numpy.ascontiguousarray(x.numpy()[part]))


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read(name):
    part = PARTS[name]

    @pypto.jit
    def kernel(x, alone, used, computed):
        alone[:] = x[part]
        used[:] = x[part] * 2.0 - 1.0
        computed[:] = (x + 1.0)[part]

    expected = _by_numpy(X, part)
    outs = [torch.zeros_like(expected) for _ in range(3)]
    check(kernel, X, *outs, ways=BOTH, alone=expected, used=expected * 2 - 1, computed=_by_numpy(X + 1, part))


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read_by_the_assembly(name, platform):
    part = PARTS[name]

    @pypto.jit
    def kernel(x, out):
        out[:] = x[part]

    expected = _by_numpy(X, part)
    out = torch.zeros_like(expected)
    text = kernel.lower(X, out, config=pypto.RunConfig(platform=platform))["pto"]
    pypto.compile(text, platform=platform)(X, out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_written(name):
    part = PARTS[name]

    @pypto.jit
    def kernel(x, y, out: pl.InOut[pl.Tensor], number: pl.InOut[pl.Tensor]):
        out[part] = y * 2.0
        number[part] = 3.0

    y = -_by_numpy(X, part)
    out, number = X.numpy().copy(), X.numpy().copy()
    out[part], number[part] = y.numpy() * 2, 3
    check(kernel, X, y, X, X, ways=BOTH, out=torch.from_numpy(out), number=torch.from_numpy(number))


def test_what_is_written_backwards_broadcasts():
    @pypto.jit
    def kernel(x, y, out: pl.InOut[pl.Tensor]):
        out[::-1, 2, ::-2] = y
        out[::-1, 3] = x[0, 0]

    y, expected = torch.arange(6.0), X.clone()
    expected[:, 2, 1::2] = y.flip(0)
    expected[:, 3] = X[0, 0]
    check(kernel, X, y, X, ways=BOTH, out=expected)


def test_a_tensor_is_turned_around_in_place():
    @pypto.jit
    def kernel(x: pl.InOut[pl.Tensor]):
        x[:] = x[::-1]
        x[:, 1:] = x[:, :-1]

    expected = X.flip(0)
    expected[:, 1:] = expected[:, :-1].clone()
    check(kernel, X, ways=BOTH, x=expected)


def test_a_part_that_depends_on_a_loop():
    @pypto.jit
    def kernel(x, out: pl.InOut[pl.Tensor]):
        for i in pl.range(2):
            out[i, :] = x[i * 2 : i * 2 + 4 : 3, -1, ::-1].sum(0)

    expected = torch.stack([X[i * 2, -1].flip(0) + X[i * 2 + 3, -1].flip(0) for i in range(2)])
    check(kernel, X, torch.zeros(2, 12), ways=BOTH, out=expected)


def test_tiles_of_parts():
    @pypto.jit
    def kernel(x, out):
        t = pl.load(x[1::2, None, ::3], [0, 0, 0, 0], [3, 1, 4, 12])
        out[::2] = pl.reshape(t, [12, 12]) + 1.0

    expected = torch.zeros(24, 12)
    expected[::2] = X[1::2, ::3].reshape(12, 12) + 1
    check(kernel, X, torch.zeros(24, 12), out=expected)


def test_parts_in_a_task():
    @pypto.jit
    def kernel(x, out):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, ::2] = x[::-1, -4:, 1::2].max(-1) + x[::-1, 0, :4]

    expected = torch.zeros(7, 8)
    expected[:, ::2] = X.flip(0)[:, -4:, 1::2].amax(-1) + X.flip(0)[:, 0, :4]
    check(kernel, X, torch.zeros(7, 8), ways=("compiled", "interpreted", "trace"), out=expected)


def test_single_elements_count_from_the_end():
    @pypto.jit
    def kernel(x, out: pl.InOut[pl.Tensor]):
        out[-1] = x[-7, -1, 2] + 1.0
        out[0] = x[-1, -1, -1]

    expected = torch.tensor([X[-1, -1, -1], 0, X[0, -1, 2] + 1])
    check(kernel, X, torch.zeros(3), ways=BOTH, out=expected)


@pytest.mark.parametrize(
    ("part", "kind", "message", "found"),
    [
        (TAKE[7], BoundsError, "a subscript leaves 'x'", "7 in dimension 0"),
        (TAKE[0, -11], BoundsError, "a subscript leaves 'x'", "-11 in dimension 1"),
        (TAKE[::0], TraceError, "the step of a slice is zero", "None:None:0"),
        (TAKE[..., 0, ...], TraceError, "a subscript has one ... at most", "2 of them"),
        (TAKE[0, 0, 0, 0], ShapeError, "more subscripts than dimensions", "4 of a tensor with 3"),
        (TAKE[True], TraceError, "a tensor is subscripted with integers, slices, ... and None", "True"),
        (TAKE[[0, 1]], TraceError, "a tensor is subscripted with integers, slices, ... and None", "[0, 1]"),
        (TAKE[0.5:2], TraceError, "a slice takes integers", "float 0.5"),
        (TAKE[::"a"], TraceError, "the step of a slice takes integers", "str 'a'"),
    ],
)
def test_wrong_subscripts(part, kind, message, found):
    def kernel(x):
        return x[part] + 1.0

    with pytest.raises(kind) as caught:
        pypto.jit(kernel)(X)
    assert (caught.value.message, caught.value.found) == (message, found)
    assert caught.value.span is not None
    assert caught.value.span.line == kernel.__code__.co_firstlineno + 1


def test_a_mask_is_no_subscript():
    def kernel(x):
        return x[x > 0.0]

    with pytest.raises(TraceError) as caught:
        pypto.jit(kernel)(X)
    assert caught.value.hint == "pl.where(mask, x, y) chooses by a mask"


def test_a_tile_is_not_written_backwards():
    def kernel(x, out):
        out[::-1] = pl.load(x, [0, 0], [4, 8])

    with pytest.raises(TraceError) as caught:
        pypto.jit(kernel)(torch.zeros(4, 8), torch.zeros(4, 8))
    assert caught.value.message == "a tile is not written backwards"


@pypto.jit
def backwards(x: pl.Tensor):
    return x[..., ::-1]


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int32, torch.int64], ids=str)
def test_rows_backwards_of_any_dtype(dtype, platform):
    for shape in ((5, 97), (2, 9, 7), (33, 1)):
        x = torch.randint(-99, 99, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
        found = backwards(x, config=pypto.RunConfig(platform=platform))
        assert torch.equal(found, x.flip(-1))
        assert torch.equal(backwards.interpret(x), x.flip(-1))


@pypto.jit
def before_it_is_written(x: pl.InOut[pl.Tensor]):
    backwards, forwards = x[0::-3], x[0:1]
    x[:] = x + 1.0
    return backwards, forwards


def test_what_runs_backwards_is_a_copy_even_of_one_element():
    for run in (before_it_is_written, before_it_is_written.interpret):
        backwards, forwards = run(torch.arange(12.0).reshape(3, 4))
        assert backwards.tolist() == [[0, 1, 2, 3]]
        assert forwards.tolist() == [[1, 2, 3, 4]]
