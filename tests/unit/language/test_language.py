"""What ``import pypto_jit.language as pl`` gives, and that it costs neither MLIR nor LLVM."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pypto_jit.dtypes
import pypto_jit.language as pl
from pypto_jit.errors import DecoratorError
from pypto_jit.targets import Space


def test_importing_it_imports_no_compiler():
    code = (
        "import sys, pypto_jit.language\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mlir', 'llvmlite', 'torch_mlir')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names():
    for dtype in pypto_jit.dtypes.ALL:
        assert getattr(pl, dtype.name) is dtype
    assert [getattr(pl.Mem, space.name.capitalize()) for space in Space] == list(Space)
    assert pl.MemorySpace is pl.Mem
    assert all(getattr(pl, name) is not None for name in pl.__all__)


def test_the_decorator_is_the_packages():
    import pypto_jit

    assert pl.jit is pypto_jit.jit


def test_an_unknown_name_suggests_one():
    with pytest.raises(AttributeError, match="pypto_jit.language has no 'row_summ'; did you mean pl.row_sum"):
        pl.row_summ  # noqa: B018
    with pytest.raises(AttributeError, match="pl.tile has no operator 'nothing'"):
        pl.tile.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pl.Tensor[[1, 2]], r"pl.Tensor\[...\] takes a shape and a dtype"),
        (lambda: pl.Tensor[5, pl.FP32], "is a list of extents"),
        (lambda: pl.Tensor[[1.5], pl.FP32], "are integers"),
        (lambda: pl.Tensor[[-1], pl.FP32], "is negative"),
        (lambda: pl.Tensor[[1], pl.INDEX], "unknown dtype"),
        (lambda: pl.Tensor[[1], pl.FP32, "nd"], "layouts are the compiler's"),
        (lambda: pl.Tile[[1, 2], pl.FP32, 5], "takes a shape, a dtype and a memory"),
        (lambda: pl.Scalar[int], "takes a dtype"),
        (lambda: pl.Out[pl.constexpr], r"pl.Out\[...\] takes a tensor"),
        (lambda: pl.InOut[pl.Out[pl.Tensor]], r"pl.InOut\[...\] takes a tensor"),
    ],
)
def test_annotations_that_make_no_sense(make, message):
    with pytest.raises(DecoratorError) as caught:
        make()
    import re

    assert re.search(message, str(caught.value))


def test_annotations_read_as_written():
    assert repr(pl.Tensor[[1, 2], pl.FP32]) == "pl.Tensor[[1, 2], pl.FP32]"
    assert repr(pl.constexpr) == "pl.constexpr"
    assert pl.Tile[[1, 2], pl.FP32, pl.Mem.Mat].space is Space.MAT
