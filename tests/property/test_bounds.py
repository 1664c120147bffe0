"""A box that leaves its tensor while a kernel runs is an error at its line, in compiled code as in the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.errors import BoundsError
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3
from tests.module_text import ModuleText, Value
from tests.property.compiled import CompiledModule
from tests.property.running import interpreted


@dataclass(frozen=True)
class Copy:
    """A loop that copies boxes; offsets and extents are linear in its index, and may go wrong."""

    turns: int
    tensors: tuple[tuple[int, int], tuple[int, int]]
    tile: tuple[int, int]
    offsets: tuple[tuple[int, int], ...]
    extents: tuple[tuple[int, int], ...]

    def module(self) -> ModuleText:
        text = ModuleText()
        x, out = (text.tensor(shape, FP32) for shape in self.tensors)
        with text.loop(self.turns) as loop:

            def linear(base: int, slope: int) -> Value | int:
                if slope == 0:
                    return base
                return text.arith("addi", text.arith("muli", loop.index, text.constant(slope)), text.constant(base))

            tile = text.load(x, [linear(*o) for o in self.offsets[:2]], self.tile, [linear(*e) for e in self.extents])
            text.lines[-1] += ' loc("kernel.py":1:1)'
            text.store(tile, out, [linear(*o) for o in self.offsets[2:]])
            text.lines[-1] += ' loc("kernel.py":2:1)'
        return text


@st.composite
def copies(draw: Any) -> Copy:
    shapes = st.tuples(st.integers(1, 9), st.integers(1, 20))
    # The machine has no column whose one element is not valid.
    tile = draw(st.tuples(st.integers(1, 9), st.integers(2, 20)))
    offsets = st.tuples(st.integers(-1, 6), st.sampled_from([0, 0, 1, 2, -1]))
    slopes = st.sampled_from([0, 0, 0, 1, -1])
    extents = tuple((draw(st.integers(0, extent)), draw(slopes)) for extent in tile)
    return Copy(
        draw(st.integers(1, 3)),
        (draw(shapes), draw(shapes)),
        tile,
        tuple(draw(st.tuples(offsets, offsets, offsets, offsets))),
        extents,
    )


@given(copy=copies())
def test_violations_are_found_where_the_interpreter_finds_them(copy):
    arrays = [
        numpy.arange(shape[0] * shape[1], dtype=numpy.float32).reshape(shape) + 100 * k
        for k, shape in enumerate(copy.tensors)
    ]
    with borrowed_context():
        module = ir.Module.parse(str(copy.module()))
        try:
            expected = interpreted(module, arrays)
        except BoundsError:
            expected = None
        compiled = CompiledModule(module, A2A3)
    result = compiled(arrays)
    if expected is not None:
        assert compiled.violation is None
        numpy.testing.assert_array_equal(result[1], expected[1])
    else:
        assert compiled.violation is not None
        span = compiled.violation[0]
        assert span is not None
        # Of several violations it need not be the first that is reported.
        assert (span.filename, span.line) in {("kernel.py", 1), ("kernel.py", 2)}
