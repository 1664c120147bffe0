"""Advice about a kernel that compiles, but could be faster. A hint has an identifier, by which it can be turned off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pypto_jit._mlir import ir
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.types import TileType, parse_type
from pypto_jit.errors import AssemblyError, Span
from pypto_jit.frontend.trace import Traced
from pypto_jit.lowering.cpu.entry import Launch
from pypto_jit.signature import TensorSpec

# Bytes that one access of global memory moves at least; PyPTO gives its hint PH001 below this.
_GRANULARITY = 512

HINTS = {
    "PH001": ("pre", "rows of fewer bytes than one access of global memory moves"),
    "PH-STRIDE": ("post", "a tensor whose strides are read at run time"),
    "PH-SERIAL": ("post", "no loop of independent blocks"),
    "PH-CHECK": ("post", "a box that is checked at run time"),
    "PH-MIXED": ("post", "cube and vector work that cannot be told apart, or what only the CPU does"),
}


class Hint(NamedTuple):
    """One piece of advice.

    Attributes:
        identifier: one of `HINTS`.
        span: where, if it has a place.
        text: what is the case.
    """

    identifier: str
    span: Span | None
    text: str

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span is not None else ""
        return f"{self.identifier}: {place}{self.text}"


def traced_hints(module: ir.Module) -> list[Hint]:
    """What can be said before the passes."""
    hints: list[Hint] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in ("pypto.load", "pypto.store"):
            value = op.results[0] if op.name == "pypto.load" else op.operands[0]
            tile = parse_type(str(value.type))
            if isinstance(tile, TileType):
                row = tile.shape[-1] * tile.dtype.bits // 8
                if row < _GRANULARITY:
                    text = f"rows of {row} bytes; one access moves {_GRANULARITY}"
                    hints.append(Hint("PH001", span_of(op.location), text))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return list(dict.fromkeys(hints))


def lowered_hints(
    traced: Traced,
    error: AssemblyError | None,
    launches: Sequence[Launch],
    checks: Sequence[tuple[Span | None, str]],
) -> list[Hint]:
    """What can be said after the passes."""
    return list(dict.fromkeys(_lowered(traced, error, launches, checks)))


def _lowered(
    traced: Traced,
    error: AssemblyError | None,
    launches: Sequence[Launch],
    checks: Sequence[tuple[Span | None, str]],
) -> Iterator[Hint]:
    for info in traced.parameters:
        if isinstance(info.spec, TensorSpec) and -1 in info.spec.strides:
            yield Hint("PH-STRIDE", None, f"'{info.name}' is not contiguous: its strides are read at run time")
    if all(launch.trips in (0, 1) for launch in launches):
        yield Hint("PH-SERIAL", None, "no top-level pl.parallel loop: the kernel runs on one core")
    for span, message in checks:
        yield Hint("PH-CHECK", span, f"checked at run time: {message}")
    if error is not None:
        yield Hint("PH-MIXED", error.span, error.message)
