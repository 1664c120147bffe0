"""The names of PyPTO's ``pypto.ir`` that exist here: ``from pypto_jit import ir; ir.compile(Program)``."""

from __future__ import annotations

from typing import Any

from pypto_jit import _texts
from pypto_jit._programs import CompiledEntries, Program
from pypto_jit.errors import Span
from pypto_jit.language.functions import FunctionType
from pypto_jit.language.tasks import Level, Role
from pypto_jit.options import MemoryPlanner, OptimizationStrategy
from pypto_jit.runtime.artifact import CompiledProgram

_INSTEAD = {
    "Function": "functions of a program are kernels: Program.functions",
    "PassManager": "the passes are the compiler's: see what they do with kernel.lower(...)",
    "PassContext": "the passes are the compiler's: see what they do with kernel.lower(...)",
    "python_print": "the text of a kernel at each stage is kernel.lower(...)",
    "DistributedConfig": "kernels run on one device",
}


def compile(
    program: Any,
    output_dir: str | None = None,
    strategy: OptimizationStrategy = OptimizationStrategy.Default,
    *,
    skip_ptoas: bool = False,
    **options: Any,
) -> Any:
    """Compile a program: `pypto_jit.compile` with the arguments that PyPTO takes by position.

    Args:
        program: a class decorated with ``pl.program``; or what ``f.lower(...)`` returned.
        output_dir, strategy: as there.
        skip_ptoas: accepted: the vendor's assembler is not needed here.
        options: the others of `pypto_jit.compile`.

    Raises:
        PyptoError: as there.
    """
    return _texts.compile(program, output_dir=output_dir, strategy=strategy, **options)


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name, "what there is: " + ", ".join(__all__))
    raise AttributeError(f"pypto_jit.ir has no '{name}': {instead}", name=name, obj=None)


__all__ = [
    "CompiledEntries",
    "CompiledProgram",
    "FunctionType",
    "Level",
    "MemoryPlanner",
    "OptimizationStrategy",
    "Program",
    "Role",
    "Span",
    "compile",
]
