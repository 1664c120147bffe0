"""Kernels that call kernels and helpers, in every form that a call takes in Python."""

from __future__ import annotations

import functools
import re
import types

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl

SHAPE = [16, 32]


@pytest.fixture
def a() -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def b() -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(2))


def whole(x):
    return pl.load(x, [0, 0], SHAPE)


@pl.jit.incore
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(whole(a) + whole(b), [0, 0], out)
    return out


@pl.jit.incore(level="AIV")
def add_silently(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(whole(a) + whole(b), [0, 0], out)


@pl.jit.incore
def sum_and_difference(a: pl.Tensor, b: pl.Tensor, high: pl.Out[pl.Tensor], low: pl.Out[pl.Tensor]):
    pl.store(whole(a) + whole(b), [0, 0], high)
    pl.store(whole(a) - whole(b), [0, 0], low)
    return high, low


@pl.jit.inline(auto_scope=False)
def doubled(tile):
    return tile + tile


@pl.jit.opaque
def add_twice(a: pl.Tensor, b: pl.Tensor, out: pl.InOut[pl.Tensor]):
    out = add(a, b, out)
    out = add(a, b, out)
    return out


# Kinds of functions


def test_an_entry_calls_a_kernel(a, b):
    @pypto.jit(auto_scope=False)
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = add(a, b, out)
        return out

    assert torch.equal(main(a, b), a + b)
    assert torch.equal(main(a, b, torch.empty(SHAPE)), a + b)
    assert torch.equal(pypto.interpret(main)(a, b), a + b)


def test_a_call_is_a_task_named_after_the_kernel(a, b):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        between = pl.create_tensor(SHAPE, pl.FP32)
        between = add(a, b, between)
        with pl.at(level=pl.Level.CORE_GROUP):
            # Within a task, a call is part of it.
            sum_and_difference(between, b, out, between)
        return add(between, b, out)

    assert torch.equal(main(a, b), a + b - b + b)
    assert torch.equal(pypto.interpret(main)(a, b), a + b - b + b)
    names = re.findall(r"func.func @(\w+)", main.lower(a, b)["outline"])
    assert sum("add" in name for name in names) == 2
    assert len(names) == 4


def test_an_output_that_is_left_out_is_a_workspace(a, b):
    @pl.jit.incore
    def declared(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        pl.store(whole(a) * whole(b), [0, 0], out)

    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        product = declared(a, b)
        return add(product, declared(product, b), out)

    torch.testing.assert_close(main(a, b), a * b + a * b * b)

    @pypto.jit
    def undeclared(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        return add(add(a, b), b, out)

    with pytest.raises(pypto.ArgumentError, match=r"add\(\) misses 'out', whose shape is not declared"):
        undeclared(a, b)


def test_a_task_returns_no_tiles(a):
    @pl.jit.incore
    def loaded(x: pl.Tensor):
        return whole(x)

    @pypto.jit
    def main(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(loaded(x), [0, 0], out)

    with pytest.raises(pypto.TraceError, match=r"loaded\(\) returns what only exists on chip"):
        main(a)


def test_a_kernel_in_a_submit_and_in_blocks(a, b):
    @pl.jit.incore
    def rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        block = pl.get_block_idx()
        pl.store(pl.load(x, [block * 4, 0], [4, 32]) * 2.0, [block * 4, 0], out)
        return out

    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.InOut[pl.Tensor], other: pl.Out[pl.Tensor]):
        tid, out = pl.submit(add, a, b, out)
        with pl.spmd(4, deps=[tid]) as _:
            other = rows(out, other)
        return out, other

    out, other = main(a, b, torch.zeros(SHAPE))
    assert torch.equal(out, a + b)
    assert torch.equal(other, (a + b) * 2)


def test_a_kernel_is_a_kernel_of_its_own(a, b):
    out = torch.empty(SHAPE)
    assert add(a, b, out) is out
    assert torch.equal(out, a + b)
    assert torch.equal(add(a, b), a + b)


def test_a_call_returns_what_is_written_where_the_text_returns_nothing(a, b):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        return add_silently(a, b, out)

    assert torch.equal(main(a, b), a + b)


def test_several_results(a, b):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, high: pl.Out[pl.Tensor], low: pl.Out[pl.Tensor]):
        low, high = sum_and_difference(a, b, low, high)
        return high, low

    high, low = main(a, b)
    assert torch.equal(high, a - b)
    assert torch.equal(low, a + b)


def test_inline_and_opaque(a, b):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(doubled(whole(a)), [0, 0], out)
        return out

    assert torch.equal(main(a, b), a + a)

    @pypto.jit
    def outer(a: pl.Tensor, b: pl.Tensor, out: pl.InOut[pl.Tensor]):
        return add_twice(a, b, out)

    assert torch.equal(outer(a, b, torch.zeros(SHAPE)), a + b)


def test_a_kernel_within_a_kernel_is_part_of_it(a, b):
    @pl.jit.incore
    def outer(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        return add(a, b, out)

    assert torch.equal(outer(a, b), a + b)
    assert list(re.findall(r"func.func @(\w+)", outer.compile(a, b).pto)) == ["outer"]


def test_the_kinds_are_found_under_every_name():
    assert pypto.jit.incore == pl.jit.incore
    assert pl.inline == pl.jit.inline
    for kind in (pl.jit, pl.jit.incore, pl.jit.inline, pl.jit.opaque, pl.jit.host):
        assert kind()(whole).__name__ == "whole"


# Every way to find a function


def test_functions_in_attributes_containers_and_partials(a, b):
    module = types.SimpleNamespace(kernels=[add, sum_and_difference], by_name={"add": add})
    left = functools.partial(add, out=None)

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, tile):
            for _ in pl.range(2):
                tile = tile * self.factor
            return tile

        def __call__(self, tile):
            return self.apply(tile)

    scale = Scale(2.0)
    double = lambda tile: tile * 2.0  # noqa: E731

    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], other: pl.Out[pl.Tensor], third: pl.Out[pl.Tensor]):
        module.kernels[0](a, b, out)
        module.by_name["add"](a, out=other, b=b)
        left.func(a, b, third)
        pl.store(scale(scale.apply(double(whole(a)))), [0, 0], out)
        return out, other, third

    out, other, third = main(a, b)
    assert torch.equal(out, a * 32)
    assert torch.equal(other, a + b)
    assert torch.equal(third, a + b)


def test_a_partial_of_a_kernel_called_through_map(a, b):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], other: pl.Out[pl.Tensor]):
        return list(map(functools.partial(add, a, b), [out, other]))

    for result in main(a, b):
        assert torch.equal(result, a + b)


def test_variadic_keyword_and_default_arguments(a, b):
    def total(*tiles, scale=1.0, **named):
        result = tiles[0]
        for tile in (*tiles[1:], *named.values()):
            result = result + tile
        return result * scale, len(tiles) + len(named)

    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], times: int = 2):
        tiles = [whole(a), whole(b)]
        both, count = total(*tiles, scale=float(times), more=tiles[0])
        assert count == 3
        pl.store(both, [0, 0], out)
        return out

    torch.testing.assert_close(main(a, b), (a + b + a) * 2)
    torch.testing.assert_close(main(a, b, times=3), (a + b + a) * 3)


def test_each_call_signature_is_traced_for_itself(b):
    @pl.jit.incore
    def rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in range(x.shape[0]):
            pl.store(pl.load(x, [i, 0], [1, x.shape[1]]) * 2.0, [i, 0], out)
        return out

    @pypto.jit
    def main(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], other: pl.Out[pl.Tensor]):
        return rows(x, out), rows(y, other)

    x, y = torch.randn(4, 16), torch.randn(2, 64)
    first, second = main(x, y)
    assert torch.equal(first, x * 2)
    assert torch.equal(second, y * 2)


def test_a_changed_kernel_is_traced_again(a, b):
    scale = 2.0

    @pl.jit.incore
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(whole(x) * scale, [0, 0], out)

    @pypto.jit
    def main(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        return scaled(x, out)

    assert torch.equal(main(a), a * 2)
    scale = 4.0
    assert torch.equal(main(a), a * 4)


# Recursion


def test_a_recursion_that_python_values_end(a, b):
    def power(tile, n):
        return tile if n == 0 else power(tile, n - 1) * 2.0

    @pypto.jit
    def main(a: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(power(whole(a), a.shape[0]), [0, 0], out)
        return out

    assert torch.equal(main(a), a * 2**16)


def test_a_recursion_on_a_traced_value(a):
    def halve(tile, n):
        if n > 0:
            tile = again(tile, n - 1)
        return tile

    def again(tile, n):
        return halve(tile * 0.5, n)

    @pypto.jit
    def main(a: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            pl.store(halve(whole(a), i), [0, 0], out)
        return out

    with pytest.raises(pypto.TraceError) as caught:
        main(a)
    error = caught.value
    line = halve.__code__.co_firstlineno + 2
    assert error.message == "'halve' calls itself without end"
    assert error.span is not None
    assert error.span.line == line
    assert error.found == "halve -> again -> halve"
    assert error.notes[0] == f"'halve' calls on at {error.span}"
    # Python 3.10 knows no columns.
    assert error.notes[1].startswith(f"'again' calls on at {__file__}:{again.__code__.co_firstlineno + 1}")
    assert len(error.notes) == 2
    assert "both arms of an `if` on a traced value are recorded" in str(error)


def test_a_kernel_that_calls_itself(a):
    @pl.jit.incore
    def again(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(whole(x), [0, 0], out)
        return again(x, out)

    with pytest.raises(pypto.TraceError, match="'again' calls itself without end"):
        again(a)


# What is wrong with a call


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b, out: add(a, out=out), r"add\(\) misses 'b'"),
        (lambda a, b, out: add(a, b, out, a), r"add\(\): too many positional arguments"),
        (lambda a, b, out: add(a, b, to=out), r"add\(\): got an unexpected keyword argument 'to'"),
        (lambda a, b, out: add(a, 1.0, out), "'b' is a tensor"),
        (lambda a, b, out: add(whole(a), b, out), r"'a' of add\(\) is a tensor in global memory"),
    ],
)
def test_wrong_arguments(a, b, call, message):
    @pypto.jit
    def main(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        call(a, b, out)

    with pytest.raises(pypto.ArgumentError, match=message) as caught:
        main(a, b)
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__


def test_a_declared_shape_is_checked_at_the_call(a):
    @pl.jit.incore
    def narrow(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [8, 8]), [0, 0], out)

    @pypto.jit
    def main(a: pl.Tensor, out: pl.Out[pl.Tensor]):
        narrow(a, out)

    with pytest.raises(pypto.ArgumentError, match="'x' has another shape than declared") as caught:
        main(a)
    assert caught.value.span is not None
    assert caught.value.span.line == main.__wrapped__.__code__.co_firstlineno + 2


def test_directions_of_a_kernel_are_verified(a):
    @pl.jit.incore
    def writes_its_input(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(whole(x), [0, 0], out)
        pl.store(whole(x), [0, 0], x)

    @pl.jit.incore
    def reads_its_output(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(whole(x) + whole(out), [0, 0], out)

    @pl.jit.incore
    def writes_nothing(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        whole(x)

    for kernel, message in (
        (writes_its_input, r"'x' is an input of writes_its_input\(\), which writes it"),
        (reads_its_output, r"'out' is an output of reads_its_output\(\), which reads it"),
        (writes_nothing, r"writes_nothing\(\) never writes 'out'"),
    ):

        @pypto.jit
        def main(x: pl.InOut[pl.Tensor], out: pl.InOut[pl.Tensor]):
            pl.store(whole(x), [0, 0], out)
            pl.store(whole(out), [0, 0], x)
            kernel(x, out)  # noqa: B023

        with pytest.raises(pypto.DirectionError, match=message):
            main(a, torch.empty(SHAPE))


def test_an_output_that_is_rebound_in_a_kernel(a):
    @pl.jit.incore
    def rebinds(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = whole(x)
        return out

    @pypto.jit
    def main(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rebinds(x, out)

    with pytest.raises(pypto.DirectionError, match="'out = ...' binds the name") as caught:
        main(a)
    assert caught.value.span is not None
    assert caught.value.span.line == rebinds.__wrapped__.__code__.co_firstlineno + 2


# Decorators


@pytest.mark.parametrize(
    ("kind", "option"),
    [("jit", "level"), ("jit.incore", "auto_scope"), ("jit.opaque", "auto_scope"), ("jit.host", "level")],
)
def test_options_of_other_kinds(kind, option):
    decorator = functools.reduce(getattr, kind.split("."), pypto)
    with pytest.raises(pypto.DecoratorError, match=re.escape(f"@pypto.{kind} has no option '{option}'")) as caught:
        decorator(**{option: True})
    assert isinstance(caught.value, TypeError)


def test_wrong_options():
    with pytest.raises(pypto.DecoratorError) as caught:
        pl.jit.inline(auto_scop=True)
    assert str(caught.value) == (
        "[PYPTO-DECORATOR] @pypto.jit.inline has no option 'auto_scop'\n"
        "  expected: @pypto.jit.inline(config=..., auto_scope=...)\n"
        "  hint: did you mean 'auto_scope'?"
    )
    with pytest.raises(pypto.DecoratorError, match="is on or off"):
        pypto.jit(auto_scope=1)  # type: ignore[call-overload]
    with pytest.raises(pypto.DecoratorError, match="takes a RunConfig"):
        pl.jit.incore(config="a5")(whole)
