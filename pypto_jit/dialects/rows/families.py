"""Which rows are one operator on other operands: two tiles, a tile and a scalar, a tile and a vector."""

from __future__ import annotations

# Row of two tiles -> the row for a tile and a scalar, and the one for a scalar and a tile.
WITH_SCALAR: dict[str, tuple[str, str | None]] = {
    "add": ("adds", "adds"),
    "sub": ("subs", None),
    "mul": ("muls", "muls"),
    "div": ("divs", "rdivs"),
    "maximum": ("maximums", "maximums"),
    "minimum": ("minimums", "minimums"),
    "and_": ("ands", "ands"),
    "or_": ("ors", "ors"),
    "xor": ("xors", "xors"),
    "shl": ("shls", None),
    "shr": ("shrs", None),
}
# What follows ``row_expand_`` and ``col_expand_`` -> the row of two tiles.
EXPANDED = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "maximum", "min": "minimum"}
# Row of two tiles -> what follows ``row_expand_`` and ``col_expand_``.
EXPANSION_OF = {row: name for name, row in EXPANDED.items()}
