"""``pl.tensor``: the operators under PyPTO's name for the tensor level. The same functions as in ``pl``, but ``full``,
which makes a tensor."""

from __future__ import annotations

import difflib
from typing import Any

# PyPTO's names that are called differently in ``pl``.
_NAMES = {"create": "create_tensor"}
# What ``pl`` has for other things than tensors.
_OTHERS = frozenset({"load", "store", "move", "create_tile", "tile", "array", "tensor", "system", "tensor_level"})


def __getattr__(name: str) -> Any:
    import pypto_jit.language as pl

    if name == "full":
        from pypto_jit.language.filling import full

        return full
    if name not in _OTHERS and not name.startswith("_"):
        found = getattr(pl, _NAMES.get(name, name), None) if _NAMES.get(name, name) in pl.__all__ else None
        if callable(found) and not isinstance(found, type):
            return found
    known = [each for each in (*pl.__all__, *_NAMES) if each not in _OTHERS]
    near = [] if name.startswith("__") else difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean pl.tensor.{near[0]}?" if near else ""
    raise AttributeError(f"pl.tensor has no operator '{name}'{hint}", name=name, obj=None)
