from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from pypto_jit.dialects.interpreter import scalars

NAN = numpy.float32(numpy.nan)


def integers(name: str, a: int, b: int, mlir: str = "index") -> int:
    return scalars.evaluate(name, [a, b], [mlir, mlir], mlir)


@pytest.mark.parametrize(
    ("name", "a", "b", "value"),
    [
        ("addi", 7, -3, 4),
        ("subi", 7, 9, -2),
        ("muli", -7, 3, -21),
        ("divsi", -7, 2, -3),
        ("divsi", 7, -2, -3),
        ("divsi", 7, 0, 0),
        ("remsi", -7, 2, -1),
        ("remsi", 7, -2, 1),
        ("floordivsi", -7, 2, -4),
        ("floordivsi", 7, 2, 3),
        ("ceildivsi", 7, 2, 4),
        ("ceildivsi", -7, 2, -3),
        ("minsi", 4, -2, -2),
        ("maxsi", 4, -2, 4),
        ("andi", 12, 10, 8),
        ("ori", 12, 10, 14),
        ("xori", 12, 10, 6),
        ("shli", 3, 4, 48),
        ("shrsi", -16, 2, -4),
    ],
)
def test_index_arithmetic(name, a, b, value):
    assert integers(name, a, b) == value


@pytest.mark.parametrize(
    ("name", "a", "b", "mlir", "value"),
    [
        ("addi", 127, 1, "i8", -128),
        ("muli", 300, 300, "i16", 24464),
        ("subi", -(2**31), 1, "i32", 2**31 - 1),
        ("divsi", -(2**31), -1, "i32", -(2**31)),
        ("addi", 1, 1, "i1", 0),
        ("addi", 2**63 - 1, 1, "index", -(2**63)),
    ],
)
def test_integers_wrap(name, a, b, mlir, value):
    assert integers(name, a, b, mlir) == value


@pytest.mark.parametrize(
    ("name", "operands", "value"),
    [
        ("addf", [1.5, 2.0], 3.5),
        ("subf", [1.5, 2.0], -0.5),
        ("mulf", [1.5, 2.0], 3.0),
        ("divf", [3.0, 2.0], 1.5),
        ("remf", [-7.0, 2.0], -1.0),
        ("maximumf", [1.5, 2.0], 2.0),
        ("minimumf", [1.5, 2.0], 1.5),
        ("maxnumf", [NAN, 2.0], 2.0),
        ("minnumf", [NAN, 2.0], 2.0),
        ("negf", [1.5], -1.5),
    ],
)
def test_float_arithmetic(name, operands, value):
    given = scalars.evaluate(name, [numpy.float32(x) for x in operands], ["f32"] * len(operands), "f32")
    assert given == value
    assert given.dtype == numpy.float32


def test_float_arithmetic_rounds_to_its_type():
    # 2049 has no FP16 representation; BF16 keeps eight significand bits.
    assert scalars.evaluate("addf", [numpy.float16(2048), numpy.float16(1)], ["f16"] * 2, "f16") == 2048
    assert scalars.evaluate("addf", [ml_dtypes.bfloat16(256), ml_dtypes.bfloat16(1)], ["bf16"] * 2, "bf16") == 256


def test_maximum_propagates_nan():
    assert numpy.isnan(scalars.evaluate("maximumf", [NAN, numpy.float32(1)], ["f32"] * 2, "f32"))


# MLIR's arith.cmpi predicates, with what they say of (-1, 1) as i8 (unsigned: 255 and 1).
@pytest.mark.parametrize(("predicate", "holds"), list(enumerate([0, 1, 1, 1, 0, 0, 0, 0, 1, 1])))
def test_integer_comparison(predicate, holds):
    assert scalars.evaluate("cmpi", [-1, 1], ["i8", "i8"], "i1", predicate) == holds


# MLIR's arith.cmpf predicates: false, oeq ogt oge olt ole one, ord, ueq ugt uge ult ule une, uno, true.
@pytest.mark.parametrize(
    ("predicate", "less", "equal", "greater", "unordered"),
    [
        (0, 0, 0, 0, 0),
        (1, 0, 1, 0, 0),
        (2, 0, 0, 1, 0),
        (3, 0, 1, 1, 0),
        (4, 1, 0, 0, 0),
        (5, 1, 1, 0, 0),
        (6, 1, 0, 1, 0),
        (7, 1, 1, 1, 0),
        (8, 0, 1, 0, 1),
        (9, 0, 0, 1, 1),
        (10, 0, 1, 1, 1),
        (11, 1, 0, 0, 1),
        (12, 1, 1, 0, 1),
        (13, 1, 0, 1, 1),
        (14, 0, 0, 0, 1),
        (15, 1, 1, 1, 1),
    ],
)
def test_float_comparison(predicate, less, equal, greater, unordered):
    one, two = numpy.float32(1), numpy.float32(2)
    pairs = [(one, two), (one, one), (two, one), (one, NAN)]
    given = [scalars.evaluate("cmpf", list(pair), ["f32", "f32"], "i1", predicate) for pair in pairs]
    assert given == [less, equal, greater, unordered]


@pytest.mark.parametrize(
    ("name", "value", "source", "target", "result"),
    [
        ("index_cast", 2**40 + 5, "index", "i32", 5),
        ("index_cast", -5, "i32", "index", -5),
        ("extsi", -1, "i8", "i32", -1),
        ("extui", -1, "i8", "i32", 255),
        ("trunci", 300, "i32", "i8", 44),
        ("sitofp", -3, "i32", "f32", -3.0),
        ("uitofp", -1, "i8", "f32", 255.0),
        ("fptosi", numpy.float32(-2.75), "f32", "i32", -2),
        ("fptosi", numpy.float32(3e9), "f32", "i32", 2**31 - 1),
        ("fptosi", numpy.float32(1e20), "f32", "i64", 2**63 - 1),
        ("fptosi", NAN, "f32", "i32", 0),
        ("extf", numpy.float16(1.5), "f16", "f32", 1.5),
        ("truncf", numpy.float32(2049), "f32", "f16", 2048),
    ],
)
def test_conversion(name, value, source, target, result):
    assert scalars.evaluate(name, [value], [source], target) == result


def test_select():
    assert scalars.evaluate("select", [1, 5, 6], ["i1", "index", "index"], "index") == 5
    assert scalars.evaluate("select", [0, 5, 6], ["i1", "index", "index"], "index") == 6


@pytest.mark.parametrize(
    ("value", "mlir", "result"),
    [(True, "i1", 1), (-3, "i8", -3), (7, "index", 7), (1.5, "f16", 1.5), (0.1, "f32", None)],
)
def test_constant(value, mlir, result):
    given = scalars.constant(value, mlir)
    assert given == (numpy.float32(0.1) if result is None else result)


def test_what_is_known():
    assert scalars.known("addi")
    assert not scalars.known("mulsi_extended")
