"""`RunConfig(check_races=True)`: what is declared independent and is not, and outputs that stay partly unwritten."""

from __future__ import annotations

import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl

CHECK = pypto.RunConfig(check_races=True)


def line_of(kernel, offset: int) -> str:
    return f"{__file__}:{kernel.__wrapped__.__code__.co_firstlineno + offset}"


@pypto.jit
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, 4):
        tile = pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(4, rows - i), cols])
        pl.store(tile * 2.0, [i, 0], out)
    return out


def test_a_sound_kernel_computes_what_it_would(monkeypatch):
    x = torch.randn(10, 16)
    for result in (scale(x, config=CHECK), scale.interpret(x, config=CHECK)):
        assert torch.equal(result, x * 2)
    out = torch.empty(16, 10).T
    assert scale(x, out, config=CHECK) is out
    assert torch.equal(out, x * 2)
    array = x.numpy()
    assert numpy.array_equal(scale(array, config=CHECK), array * 2)
    # In place, as a call without the check has it.
    assert scale(x, x, config=CHECK) is x
    assert torch.equal(x, out * 1)


def test_two_iterations_write_the_same_elements():
    @pypto.jit
    def overlapping(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, 8, 2):
            tile = pl.load(x, [i, 0], [2, 16])
            pl.store(pl.concat(tile, tile), [0, 0], out)
        return out

    with pytest.raises(pypto.RaceError) as caught:
        overlapping(torch.randn(8, 16), torch.empty(2, 32), config=CHECK)
    error = caught.value
    assert error.message == (
        "the iterations of pl.parallel are not independent: iteration 0 writes what iteration 2 writes"
    )
    assert str(error.span).startswith(line_of(overlapping, 4))
    assert error.found == "elements [0, 0] to [1, 31] of 'out'"
    assert [note.rsplit(":", 1)[0] for note in error.notes] == [
        f"iteration 0 writes it at {line_of(overlapping, 4)}",
        f"iteration 2 writes it at {line_of(overlapping, 4)}",
        f"the loop is at {line_of(overlapping, 2)}",
    ]
    assert str(error).endswith(
        "  hint: store to different offsets of out in each iteration, add atomically, or use pl.range"
    )
    # Unchecked, and in order, the last iteration wins.
    x = torch.randn(8, 16)
    assert torch.equal(pypto.interpret(overlapping)(x, torch.empty(2, 32)), torch.cat([x[6:], x[6:]], 1))


def test_an_iteration_reads_what_another_one_writes():
    @pypto.jit
    def shifted(x: pl.InOut[pl.Tensor]):
        for i in pl.parallel(0, 7):
            pl.store(pl.load(x, [i + 1, 0], [1, 16]), [i, 0], x)
        return x

    with pytest.raises(pypto.RaceError) as caught:
        shifted(torch.randn(8, 16), config=CHECK)
    error = caught.value
    assert error.message == (
        "the iterations of pl.parallel are not independent: iteration 0 reads what iteration 1 writes"
    )
    assert error.found == "elements [1, 0] to [1, 15] of 'x'"
    assert str(error.span).startswith(line_of(shifted, 3))

    @pypto.jit
    def prefix(x: pl.InOut[pl.Tensor]):
        for i in pl.parallel(1, 8):
            above = pl.load(x, [i - 1, 4], [1, 4])
            pl.store(pl.load(x, [i, 4], [1, 4]) + above, [i, 4], x)
        return x

    with pytest.raises(pypto.RaceError, match="iteration 1 writes what iteration 2 reads") as caught:
        prefix(torch.randn(16, 8).T, config=CHECK)
    assert caught.value.found == "elements [1, 4] to [1, 7] of 'x'"
    assert str(caught.value.span).startswith(line_of(prefix, 3))


def test_a_third_iteration_is_found_behind_two_readers():
    @pypto.jit
    def kernel(x: pl.Tensor, total: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, 3):
            pl.store(pl.load(total, [0, 0], [1, 8]), [i, 0], out)
            if i == 2:
                pl.store(pl.load(x, [0, 0], [1, 8]), [0, 0], total)
        return out

    with pytest.raises(pypto.RaceError, match="iteration 0 reads what iteration 2 writes"):
        kernel(torch.randn(1, 8), torch.zeros(1, 8), torch.empty(3, 8), config=CHECK)


def test_one_iteration_may_read_and_write_as_it_likes():
    @pypto.jit
    def twice(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, 8, 2):
            for _ in pl.range(3):
                pl.store(pl.load(x, [i, 0], [2, 8]) + 1.0, [i, 0], x)
            pl.store(pl.load(x, [i, 0], [2, 8]), [0, i * 4], out)
        for i in pl.parallel(0, 8, 4):
            pl.store(pl.load(x, [i, 0], [4, 8]) + 1.0, [i, 0], x)
        return x, out

    x, out = twice(torch.zeros(8, 8), torch.empty(2, 32), config=CHECK)
    assert torch.equal(x, torch.full((8, 8), 4.0))
    assert torch.equal(out, torch.full((2, 32), 3.0))


def test_an_inner_loop_is_checked_in_each_turn_of_the_outer_one():
    @pypto.jit
    def nested(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(0, 4):
            for j in pl.parallel(0, 2):
                pl.store(pl.load(x, [i, j * 8], [1, 8]), [0, 0], out)
        return out

    with pytest.raises(pypto.RaceError, match="iteration 0 writes what iteration 1 writes"):
        nested(torch.randn(4, 16), torch.empty(1, 8), config=CHECK)


def test_tensors_that_share_memory_are_one():
    @pypto.jit
    def halves(low: pl.InOut[pl.Tensor], high: pl.InOut[pl.Tensor]):
        for i in pl.parallel(0, 4):
            pl.store(pl.load(low, [i, 0], [1, 8]), [i, 0], high)
            pl.store(pl.load(low, [i, 0], [1, 8]), [i, 0], low)
        return low, high

    buffer = torch.randn(5, 8)
    with pytest.raises(pypto.ArgumentError, match="are both written and share memory"):
        halves(buffer[:4], buffer[1:], config=CHECK)


def test_atomic_additions_may_meet():
    @pypto.jit
    def total(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        for i in pl.parallel(0, 8):
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], out, atomic=pl.AtomicType.Add)
        return out

    x = torch.arange(128.0).reshape(8, 16)
    assert torch.equal(total(x, torch.zeros(1, 16), config=CHECK), x.sum(0, keepdim=True))

    @pypto.jit
    def mixed(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        for i in pl.parallel(0, 8):
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], out, atomic=pl.AtomicType.Add)
            if i == 7:
                pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], out)
        return out

    with pytest.raises(pypto.RaceError, match="iteration 0 atomically adds to what iteration 7 writes") as caught:
        mixed(x, torch.zeros(1, 16), config=CHECK)
    assert caught.value.hint == "add atomically in every iteration, or use pl.range"


def test_single_elements():
    @pypto.jit
    def histogram(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        for i in pl.parallel(0, 8):
            pl.write(out, [0, 0], pl.read(x, [0, i]))
        return out

    with pytest.raises(pypto.RaceError, match="iteration 0 writes what iteration 1 writes") as caught:
        histogram(torch.randn(1, 8), torch.zeros(1, 8), config=CHECK)
    assert caught.value.found == "element [0, 0] of 'out'"


def test_blocks_of_a_task():
    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], out)
        for block in pl.spmd(4):
            pl.store(pl.load(x, [block, 0], [1, 16]), [pl.max(block, 1), 0], out)
        return out

    with pytest.raises(pypto.RaceError) as caught:
        kernel(torch.randn(4, 16), torch.empty(4, 16), config=CHECK)
    assert caught.value.message == ("the iterations of pl.spmd are not independent: block 0 writes what block 1 writes")
    assert caught.value.found == "elements [1, 0] to [1, 15] of 'out'"


# Outputs


def test_an_output_that_stays_partly_unwritten():
    @pypto.jit
    def corner(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)
        return out

    with pytest.raises(pypto.DirectionError) as caught:
        corner(torch.randn(4, 8), torch.zeros(6, 8), config=CHECK)
    line = corner.__wrapped__.__code__.co_firstlineno
    assert str(caught.value) == (
        "[PYPTO-DIRECTION] the kernel leaves a part of its output 'out' unwritten\n"
        f"  --> {__file__}:{line}\n"
        f"  {' ' * len(str(line))} |\n"
        f"  {line} |     @pypto.jit\n"
        "  found:    16 of 48 elements unwritten, the first at [4, 0]\n"
        "  expected: a store to every element of 'out', shape [6, 8]\n"
        "  note: they lie within elements [4, 0] to [5, 7]: all of them\n"
        "  hint: write the rest too; or declare it out: pl.InOut[pl.Tensor], which keeps what it held"
    )
    # What it writes is written, as it would be without the check.
    x, out = torch.randn(4, 8), torch.zeros(6, 16)[:, ::2]
    with pytest.raises(pypto.DirectionError, match="the first at|leaves a part"):
        corner(x, out, config=CHECK)
    assert torch.equal(out[:4], x)


def test_an_inout_may_stay_partly_unwritten():
    @pypto.jit
    def corner(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)
        return out

    x = torch.randn(4, 8)
    assert torch.equal(corner(x, torch.zeros(6, 8), config=CHECK)[:4], x)


# Options


def test_where_it_cannot_be_honoured():
    x = torch.randn(10, 16)
    for refused in (lambda: scale.lower(x, config=CHECK), lambda: scale.compile(x)(x, config=CHECK)):
        with pytest.raises(pypto.OptionError, match="check_races|check for races"):
            refused()
    with pytest.raises(pypto.OptionError) as caught:
        scale.compile(x)(x, config=CHECK)
    assert str(caught.value) == (
        "[PYPTO-OPTION] a compiled program cannot check for races: what it was traced from is gone\n"
        "  found:    check_races=True\n"
        "  hint: call the kernel: scale(..., config=RunConfig(check_races=True))"
    )
    with pytest.raises(ValueError, match="check_races=1: True or False"):
        pypto.RunConfig(check_races=1)  # type: ignore[arg-type]
    with pytest.raises(pypto.LaunchError, match="no NPU runtime"):
        scale(x, config=pypto.RunConfig(check_races=True, platform="a2a3"))


def test_a_kernel_may_be_decorated_with_it():
    @pypto.jit(config=CHECK)
    def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for _ in pl.parallel(0, 2):
            pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)
        return out

    x = torch.randn(4, 8)
    for _ in range(2):
        with pytest.raises(pypto.RaceError):
            wrong(x)
    assert torch.equal(wrong(x, config=pypto.RunConfig()), x)
