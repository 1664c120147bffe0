"""Stand-ins for values that a path does not have: something of the right type that nothing reads."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.frontend.builder import Builder
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tile


def placeholder(builder: Builder, sample: Tile | Scalar, block: ir.Block) -> ir.Value:
    """A value of the type of a sample: an unwritten tile, made at the end of a block, or zero."""
    if isinstance(sample, Scalar):
        return builder.constant(0, sample.dtype).handle
    kind = builder.type(str(sample.type))
    made = ir.Operation.create("pypto.create_tile", [kind], loc=builder.location, ip=ir.InsertionPoint(block))
    return made.results[0]
