"""Infinite and NaN constants in assembly.

The assembler writes them as literals that no C++ compiler reads, and folds what is computed from constants alone. So
they are written as their bits, taken as the larger of these and the block count: that is always smaller, and nothing
that the assembler knows. Reading makes a constant of it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms

_BLOCKS = "pto.get_block_num"
_LARGER, _NARROWED, SEEN_AS = "arith.maxsi", "arith.trunci", "arith.bitcast"
_PARTS = (_BLOCKS, _LARGER, _NARROWED, forms.CONSTANT)
_WIDTHS = {"f16": 16, "bf16": 16, "f32": 32}
# More blocks than this are not launched; the bits of what is not finite are larger.
_MOST_BLOCKS = 0x7BFF


def is_infinite(value: ir.Attribute) -> bool:
    """Whether a constant is a float of the machine that is infinite or NaN."""
    return isinstance(value, ir.FloatAttr) and str(value.type) in _WIDTHS and not math.isfinite(value.value)


def spell_infinite(text: str, constant: Callable[[str], str], line: Callable[[str, str], str]) -> str:
    """Write what makes such a constant.

    Args:
        text: the constant as MLIR writes it: its bits, and its type.
        constant: the name of an integer constant, by its text.
        line: writes a line that defines a value, from a name to start from and its text; gives its name.

    Returns:
        The constant's name.
    """
    bits, _, kind = text.partition(" : ")
    pattern = int(bits, 16)
    width = _WIDTHS[kind]
    blocks = line("blocks", _BLOCKS)
    number = constant(f"{pattern} : i64")
    larger = line("bits", f"{_LARGER} {blocks}, {number} : i64")
    narrowed = line("bits", f"{_NARROWED} {larger} : i64 to i{width}")
    return line(_name(pattern, width, kind), f"{SEEN_AS} {narrowed} : i{width} to {kind}")


def _name(pattern: int, width: int, kind: str) -> str:
    fraction = {"f16": 10, "bf16": 7, "f32": 23}[kind]
    if pattern & ((1 << fraction) - 1):
        return "nan"
    return "neg_inf" if pattern >> (width - 1) else "inf"


def read_infinite(bits: ir.Value, kind: ir.Type) -> ir.Attribute | None:
    """The constant that bits seen as another type are, where they were written by `spell_infinite`."""
    width = _WIDTHS.get(str(kind))
    narrowed = _maker(bits, _NARROWED)
    larger = _maker(narrowed.operands[0], _LARGER) if narrowed is not None else None
    if width is None or larger is None or _maker(larger.operands[0], _BLOCKS) is None:
        return None
    number = _maker(larger.operands[1], forms.CONSTANT)
    pattern = ir.IntegerAttr(number.attributes["value"]).value if number is not None else 0
    if not _MOST_BLOCKS < pattern < 1 << width:
        return None
    attribute = ir.Attribute.parse(f"0x{pattern:0{width // 4}X} : {kind}", kind.context)
    return attribute if is_infinite(attribute) else None


def _maker(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return owner.operation if not isinstance(owner, ir.Block) and owner.operation.name == name else None


def erase_unused(operation: ir.Operation) -> None:
    """Erase what made the bits of a constant, and nothing uses any more."""
    if any(True for result in operation.results for _ in result.uses):
        return
    makers = [maker for value in operation.operands for name in _PARTS if (maker := _maker(value, name)) is not None]
    operation.erase()
    for maker in makers:
        erase_unused(maker)
