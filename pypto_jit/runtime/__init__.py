"""What a compiled program needs to run: artifacts, loading, the generated caller, threads. It imports leaves only.

The names of PyPTO's ``pypto.runtime`` that exist here are found in it: ``from pypto_jit.runtime import run``.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "CompiledProgram": "pypto_jit.runtime.artifact",
    "RunConfig": "pypto_jit.options",
    "RunResult": "pypto_jit.runtime.harness",
    "run": "pypto_jit.runtime.harness",
}
_WORKERS = "kernels run in this process: call them with tensors"
_INSTEAD = {
    "ChipWorker": _WORKERS,
    "Worker": _WORKERS,
    "DistributedWorker": _WORKERS,
    "DeviceTensor": _WORKERS,
    "compile_program": "pypto_jit.compile(program, output_dir=...)",
    "execute_compiled": "pypto_jit.CompiledProgram.load(folder)(*tensors)",
    "TensorSpec": "tensors themselves: run(program, *tensors)",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name.startswith("__"):
        raise AttributeError(name)
    instead = _INSTEAD.get(name, "what there is: " + ", ".join(_PUBLIC))
    raise AttributeError(f"pypto_jit.runtime has no '{name}': {instead}", name=name, obj=None)


__all__ = list(_PUBLIC)
