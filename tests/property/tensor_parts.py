"""Parts and other forms of whole tensors as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.property.tensor_authors import DTYPES, MOST_ELEMENTS, MOST_RANK, Author


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
        kind = author.one(("all", "all", "slice", "from", "index", "step", "end", "back")) if extent else "all"
        start = author.number(0, max(0, extent - 1))
        forms = {
            "all": ":",
            "from": f"{start}:",
            "index": str(start),
            "step": f"{author.one((start, ''))}::{author.one((2, 3))}",
        }
        forms["end"] = f"{author.one(('', start))}:-{author.number(1, max(1, extent - start))}"
        step = author.one((1, 1, 2, 3))
        forms["back"] = author.one((f"::-{step}", f"{start}::-{step}", f":{start}:-{step}", f"-1:{start}:-{step}"))
        if author.chance(3):
            forms["step"] = f"{start}:{author.number(start, extent + 1)}:{author.one((2, 3))}"
        forms["slice"] = f"{start}:{author.number(start, extent + 1)}"
        parts.append(author.one((forms["index"], f"-{extent - start}")) if kind == "index" else forms[kind])
    if len(parts) < len(shape) and author.chance(4):
        parts.append("...")
    if new and len(shape) < MOST_RANK and author.chance(4):
        parts.insert(author.number(0, len(parts)), "None")
    return ", ".join(parts)


def form(author: Author) -> str | None:
    """A part of a tensor, or another form of it."""
    x = author.pick(lambda value: value.dtype in DTYPES and len(value.shape) > 0)
    if x is None:
        return None
    shape = author.shape(x)
    rank = len(shape)
    kind = author.one(("part", "part", "T", "transpose", "reshape", "expand"))
    if kind == "part":
        subscripts = part(author, shape, new=True)
        # An element is a scalar, not a tensor.
        return f"{x}[{subscripts}]" if author.shape_of(f"{x}[{subscripts}]") else None
    if kind == "T":
        return f"{x}.T"
    if kind == "transpose":
        first, second = (author.number(-rank, rank - 1) for _ in range(2))
        return f"pl.transpose({x}, {first}, {second})"
    if kind == "reshape":
        wanted = list(author.one(reshapes(shape)))
        if author.chance(3) and wanted and 0 not in wanted:
            wanted[author.number(0, len(wanted) - 1)] = -1
        return f"pl.{author.one(('reshape', 'reshape', 'view'))}({x}, {wanted})"
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
