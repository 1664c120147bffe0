"""MLIR locations as places in the user's source."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.errors import Span


def span_of(op: ir.Operation | ir.OpView) -> Span | None:
    """Where in the user's source an operation comes from; None where it is not known."""
    return span_of_location(op.location)


def span_of_location(location: ir.Location) -> Span | None:
    """The first file, line and column that a location names, also inside of named, call-site or fused locations."""
    if location.is_a_file():
        ending = location.end_col if location.end_line == location.start_line else 0
        column = location.start_col
        return Span(location.filename, location.start_line, column, ending if ending > column else 0)
    if location.is_a_name():
        return span_of_location(location.child_loc)
    if location.is_a_callsite():
        return span_of_location(location.callee) or span_of_location(location.caller)
    if location.is_a_fused():
        for part in location.locations:
            found = span_of_location(part)
            if found is not None:
                return found
    return None
