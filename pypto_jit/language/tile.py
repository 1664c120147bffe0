"""``pl.tile``: the operators under PyPTO's name for the tile level. The same functions as in ``pl``."""

from __future__ import annotations

from typing import Any

from pypto_jit.language.library import gelu, sigmoid, silu, softmax, tanh
from pypto_jit.language.operators import FUNCTIONS
from pypto_jit.language.parts import assemble, fillpad_expand, fillpad_inplace, slice

create = FUNCTIONS["create_tile"]
arange = FUNCTIONS["ci"]

__all__ = [
    "arange",
    "assemble",
    "create",
    "fillpad_expand",
    "fillpad_inplace",
    "gelu",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "tanh",
]
__all__ += list(FUNCTIONS)

globals().update(FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"pl.tile has no operator '{name}'")
