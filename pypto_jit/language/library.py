"""Composite operators, written in the language itself.

All compute in FP32: tiles of FP16 and BF16 are cast there and back. Infinite inputs give the limits (but -inf gives NaN
where torch's formula does: silu, and gelu with the tanh), NaN gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.language.expressions import reduce
from pypto_jit.language.operators import FUNCTIONS
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor, Tile

_abs, _cast, _exp, _recip, _relu = (FUNCTIONS[name] for name in ("abs", "cast", "exp", "recip", "relu"))
_maximum, _minimum = FUNCTIONS["maximum"], FUNCTIONS["minimum"]


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's scheme; the highest power first."""
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


def _in_fp32(function: Callable[..., Any], x: Any, *arguments: Any) -> Any:
    if isinstance(x, (Tile, Tensor)) and x.dtype in (FP16, BF16):
        return _cast(function(_cast(x, FP32), *arguments), x.dtype, "rint")
    return function(x, *arguments)


def _sigmoid(x: Any) -> Any:
    return _recip(_exp(-x) + 1.0)


def _silu(x: Any) -> Any:
    return x / (_exp(-x) + 1.0)


# Of erfc(z) = (a1 t + a2 t^2 + a3 t^3 + a4 t^4 + a5 t^5) exp(-z^2), t = 1 / (1 + p z), for z >= 0; absolute error
# <= 1.5e-7. Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; the highest power first.
_ERFC = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERFC_P = 0.3275911
# At the bound and past it exp(-z^2) counts as zero: smaller, it would soon be subnormal, and processors are slow with
# that here and in all that is computed from it.
_GELU_BOUND = 12.0
_GELU_LEAST = math.exp(-0.5 * _GELU_BOUND**2) * (1 + 1e-6)


def _gelu(x: Any) -> Any:
    # x Phi(x) = relu(x) - |x| erfc(|x| / sqrt 2) / 2. The bound keeps the last term from being inf * 0.
    size = _minimum(_abs(x), _GELU_BOUND)
    t = _recip(size * (_ERFC_P / math.sqrt(2)) + 1.0)
    decay = _maximum(_exp(size * size * -0.5) - _GELU_LEAST, 0.0)
    return _relu(x) - size * (_polynomial(t, tuple(a / 2 for a in _ERFC)) * t * decay)


def _gelu_tanh(x: Any) -> Any:
    # x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
    scale = -2 * math.sqrt(2 / math.pi)
    return x / (_exp((x * x * (0.044715 * scale) + scale) * x) + 1.0)


# tanh(x) = (x + x^3 P(x^2)) / Q(x^2) up to the bound, the least x for which this is 1; within 6 ulp. Coefficients of
# Eigen's ptanh_float (MathFunctionsImpl.h), a minimax fit; the highest power first.
_TANH_BOUND = 7.90738964080810547
_TANH_P = (1.394553628e-8, 2.102733560e-5, 3.520756727e-3, 1.340216100e-1)
_TANH_Q = (8.015776984e-7, 3.326951409e-4, 2.597254514e-2, 4.673548340e-1, 1.0)


def _tanh(x: Any) -> Any:
    x = _minimum(_maximum(x, -_TANH_BOUND), _TANH_BOUND)
    square = x * x
    return (square * x * _polynomial(square, _TANH_P) + x) / _polynomial(square, _TANH_Q)


def _softmax(x: Any, axis: int) -> Any:
    if isinstance(x, Tensor):
        exponentials = _exp(x - reduce("max", x, axis, True))
        return exponentials / reduce("sum", exponentials, axis, True)
    weights = _exp(FUNCTIONS["row_expand_sub"](x, FUNCTIONS["row_max"](x)))
    return FUNCTIONS["row_expand_div"](weights, FUNCTIONS["row_sum"](weights))


@checked
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), element by element."""
    return _in_fp32(_sigmoid, x)


@checked
def silu(x: Any) -> Any:
    """x * sigmoid(x), element by element."""
    return _in_fp32(_silu, x)


@checked
def gelu(x: Any, approximate: str = "none") -> Any:
    """x * Phi(x), element by element, as ``torch.nn.functional.gelu`` defines it.

    Args:
        x: a tile.
        approximate: ``none`` for the normal distribution function Phi (absolute error below 5e-7), ``tanh`` for
            0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """
    if approximate not in ("none", "tanh"):
        raise TraceError("unknown approximation of gelu", span=here(), found=approximate, expected="'none' or 'tanh'")
    return _in_fp32(_gelu if approximate == "none" else _gelu_tanh, x)


@checked
def tanh(x: Any) -> Any:
    """The hyperbolic tangent, element by element."""
    return _in_fp32(_tanh, x)


@checked
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x - max) / sum(exp(x - max)) along each row of the valid region of a tile, or along an axis of a tensor.

    Raises:
        ShapeError: of a tile, another axis than its last; of a tensor, there is no such axis.
    """
    if isinstance(x, Tile) and axis not in (-1, x.ndim - 1):
        raise ShapeError("softmax of a tile runs along its rows", span=here(), found=f"axis={axis}", expected=-1)
    return _in_fp32(_softmax, x, axis)


__all__ = ["gelu", "sigmoid", "silu", "softmax", "tanh"]
