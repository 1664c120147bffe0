"""What integers do as text: bits, shifts, and quotients that are rounded down; these of floats too."""

from __future__ import annotations

from pypto_jit.dtypes import INT8, INT16, INT32, UINT8
from tests.property.tensor_authors import FLOATS, Author

INTEGERS = (INT32, INT16, INT8, UINT8)


def bits(author: Author) -> str | None:
    """An operator on bits."""
    x = author.computed(INTEGERS)
    if x is None:
        return None
    most = author.dtype(x).bits - 1
    if author.chance(2):
        forms = ("~{x}", "{x} << {n}", "{x} >> {n}", "{x} & {k}", "{k} & {x}", "{x} | {k}", "{x} ^ {k}")
        return author.one(forms).format(x=x, n=author.number(0, most), k=author.number(0, 100))
    y = author.partner(author.shape(x), INTEGERS)
    if y is None:
        return None
    forms = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "{x} >> ({y} & 7)", "{x} << ({y} & 7)")
    return author.one(forms).format(x=x, y=y)


def quotient(author: Author) -> str | None:
    """``//`` or ``%``, by what is not zero."""
    x = author.computed(FLOATS if author.chance(4) else INTEGERS)
    if x is None:
        return None
    sign = author.one(("//", "%"))
    if author.dtype(x).is_float:
        return f"{x} {sign} {author.one(('0.7', '-1.3', '3.1'))}"
    if author.chance(2):
        return f"{x} {sign} {author.one(('3', '-7', '2', '-1', '100'))}"
    y = author.partner(author.shape(x), INTEGERS)
    if y is None:
        return None
    return author.one((f"{x} {sign} ({y} | 1)", f"{author.number(0, 100)} {sign} ({x} | 1)"))
