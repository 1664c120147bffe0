"""stage"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.cores import CUBE, MIXED, VECTOR, core_of, set_kind
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import functions, read


def run(module: ir.Operation, lowering: Lowering) -> None:
    for function in functions(module):
        cores = {core_of(node, lowering.types) for node in read(function).walk()} - {None}
        if len(cores) < 2:
            set_kind(function, CUBE if CUBE in cores else VECTOR)
        else:
            function.attributes[MIXED] = ir.StringAttr.get("cube and vector work")
