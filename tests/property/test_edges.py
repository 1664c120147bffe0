"""Every elementwise operator on pairs of hard values: NaN, infinities, denormals, zeros of both signs, extremes."""

from __future__ import annotations

import itertools

import numpy
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import ROWS, Operator
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A5
from tests.module_text import ModuleText
from tests.property.checks import ULPS
from tests.property.compiled import CompiledModule
from tests.property.programs import APPROXIMATE
from tests.property.running import interpreted, ulp_distance

FINITE = (0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1e-3, 10.0, 88.0, 89.0, 104.0, 1e4, 65504.0, 65519.0, 1e30, 3.4028234e38)
TINY = (1e-45, 1.1754942e-38, 1.1754944e-38, 5.9604645e-08, 6.097555e-05, 6.1035156e-05, 1e-30)
WHOLE = (0, 1, 2, 3, 7, 100)


def values(dtype: DType) -> numpy.ndarray:
    """Each once, in both signs."""
    if not dtype.is_float:
        limits = numpy.iinfo(dtype.numpy)
        known = {sign * value for value in WHOLE for sign in (1, -1)}
        return numpy.array(sorted(known | {limits.min, limits.min + 1, limits.max - 1, limits.max}), dtype.numpy)
    with numpy.errstate(over="ignore"):
        positive = numpy.array([*FINITE, *TINY, numpy.inf, numpy.nan], numpy.float32).astype(dtype.numpy)
    return numpy.concatenate([positive, -positive])


def literal(value: float, dtype: DType) -> str:
    """A scalar constant by its bits, which NaN and infinities need."""
    if not dtype.is_float:
        return str(value)
    bits = numpy.array(value, dtype.numpy).view(f"u{dtype.bytes}")
    return f"0x{int(bits):0{2 * dtype.bytes}X}"


def rows(dtype: DType) -> list[Operator]:
    return [row for row in ROWS if row.rule == "elementwise" and dtype in row.dtypes["a5"]]


def kernel(dtype: DType) -> tuple[ModuleText, list[str], list[numpy.ndarray]]:
    """One kernel of all operators; what each output is; the arrays."""
    hard = values(dtype)
    pairs = [
        numpy.array(side).reshape(len(hard), len(hard)) for side in zip(*itertools.product(hard, hard), strict=True)
    ]
    text = ModuleText(A5)
    shape = pairs[0].shape
    tensors = [text.tensor(shape, dtype) for _ in pairs]
    tiles = [text.load(tensor, [0, 0], shape) for tensor in tensors]
    names, outputs = [], []

    def store(name: str, tile: object) -> None:
        names.append(name)
        outputs.append(numpy.zeros(shape, dtype.numpy))
        text.store(tile, text.tensor(shape, dtype), [0, 0])  # type: ignore[arg-type]

    for row in rows(dtype):
        kinds = [operand.kind for operand in row.operands]
        if kinds == ["tile", "scalar"]:
            for scalar in hard[:: max(1, len(hard) // 8)]:
                constant = text.constant(literal(scalar, dtype), dtype.signless)
                store(f"{row.name} {scalar}", text.operator(row.name, tiles[0], constant))
        else:
            store(row.name, text.operator(row.name, *tiles[: len(kinds)]))
    return text, names, [*(side.astype(dtype.numpy) for side in pairs), *outputs]


@numpy.errstate(invalid="ignore")
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT32, INT16, INT8], ids=repr)
def test_hard_values(dtype):
    text, names, arrays = kernel(dtype)
    with borrowed_context():
        module = ir.Module.parse(str(text))
        expected = interpreted(module, arrays)[2:]
        compiled = CompiledModule(module, A5)
    result = compiled(arrays)[2:]
    for name, given, wanted in zip(names, result, expected, strict=True):
        if name in APPROXIMATE:
            assert ulp_distance(given, wanted, dtype).max() <= ULPS[dtype.name], name
        elif dtype.is_float:
            number = ~numpy.isnan(wanted)
            numpy.testing.assert_array_equal(numpy.isnan(given), ~number, name)
            bits = f"u{dtype.bytes}"
            numpy.testing.assert_array_equal(given[number].view(bits), wanted[number].view(bits), name)
        else:
            numpy.testing.assert_array_equal(given, wanted, name)
