from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.errors import Span
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.spans import span_of_location


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ('loc("a.py":3:5)', Span("a.py", 3, 5)),
        ('loc("a.py":3:5 to 3:9)', Span("a.py", 3, 5, 9)),
        ('loc("a.py":3:5 to 4:2)', Span("a.py", 3, 5)),
        ('loc("exp"("a.py":3:5))', Span("a.py", 3, 5)),
        ('loc(callsite("a.py":3:5 at "b.py":7:1))', Span("a.py", 3, 5)),
        ('loc(callsite(unknown at "b.py":7:1))', Span("b.py", 7, 1)),
        ('loc(fused[unknown, "a.py":3:5])', Span("a.py", 3, 5)),
        ("loc(unknown)", None),
    ],
)
def test_the_place_in_the_users_source(text, span):
    with borrowed_context():
        module = ir.Module.parse(f"module {{ func.func private @f() {text} }}")
        assert span_of_location(module.body.operations[0].location) == span
