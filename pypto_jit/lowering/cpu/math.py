"""fp32 functions as straight-line vector code, within 2 ulp of the exact result over the whole range.

Each takes and gives a scalar or vector of f32. Infinities, NaN, signed zeros and denormal arguments and results are
honoured.
"""

from __future__ import annotations

from math import inf, nan

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter

# ln 2 in two parts, the first with trailing zeros so that its product with an exponent is exact (W. J. Cody and
# W. Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.4286068203094173e-06
_LOG2_E = 1.4426950216293335
# e**r = 1 + r + r**2 * (c0 + c1 r + ... + c4 r**4) for |r| <= ln(2) / 2: minimax in relative error, fitted by Lawson's
# iteratively reweighted least squares, coefficients rounded to fp32 one after the other. Error 3.1e-9.
_EXP = (0.49999994, 0.16666521, 0.04166826, 0.008368666, 0.0013821236)
# The bias of exponents; numbers from 2**23 to 2**24 are whole, and this one has twice the bias in its low bits.
_BIAS = 127
_WHOLE = 1.5 * 2.0**23 + 2 * _BIAS
# Beyond these the result is infinity, or rounds to zero.
_EXP_HIGHEST, _EXP_LOWEST = 89.0, -104.0
# log(1 + f) = f - f**2 / 2 + f**3 * P(f) for 1 + f in [sqrt(1/2), sqrt(2)]: coefficients of S. Moshier's Cephes library
# (single precision, logf.c), highest power first.
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_SQRT_HALF_BITS = 0x3F3504F3
_MANTISSA = 0x007FFFFF
_SMALLEST_NORMAL = 2.0**-126


def _real(e: Emitter, value: float, like: ir.Value) -> ir.Value:
    return e.constant(value, "f32", e.shape(like)[1])


def _integer(e: Emitter, value: int, like: ir.Value) -> ir.Value:
    return e.constant(value, "i32", e.shape(like)[1])


def minimum(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The smaller; NaN where either is NaN."""
    return e.select(e.compare("uno", a, a), a, e.select(e.compare("olt", a, b), a, b))


def maximum(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger; NaN where either is NaN."""
    return e.select(e.compare("uno", a, a), a, e.select(e.compare("ogt", a, b), a, b))


def clamp(e: Emitter, x: ir.Value, lowest: float, highest: float) -> ir.Value:
    """Within two bounds; NaN stays."""
    low, high = _real(e, lowest, x), _real(e, highest, x)
    x = e.select(e.compare("olt", high, x), high, x)
    return e.select(e.compare("ogt", low, x), low, x)


def exp(e: Emitter, x: ir.Value) -> ir.Value:
    """``e ** x``."""
    x = clamp(e, x, _EXP_LOWEST, _EXP_HIGHEST)
    # Next to so large a number whole ones are all there are: the sum is rounded to one, in the low bits of its pattern.
    shifted = e.fma(x, _real(e, _LOG2_E, x), _real(e, _WHOLE, x))
    n = e.same("arith.subf", shifted, _real(e, _WHOLE, x))
    r = e.fma(n, _real(e, -_LN2_HIGH, x), x)
    r = e.fma(n, _real(e, -_LN2_LOW, x), r)
    p = _real(e, _EXP[-1], x)
    for coefficient in (*_EXP[-2::-1], 1.0, 1.0):
        p = e.fma(p, r, _real(e, coefficient, x))
    if _has_scalef(e, x):
        return _scale_avx512(e, p, n)
    return _scaled_by_halves(e, p, e.cast("bitcast", shifted, "i32"))


def scale(e: Emitter, x: ir.Value, n: ir.Value) -> ir.Value:
    """``x * 2 ** n`` for whole ``n`` within -250 .. 250, rounded once."""
    if _has_scalef(e, x):
        return _scale_avx512(e, x, n)
    return _scaled_by_halves(e, x, e.same("arith.addi", e.cast("fptosi", n, "i32"), _integer(e, 2 * _BIAS, x)))


def _has_scalef(e: Emitter, x: ir.Value) -> bool:
    return e.shape(x)[1] == 16 and e.cpu.vector_bytes == 64 and "+avx512f" in e.cpu.features


def _scaled_by_halves(e: Emitter, x: ir.Value, biased: ir.Value) -> ir.Value:
    """``x * 2 ** (biased - 2 * 127)``; only the low bits of ``biased`` matter.

    Half of the exponent at a time: the first product is exact, the second rounds into the denormals.
    """
    half = e.same("arith.shrsi", biased, _integer(e, 1, x))
    for part in (half, e.same("arith.subi", biased, half)):
        x = e.same("arith.mulf", x, e.cast("bitcast", e.same("arith.shli", part, _integer(e, 23, x)), "f32"))
    return x


def _scale_avx512(e: Emitter, x: ir.Value, n: ir.Value) -> ir.Value:
    mask = e.constant(-1, "i16")
    rounding = e.constant(4, "i32")  # _MM_FROUND_CUR_DIRECTION
    return e.op(
        "llvm.call_intrinsic",
        x.type,
        *(x, n, x, mask, rounding),
        intrin=e.parsed('"llvm.x86.avx512.mask.scalef.ps.512"'),
        op_bundle_sizes=e.parsed("array<i32>"),
        operandSegmentSizes=e.parsed("array<i32: 5, 0>"),
    )


def log(e: Emitter, x: ir.Value) -> ir.Value:
    """The natural logarithm: minus infinity at both zeros, NaN below."""
    one = _real(e, 1.0, x)
    tiny = e.compare("olt", x, _real(e, _SMALLEST_NORMAL, x))
    scaled = e.select(tiny, e.same("arith.mulf", x, _real(e, 2.0**23, x)), x)
    bits = e.same("arith.subi", e.cast("bitcast", scaled, "i32"), _integer(e, _SQRT_HALF_BITS, x))
    exponent = e.same("arith.shrsi", bits, _integer(e, 23, x))
    mantissa = e.same("arith.andi", bits, _integer(e, _MANTISSA, x))
    mantissa = e.cast("bitcast", e.same("arith.addi", mantissa, _integer(e, _SQRT_HALF_BITS, x)), "f32")
    k = e.cast("sitofp", exponent, "f32")
    k = e.select(tiny, e.same("arith.subf", k, _real(e, 23.0, x)), k)
    f = e.same("arith.subf", mantissa, one)
    square = e.same("arith.mulf", f, f)
    p = _real(e, _LOG[0], x)
    for coefficient in _LOG[1:]:
        p = e.fma(p, f, _real(e, coefficient, x))
    p = e.same("arith.mulf", e.same("arith.mulf", p, f), square)
    p = e.fma(k, _real(e, _LN2_LOW, x), p)
    p = e.fma(square, _real(e, -0.5, x), p)
    result = e.fma(k, _real(e, _LN2_HIGH, x), e.same("arith.addf", f, p))
    return _log_edges(e, x, result)


def _log_edges(e: Emitter, x: ir.Value, result: ir.Value) -> ir.Value:
    infinity = _real(e, inf, x)
    zero = _real(e, 0.0, x)
    result = e.select(e.compare("olt", x, infinity), result, x)  # plus infinity and NaN give themselves
    result = e.select(e.compare("oeq", x, zero), _real(e, -inf, x), result)
    return e.select(e.compare("olt", x, zero), _real(e, nan, x), result)


def sqrt(e: Emitter, x: ir.Value) -> ir.Value:
    """The square root, correctly rounded."""
    return e.same("llvm.intr.sqrt", x)


def recip(e: Emitter, x: ir.Value) -> ir.Value:
    """``1 / x``, correctly rounded."""
    return e.same("arith.divf", _real(e, 1.0, x), x)


def rsqrt(e: Emitter, x: ir.Value) -> ir.Value:
    """``1 / sqrt(x)`` by two correctly rounded operations."""
    return recip(e, sqrt(e, x))
