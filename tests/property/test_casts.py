"""Every conversion of every target in every rounding mode: all values of 16 bits, and hard ones of 32."""

from __future__ import annotations

import numpy
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import ROUND_MODES
from pypto_jit.dtypes import DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3, A5, Target
from tests.module_text import ModuleText
from tests.property.compiled import CompiledModule
from tests.property.running import interpreted

SHAPE = (64, 128)
PAIRS = [
    (target, source, goal)
    for target in (A2A3, A5)
    for source in target.casts
    for goal in sorted(target.casts[source], key=repr)
    if target is A2A3 or goal not in A2A3.casts[source]
]


def values(dtype: DType) -> numpy.ndarray:
    """As many values as eight tiles hold: all there are, or random bits and those near ties of other dtypes."""
    count = 8 * SHAPE[0] * SHAPE[1]
    if dtype.bits <= 16:
        return numpy.resize(numpy.arange(2**dtype.bits).astype(f"u{dtype.bytes}"), count).view(dtype.numpy)
    generator = numpy.random.default_rng(11)
    random = generator.integers(0, 2**32, count, numpy.uint32).view(dtype.numpy)
    if not dtype.is_float:
        random[: count // 2] = generator.integers(-70000, 70000, count // 2)
        return random
    part = count // 8
    random[:part] = generator.integers(-600, 600, part) / numpy.float32(2)
    random[part : 2 * part] = (generator.integers(0, 2**16, part).astype(numpy.uint32) << 16 | 0x8000).view(
        numpy.float32
    )
    halves = generator.integers(0, 2**15 - 2**10, part).astype(numpy.uint16)
    low, high = (bits.view(numpy.float16).astype(numpy.float32) for bits in (halves, halves + numpy.uint16(1)))
    random[2 * part : 3 * part] = numpy.where(numpy.isinf(high), low, (low + high) / 2)
    random[3 * part : 4 * part] = (generator.standard_normal(part) * 1000).astype(numpy.float32)
    return random


def kernel_text(target: Target, source: DType, goal: DType) -> ModuleText:
    """One output for each rounding mode."""
    text = ModuleText(target)
    tensor = (8 * SHAPE[0], SHAPE[1])
    x = text.tensor(tensor, source)
    outputs = [text.tensor(tensor, goal) for _ in ROUND_MODES]
    with text.loop(tensor[0], SHAPE[0], parallel=True) as loop:
        tile = text.load(x, [loop.index, 0], SHAPE)
        for mode, out in zip(ROUND_MODES, outputs, strict=True):
            text.store(text.operator("cast", tile, dtype=goal, mode=mode), out, [loop.index, 0])
    return text


def patterns(array: numpy.ndarray) -> numpy.ndarray:
    """The bits, so that zeros of different sign differ; all NaN are one."""
    plain = array.astype(numpy.float64)
    return numpy.where(numpy.isnan(plain), -1, array.view(f"u{array.itemsize}").astype(numpy.int64))


@pytest.mark.parametrize(("target", "source", "goal"), PAIRS, ids=lambda value: getattr(value, "name", None))
@numpy.errstate(invalid="ignore")
def test_casts_are_exact(target, source, goal):
    data = values(source).reshape(8 * SHAPE[0], SHAPE[1])
    arrays = [data, *(numpy.zeros(data.shape, goal.numpy) for _ in ROUND_MODES)]
    with borrowed_context():
        module = ir.Module.parse(str(kernel_text(target, source, goal)))
        expected = interpreted(module, arrays)
        kernel = CompiledModule(module, target)
    result = kernel(arrays)
    for mode, given, wanted in zip(ROUND_MODES, result[1:], expected[1:], strict=True):
        numpy.testing.assert_array_equal(patterns(given), patterns(wanted), f"{source} to {goal}, {mode}")
