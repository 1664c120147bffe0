"""NumPy meanings of the operators that compute: elementwise, reductions, expansions, casts, matrix products.

FP32 is computed in FP32, FP16 and BF16 in FP32 and rounded once; ``exp`` and ``log`` are rounded from float64. Sums and
matrix products accumulate in float64 and round once, which makes them the reference for any order of summation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

from pypto_jit.dialects.interpreter.rounding import convert, round_to_float
from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, embed, meaning
from pypto_jit.dialects.rows.families import EXPANDED
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import DType

_Function = Callable[..., Array]
# One axis, or several.
_Axis = int | tuple[int, ...]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    # C division: truncated; by zero it is 0 here, and INT_MIN / -1 wraps.
    wide_a, wide_b = a.astype(numpy.int64), b.astype(numpy.int64)
    quotient = numpy.abs(wide_a) // numpy.where(wide_b == 0, 1, numpy.abs(wide_b))
    quotient = quotient * numpy.sign(wide_a) * numpy.sign(wide_b)
    return quotient.astype(a.dtype)


def _maximum(a: Array, b: Array) -> Array:
    # NaN where either is NaN; of equal values (zeros of either sign) the second.
    return numpy.where(numpy.isnan(a) | (a > b), a, b)


def _minimum(a: Array, b: Array) -> Array:
    return numpy.where(numpy.isnan(a) | (a < b), a, b)


def _in_double(function: _Function) -> _Function:
    return lambda a: function(a.astype(numpy.float64)).astype(numpy.float32)


# By the table's rows: what each does with arrays of one dtype.
def _amount(values: Array, shifts: Array, most: int) -> Array:
    """Shifts that are not below the width, or negative, as ``most``."""
    bits = 8 * values.dtype.itemsize
    wide = shifts.astype(f"u{shifts.dtype.itemsize}")
    return numpy.where(wide < bits, shifts, values.dtype.type(most))


def _left(a: Array, b: Array) -> Array:
    inside = b.astype(f"u{b.dtype.itemsize}") < 8 * a.dtype.itemsize
    return numpy.where(inside, numpy.left_shift(a, _amount(a, b, 0)), a.dtype.type(0))


def _right(a: Array, b: Array) -> Array:
    return numpy.right_shift(a, _amount(a, b, 8 * a.dtype.itemsize - 1))


ELEMENTWISE: dict[str, _Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "adds": lambda a, s: a + s,
    "subs": lambda a, s: a - s,
    "muls": lambda a, s: a * s,
    "divs": _divide,
    "rdivs": lambda a, s: _divide(numpy.broadcast_to(s, a.shape), a),
    "maximums": _maximum,
    "minimums": _minimum,
    "and_": numpy.bitwise_and,
    "or_": numpy.bitwise_or,
    "xor": numpy.bitwise_xor,
    "shl": _left,
    "shr": _right,
    "ands": numpy.bitwise_and,
    "ors": numpy.bitwise_or,
    "xors": numpy.bitwise_xor,
    "shls": _left,
    "shrs": _right,
    "not_": numpy.invert,
    "neg": lambda a: -a,
    "abs": numpy.abs,
    "exp": _in_double(numpy.exp),
    "log": _in_double(numpy.log),
    "sqrt": _in_double(numpy.sqrt),
    "rsqrt": _in_double(lambda a: 1.0 / numpy.sqrt(a)),
    "recip": lambda a: 1 / a,
    "relu": lambda a: numpy.where(a < 0, numpy.zeros_like(a), a),
}


def computed(function: _Function, dtype: DType, *operands: Array) -> Array:
    """Apply a function in the dtype's computing precision, and round the result to the dtype."""
    if dtype.is_float:
        operands = tuple(operand.astype(numpy.float32) for operand in operands)
    return function(*operands).astype(dtype.numpy)


def scalar_array(scalar: object, dtype: DType) -> Array:
    """A scalar operand as a zero-dimensional array of a tile's dtype; integers keep their low bits."""
    return numpy.asarray(scalar).astype(dtype.numpy)


def _elementwise(function: _Function) -> Callable[[Call], Tile]:
    def run(call: Call) -> Tile:
        first = call.operands[0]
        for operand in call.operands[1:]:
            if isinstance(operand, Tile):
                call.agree("valid extents", first.valid, operand.valid)
        valid = call.valid(first)
        boxes = [
            operand.box(valid) if isinstance(operand, Tile) else scalar_array(operand, first.dtype)
            for operand in call.operands
        ]
        return embed(computed(function, first.dtype, *boxes), first.shape, first.dtype)

    return run


for _name, _function in ELEMENTWISE.items():
    meaning(_name)(_elementwise(_function))


def _expansion(function: _Function, axis: int) -> Callable[[Call], Tile]:
    def run(call: Call) -> Tile:
        tile, vector = call.operands
        valid = call.valid(tile)
        if DYNAMIC in valid:
            # A tile with undefined contents only gives its shape; what is valid of it the vector knows.
            valid = tuple(extent if v == DYNAMIC else v for v, extent in zip(valid, vector.valid, strict=True))
        narrow = tuple(1 if k == len(valid) + axis else extent for k, extent in enumerate(valid))
        call.agree("rows" if axis == -1 else "columns", narrow, vector.valid)
        spread = numpy.broadcast_to(vector.box(narrow), valid)
        return embed(computed(function, tile.dtype, tile.box(valid), spread), tile.shape, tile.dtype)

    return run


for _axis, _prefix in ((-1, "row_expand"), (-2, "col_expand")):
    meaning(_prefix)(_expansion(lambda _, vector: vector, _axis))
    for _name, _elementwise_name in EXPANDED.items():
        meaning(f"{_prefix}_{_name}")(_expansion(ELEMENTWISE[_elementwise_name], _axis))


def _widened(box: Array) -> Array:
    # NumPy counts bfloat16 among no kind of numbers.
    return box.astype(numpy.int64 if box.dtype.kind in "iu" else numpy.float64)


def _sum(box: Array, axis: _Axis) -> Array:
    return numpy.sum(_widened(box), axis=axis, keepdims=True)


def _extremum(function: numpy.ufunc) -> Callable[[Array, _Axis], Array]:
    def run(box: Array, axis: _Axis) -> Array:
        if box.dtype.kind in "iu":
            limits = numpy.iinfo(box.dtype)
            identity = limits.min if function is numpy.maximum else limits.max
        else:
            identity = -numpy.inf if function is numpy.maximum else numpy.inf
            box = box.astype(numpy.float32)
        result = function.reduce(box, axis=axis, keepdims=True, initial=identity)
        # One element is its own extreme; a zero that is the extreme of several has no sign of its own.
        alone = box.size == result.size
        return result if box.dtype.kind in "iu" or alone else result + numpy.float32(0)

    return run


def _product_of(box: Array, axis: _Axis) -> Array:
    return numpy.prod(_widened(box), axis=axis, keepdims=True)


REDUCTIONS = {"sum": _sum, "prod": _product_of, "max": _extremum(numpy.maximum), "min": _extremum(numpy.minimum)}


def _reduction(function: Callable[[Array, _Axis], Array], axis: int) -> Callable[[Call], Tile]:
    def run(call: Call) -> Tile:
        tile = call.operands[0]
        reduced = function(tile.box(), axis)
        return embed(narrowed(reduced, tile.dtype), call.tile.shape, tile.dtype)

    return run


def narrowed(wide: Array, dtype: DType) -> Array:
    """What was accumulated in a wider dtype, rounded once."""
    return round_to_float(wide.astype(numpy.float64), dtype) if dtype.is_float else wide.astype(dtype.numpy)


for _name, _reduce in REDUCTIONS.items():
    meaning(f"row_{_name}")(_reduction(_reduce, -1))
    meaning(f"col_{_name}")(_reduction(_reduce, -2))


@meaning("cast")
def _cast(call: Call) -> Tile:
    tile, dtype = call.operands[0], call.tile.dtype
    return embed(convert(tile.box(), tile.dtype, dtype, str(call.attributes.get("mode", "round"))), tile.shape, dtype)


def _product(call: Call, lhs: Tile, rhs: Tile) -> Array:
    call.agree("inner extents", lhs.valid[1:], rhs.valid[:1])
    wide = numpy.float64 if lhs.dtype.is_float else numpy.int64
    inner = lhs.valid[1]
    return lhs.box().astype(wide) @ rhs.box((inner, rhs.valid[1])).astype(wide)


@meaning("matmul")
def _matmul(call: Call) -> Tile:
    return embed(narrowed(_product(call, *call.operands), call.tile.dtype), call.tile.shape, call.tile.dtype)


@meaning("matmul_acc")
def _matmul_acc(call: Call) -> Tile:
    accumulator, lhs, rhs = call.operands
    product = _product(call, lhs, rhs)
    call.agree("valid extents", accumulator.valid, product.shape)
    total = accumulator.box(product.shape).astype(product.dtype) + product
    return embed(narrowed(total, call.tile.dtype), call.tile.shape, call.tile.dtype)


@meaning("matmul_bias")
def _matmul_bias(call: Call) -> Tile:
    lhs, rhs, bias = call.operands
    product = _product(call, lhs, rhs)
    total = product + bias.box((1, product.shape[1])).astype(product.dtype)
    return embed(narrowed(total, call.tile.dtype), call.tile.shape, call.tile.dtype)
