"""What a pass is told: the target, the types of the context it runs in, and the module as read by earlier passes."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HOST
from pypto_jit.lowering.tree import Body, functions, read
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Target


class Lowering:
    """One run of the pipeline.

    Attributes:
        target: the machine.
        types: the types of the context.
    """

    def __init__(self, target: Target, types: TypeTable) -> None:
        self.target = target
        self.types = types
        self._read: list[tuple[ir.Operation, Body]] | None = None

    def bodies(self, module: ir.Operation) -> list[tuple[ir.Operation, Body]]:
        """Every kernel with its body, read from MLIR once until a pass changes the module."""
        if self._read is None:
            self._read = [(f, read(f)) for f in functions(module) if HOST not in f.attributes]
        return self._read

    def changed(self) -> None:
        """Forget what was read."""
        self._read = None
