"""``dead-code``: operations whose results nothing uses go, as far as they do nothing but make a result.

IRDL operations carry no traits, so upstream passes must leave them alone.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.lowering import Lowering

_PURE = frozenset({"pypto.dim", "pypto.view"})


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Remove dead operations of every function; whether there were any."""
    changed = False
    for _, body in lowering.bodies(module):
        for node in reversed(list(body.walk())):
            pure = node.row.pure if node.row is not None else node.name in _PURE or node.name.startswith("arith.")
            if pure and not any(_used(result) for result in node.results):
                node.op.erase()
                changed = True
    return changed


def _used(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None
