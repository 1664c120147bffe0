"""What a location says of the user's source, through the wrappers MLIR puts around it."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.errors import Span

# A location in a file of this name ending is a line of assembly, not of the user's Python.
ASSEMBLY_SUFFIX = ".pto"


def file_location(location: ir.Location) -> ir.Location | None:
    """The file location within a name, call site or fused location, or None."""
    if location.is_a_file():
        return location
    inner: list[ir.Location] = []
    if location.is_a_name():
        inner = [location.child_loc]
    elif location.is_a_callsite():
        inner = [location.callee, location.caller]
    elif location.is_a_fused():
        inner = list(location.locations)
    return next((found for found in map(file_location, inner) if found is not None), None)


def span_of(location: ir.Location) -> Span | None:
    """The span of a location, or None where it is unknown."""
    place = file_location(location)
    if place is None:
        return None
    end = place.end_col if place.end_line == place.start_line and place.end_col > place.start_col else 0
    return Span(place.filename, place.start_line, place.start_col, end)
