"""Expressions of whole tensors: each function gives the text of one, or None where there are no operands for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pypto_jit.dtypes import FP32, INT8
from tests.property.bounded import Bounded
from tests.property.tensor_authors import (
    DTYPES,
    EXTENTS,
    FLOATS,
    MOST_ELEMENTS,
    MOST_RANK,
    Author,
    together,
)

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
INTEGER_UNARY = ("-{x}", "{x} * {x}")
BINARY = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "pl.maximum({x}, {y})", "pl.minimum({x}, {y})")
MODES = ("eq", "ne", "lt", "le", "gt", "ge")


def _unary(author: Author) -> str | None:
    x = author.computed()
    if x is None:
        return None
    forms = UNARY if author.dtype(x).is_float else INTEGER_UNARY
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


def _product(author: Author) -> str | None:
    x = author.pick(
        lambda value: value.dtype in (*FLOATS, INT8) and len(value.shape) > 0 and _small(value.shape),
        lambda: author.argument(
            tuple(author.one(EXTENTS) for _ in range(author.number(1, 3))[:2]), author.one((*FLOATS, INT8))
        ),
    )
    if x is None or not _small(author.shape(x)):
        return None
    shape, dtype = author.shape(x), author.dtype(x)
    a_trans = len(shape) > 1 and author.chance(3)
    inner = shape[-2] if a_trans else shape[-1]
    rank = author.number(1, 2 if len(shape) == 1 else min(3, MOST_RANK))
    b_trans = rank > 1 and author.chance(3)
    place = -1 if b_trans or rank == 1 else -2

    def new() -> str:
        other = author.one(EXTENTS)
        matrix = (inner,) if rank == 1 else (other, inner) if b_trans else (inner, other)
        return author.argument((*shape[:-2][-1:], *matrix) if rank == 3 else matrix, dtype)

    def fits(value: Bounded) -> bool:
        return value.dtype == dtype and len(value.shape) == rank and value.shape[place] == inner

    y = author.pick(fits, new)
    if y is None or together(shape[:-2], author.shape(y)[:-2]) is None or math.prod(author.shape(y)) > MOST_ELEMENTS:
        return None
    options = [name for name, used in (("a_trans=True", a_trans), ("b_trans=True", b_trans)) if used]
    if dtype != FP32 and dtype.is_float and author.chance(2):
        options.append("out_dtype=pl.FP32")
    return f"pl.matmul({', '.join([x, y, *options])})" if options else f"{x} @ {y}"


def _small(shape: tuple[int, ...]) -> bool:
    return max(shape) <= 600 and math.prod(shape) <= MOST_ELEMENTS // 4


def _cast(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype in DTYPES)
    if x is None:
        return None
    mode = f", mode='{author.one(('rint', 'round', 'floor', 'ceil', 'trunc'))}'" if author.chance(2) else ""
    return f"pl.cast({x}, pl.{author.one(DTYPES)}{mode})"


def part(author: Author, shape: Sequence[int], loops: Sequence[tuple[str, int]] = (), new: bool = False) -> str:
    """Subscripts of a part of a tensor; with new dimensions on request."""
    parts = []
    for extent in shape[: author.number(1, len(shape))]:
        able = [name for name, count in loops if count <= extent]
        if able and author.chance(2):
            name = author.one(able)
            count = dict(loops)[name]
            parts.append(author.one((name, f"{extent - 1} - {name}", name if extent == count else f"{name} + 1")))
            continue
        kind = author.one(("all", "all", "slice", "from", "index", "step", "end")) if extent else "all"
        start = author.number(0, max(0, extent - 1))
        forms = {"all": ":", "from": f"{start}:", "index": str(start), "step": f"{start}::{author.one((2, 3))}"}
        forms["end"] = f"{author.one(('', start))}:-{author.number(1, max(1, extent - start))}"
        forms["slice"] = f"{start}:{author.number(start, extent + 1)}"
        parts.append(author.one((forms["index"], f"-{extent - start}")) if kind == "index" else forms[kind])
    if len(parts) < len(shape) and author.chance(4):
        parts.append("...")
    if new and len(shape) < MOST_RANK and author.chance(4):
        parts.insert(author.number(0, len(parts)), "None")
    return ", ".join(parts)


def _form(author: Author) -> str | None:
    x = author.pick(lambda value: value.dtype in DTYPES and len(value.shape) > 0)
    if x is None:
        return None
    shape = author.shape(x)
    rank = len(shape)
    kind = author.one(("part", "part", "T", "transpose", "reshape", "expand"))
    if kind == "part":
        if author.chance(8):
            return author.one((f"{x}[::-1]", f"{x}[..., ::-1]"))
        subscripts = part(author, shape, new=True)
        # An element is a scalar, not a tensor.
        return f"{x}[{subscripts}]" if author.shape_of(f"{x}[{subscripts}]") else None
    if kind == "T":
        return f"{x}.T"
    if kind == "transpose":
        first, second = (author.number(-rank, rank - 1) for _ in range(2))
        return f"pl.transpose({x}, {first}, {second})"
    if kind == "reshape":
        return f"pl.reshape({x}, {list(author.one(reshapes(shape)))})"
    wide = tuple(author.one((2, 3, 5)) if extent == 1 and author.chance(2) else extent for extent in shape)
    leading = (author.one((1, 2, 3)),) if rank < MOST_RANK and author.chance(2) else ()
    return f"pl.expand({x}, {[*leading, *wide]})" if math.prod((*leading, *wide)) <= MOST_ELEMENTS else None


def reshapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes of as many elements."""
    found = [(math.prod(shape),), (1, *shape)[-MOST_RANK:] if len(shape) < MOST_RANK else shape]
    for k in range(len(shape) - 1):
        found.append((*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
    for k, extent in enumerate(shape):
        for factor in (2, 3):
            if extent and extent % factor == 0 and len(shape) < MOST_RANK:
                found.append((*shape[:k], factor, extent // factor, *shape[k + 1 :]))
    return found


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
    return author.one((f"pl.zeros_like({x})", f"pl.ones_like({x})", f"pl.full_like({x}, {author.one(NUMBERS)})"))


EXPRESSIONS: dict[str, Callable[[Author], str | None]] = {
    "binary": _binary,
    "another binary": _binary,
    "unary": _unary,
    "compare": _compare,
    "where": _where,
    "reduce": _reduce,
    "another reduce": _reduce,
    "normalize": _normalize,
    "product": _product,
    "cast": _cast,
    "form": _form,
    "another form": _form,
    "joined": _joined,
    "filled": _filled,
}
