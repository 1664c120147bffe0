from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.locations import span_of
from pypto_jit.errors import Span


def test_the_file_is_found_through_names_calls_and_fused_locations() -> None:
    with ir.Context():
        place = ir.Location.file("kernel.py", 3, 7)
        other = ir.Location.file("caller.py", 1, 1)
        for location in (
            place,
            ir.Location.name("x", place),
            ir.Location.callsite(place, [other]),
            ir.Location.fused([ir.Location.unknown(), place]),
        ):
            assert span_of(location) == Span("kernel.py", 3, 7)
        assert span_of(ir.Location.unknown()) is None
        assert span_of(ir.Location.fused([ir.Location.unknown(), ir.Location.unknown()])) is None
