"""Expressions of whole tensors: each function gives the text of one, or None where there are no operands for it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tests.property.bounded import Bounded
from tests.property.tensor_authors import DTYPES, FLOATS, Author
from tests.property.tensor_integers import bits, quotient
from tests.property.tensor_parts import form
from tests.property.tensor_products import addend, einsum, product

NUMBERS = ("0.5", "-1.5", "2", "0.1", "-3", "1e-3", "0", "7.25")
UNARY = (
    "-{x}",
    "abs({x})",
    "pl.relu({x})",
    "pl.exp(pl.minimum({x}, 2.5))",
    "pl.log(abs({x}) + 0.5)",
    "pl.sqrt(abs({x}))",
    "pl.rsqrt({x} * {x} + 0.25)",
    "pl.recip(abs({x}) + 0.75)",
    "pl.sigmoid({x})",
    "pl.silu({x})",
    "pl.gelu({x})",
    "pl.gelu({x}, 'tanh')",
    "pl.tanh({x})",
    "1.0 / (abs({x}) + 0.5)",
)
INTEGER_UNARY = ("-{x}", "{x} * {x}", "abs({x})", "pl.relu({x})", "pl.square({x})")
BOTH_UNARY = (
    "pl.clamp({x}, -1, 2)",
    "pl.clamp({x}, max=3)",
    "pl.square({x})",
    "pl.floor({x})",
    "pl.ceil({x})",
    "pl.trunc({x} * 3)",
    "pl.round({x})",
    "{x}.float()",
    "{x}.to(pl.FP16)",
    "{x}.int()",
)
BINARY = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "pl.maximum({x}, {y})", "pl.minimum({x}, {y})")
MODES = ("eq", "ne", "lt", "le", "gt", "ge")


def _unary(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    forms = BOTH_UNARY if author.chance(3) else UNARY if author.dtype(x).is_float else INTEGER_UNARY
    return author.one(forms).format(x=x)


def _binary(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    if author.chance(4):
        return author.one((*BINARY, "{x} / 2.0")).format(x=x, y=author.one(NUMBERS))
    if author.chance(6):
        return author.one(("{y} + {x}", "{y} - {x}", "{y} * {x}")).format(x=x, y=author.one(NUMBERS))
    y = author.partner(author.shape(x))
    if y is None:
        return None
    forms = (*BINARY, "{x} / (abs({y}) + 0.5)") if author.dtype(y).is_float else BINARY
    text = author.one(forms)
    return text.format(x=x, y=y) if author.chance(2) else text.format(x=y, y=x) if text in BINARY else None


def _condition(author: Author, x: str) -> str | None:
    y = author.one(NUMBERS) if author.chance(3) else author.partner(author.shape(x))
    if y is None:
        return None
    sign = author.one(("<", "<=", ">", ">="))
    return f"({x} {sign} {y})" if author.chance(2) else f"pl.cmp({x}, {y}, '{author.one(MODES)}')"


def _compare(author: Author) -> str | None:
    x = author.computed()
    return None if x is None else _condition(author, x)


def _where(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    if author.chance(3):
        mask = author.partner(author.shape(x), DTYPES)
    else:
        mask = _condition(author, x)
    shape = None if mask is None else author.shape_of(f"{mask} + {x}")
    y = author.one(NUMBERS) if author.chance(3) or shape is None else author.partner(shape)
    if shape is None or y is None:
        return None
    return f"pl.where({mask}, {x}, {y})" if author.chance(2) else f"pl.where({mask}, {y}, {x})"


def _axis(author: Author, rank: int) -> str:
    axes = sorted(author.numbers.sample(range(rank), author.number(1, rank)))
    if len(axes) == rank and author.chance(2):
        return ""
    named = [axis - rank if author.chance(3) else axis for axis in axes]
    return f", axis={named[0]}" if len(named) == 1 else f", axis={tuple(named)}"


def _reduce(author: Author) -> str | None:
    x = author.computed()
    if x is None or not author.shape(x):
        return None
    name = author.one(("sum", "sum", "max", "min", "mean", "prod"))
    return f"pl.{name}({x}{_axis(author, len(author.shape(x)))}{author.one(('', ', keepdims=True'))})"


def _place(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    rank = len(author.shape(x))
    axis = "" if rank == 0 or author.chance(4) else f", axis={author.number(-rank, rank - 1)}"
    return f"pl.{author.one(('argmax', 'argmin'))}({x}{axis}{author.one(('', ', keepdims=True'))})"


def _cumulate(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype in DTYPES and len(value.shape) > 0)
    if x is None:
        return None
    rank = len(author.shape(x))
    return f"pl.cumsum({x}, {author.number(-rank, rank - 1)})"


def _clamp(author: Author) -> str | None:
    x = author.computed()
    low = None if x is None else author.partner(author.shape(x))
    if x is None or low is None:
        return None
    return author.one(("pl.clamp({x}, {y})", "pl.clamp({x}, {y}, 5)", "pl.clamp({x}, max={y})")).format(x=x, y=low)


def _normalize(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype.is_float and math.prod(value.shape) > 0 and len(value.shape) > 0)
    if x is None:
        return None
    form = author.one(("softmax", "softmax", "rms_norm", "layer_norm"))
    if form == "softmax":
        rank = len(author.shape(x))
        return f"pl.softmax({x}, axis={author.number(-rank, rank - 1)})"
    weights = []
    for _ in range(author.number(0, 1 if form == "rms_norm" else 2)):
        weights.append(author.partner(author.shape(x)[-1:], FLOATS))
    if any(weight is None or author.shape(weight) != author.shape(x)[-1:] for weight in weights):
        return None
    return f"pl.{form}({', '.join([x, *map(str, weights)])}, eps=0.125)"


def _cast(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype in DTYPES)
    if x is None:
        return None
    mode = f", mode='{author.one(('rint', 'round', 'floor', 'ceil', 'trunc'))}'" if author.chance(2) else ""
    return f"pl.cast({x}, pl.{author.one(DTYPES)}{mode})"


def _joined(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype in DTYPES and len(value.shape) > 0)
    if x is None:
        return None
    shape = author.shape(x)
    axis = author.number(0, len(shape) - 1)

    def fits(value: Bounded) -> bool:
        others = [value.shape[k] == extent for k, extent in enumerate(shape) if k != axis and k < len(value.shape)]
        return value.dtype in DTYPES and len(value.shape) == len(shape) and all(others)

    y = author.pick(fits)
    return f"pl.concat({x}, {y}, axis={axis - len(shape) if author.chance(2) else axis})"


def _filled(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    if author.chance(2):
        return author.one((f"pl.zeros_like({x})", f"pl.ones_like({x})", f"pl.full_like({x}, {author.one(NUMBERS)})"))
    shape, dtype = list(author.shape(x)), author.one(DTYPES)
    if shape and author.chance(2):
        counted = author.one((shape[-1], [1, shape[-1]], shape[-1:]))
        down = author.one(("", ", descending=True"))
        return f"pl.arange({author.number(-5, 9)}, {counted}, pl.{dtype}{down})"
    number = author.number(0, 9) if not dtype.is_float else author.one(NUMBERS)
    full = f"pl.tensor.full({shape}, pl.{dtype}, {number})"
    return author.one((f"pl.zeros({shape}, pl.{dtype})", f"pl.ones({shape})", full))


EXPRESSIONS: dict[str, Callable[[Author], str | None]] = {
    "binary": _binary,
    "another binary": _binary,
    "unary": _unary,
    "compare": _compare,
    "where": _where,
    "reduce": _reduce,
    "another reduce": _reduce,
    "normalize": _normalize,
    "product": product,
    "cast": _cast,
    "form": form,
    "another form": form,
    "place": _place,
    "cumulate": _cumulate,
    "clamp": _clamp,
    "bits": bits,
    "quotient": quotient,
    "addend": addend,
    "einsum": einsum,
    "joined": _joined,
    "filled": _filled,
}

# Functions that are methods of their first operand too.
METHODS = (
    *("argmax", "argmin", "cast", "ceil", "clamp", "concat", "cumsum", "exp", "expand", "floor", "gelu", "layer_norm"),
    *("log", "matmul", "max", "maximum", "mean", "min", "minimum", "prod", "recip", "relu", "reshape", "rms_norm"),
    *("round", "rsqrt", "sigmoid", "silu", "softmax", "sqrt", "square", "sum", "tanh", "transpose", "trunc", "view"),
)
_CALL = re.compile(rf"pl\.({'|'.join(METHODS)})\(([xtam]\d+)(?:, |(?=\)))")


def spelled(author: Author, expression: str) -> str:
    """An expression with methods, and torch's names for arguments, in place of functions."""
    text = _CALL.sub(r"\2.\1(", expression)
    text = re.sub(r"\.(reshape|expand)\(\[([^]]+)\]\)", r".\1(\2)", text) if author.chance(2) else text
    return text.replace("axis=", "dim=").replace("keepdims=", "keepdim=") if author.chance(2) else text
