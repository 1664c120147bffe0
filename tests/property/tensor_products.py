"""Products of whole tensors as text: matrix products, with something added, and sums of products by names."""

from __future__ import annotations

import math

from pypto_jit.dtypes import FP32, INT8, INT16, INT32
from tests.property.bounded import Bounded
from tests.property.tensor_authors import EXTENTS, FLOATS, MOST_ELEMENTS, MOST_RANK, Author, together

# Of one operand, and of two.
EQUATIONS = ("ij->ji", "ij->j", "ijk->ki", "ij->", "bij->bji")
PAIRS = (
    "ij,jk->ik",
    "ij,kj->ik",
    "ji,jk->ki",
    "bij,bjk->bik",
    "bij,jk->bik",
    "bij,bkj->ibk",
    "ijk,jkl->il",
    "ij,j->i",
    "i,i->",
    "ij,ij->i",
    "i,j->ij",
    "bi,bj->bij",
)


def product(author: Author) -> str | None:
    """``@`` or ``pl.matmul``, sometimes with a bias."""
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
    if author.chance(3):
        shape = author.shape_of(f"pl.matmul({', '.join([x, y, *options])})")
        bias = None if shape is None else author.partner(shape, FLOATS if dtype.is_float else (INT32, INT16))
        if bias is not None and together(author.shape(bias), shape or ()) == shape:
            options.append(f"bias={bias}")
    return f"pl.matmul({', '.join([x, y, *options])})" if options else f"{x} @ {y}"


def addend(author: Author) -> str | None:
    """A product with an accumulator or a bias."""
    x = author.pick(lambda value: value.dtype in (*FLOATS, INT8) and len(value.shape) > 1 and _small(value.shape))
    if x is None:
        return None
    dtype, inner = author.dtype(x), author.shape(x)[-1]
    y = author.pick(
        lambda value: value.dtype == dtype and len(value.shape) == 2 and value.shape[0] == inner,
        lambda: author.argument((inner, author.one(EXTENTS)), dtype),
    )
    shape = None if y is None else author.shape_of(f"{x} @ {y}")
    if shape is None or math.prod(shape) > MOST_ELEMENTS:
        return None
    wide = FP32 if dtype.is_float else INT32
    if author.chance(2):
        acc = author.pick(
            lambda value: value.dtype == wide and value.shape == shape, lambda: author.argument(shape, wide)
        )
        return None if acc is None else f"pl.matmul_acc({acc}, {x}, {y})"
    bias = author.partner(shape, (wide,))
    fits = bias is not None and together(author.shape(bias), shape) == shape
    return f"pl.matmul_bias({x}, {y}, {bias})" if fits else None


def einsum(author: Author) -> str | None:
    """A sum of products, of operands that have these dimensions."""
    x = author.pick(lambda value: value.dtype in (*FLOATS, INT8) and len(value.shape) in (1, 2, 3))
    if x is None or math.prod(author.shape(x)) == 0 or not _small(author.shape(x)):
        return None
    rank, dtype = len(author.shape(x)), author.dtype(x)
    alone = [equation for equation in EQUATIONS if len(equation.partition("->")[0]) == rank]
    if alone and author.chance(4):
        return f"pl.einsum('{author.one(alone)}', {x})"
    equation = author.one([pair for pair in PAIRS if len(pair.partition(",")[0]) == rank])
    names, _, result = equation.partition("->")
    first, second = names.split(",")
    extents = dict(zip(first, author.shape(x), strict=True))
    wanted = tuple(extents.get(name) for name in second)

    def fits(value: Bounded) -> bool:
        if value.dtype != dtype or len(value.shape) != len(wanted):
            return False
        return all(extent in (own, None) for own, extent in zip(value.shape, wanted, strict=True))

    def new() -> str:
        return author.argument(tuple(author.one(EXTENTS) if extent is None else extent for extent in wanted), dtype)

    y = author.pick(fits, new)
    if y is None:
        return None
    extents |= dict(zip(second, author.shape(y), strict=True))
    large = max(math.prod(author.shape(y)), math.prod(extents[name] for name in result)) > MOST_ELEMENTS
    return None if large or 0 in extents.values() else f"pl.einsum('{equation}', {x}, {y})"


def _small(shape: tuple[int, ...]) -> bool:
    return max(shape) <= 600 and math.prod(shape) <= MOST_ELEMENTS // 4
