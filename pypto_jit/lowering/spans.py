"""Operations as places in the user's source."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.locations import span_of as span_of_location
from pypto_jit.errors import Span

__all__ = ["span_of", "span_of_location"]


def span_of(op: ir.Operation | ir.OpView) -> Span | None:
    """Where in the user's source an operation comes from; None where it is not known."""
    return span_of_location(op.location)
