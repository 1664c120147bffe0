"""``pl.tile``: the operators under PyPTO's name for the tile level. The same functions as in ``pl``."""

from __future__ import annotations

from typing import Any

from pypto_jit.language.library import gelu, sigmoid, silu, softmax, tanh
from pypto_jit.language.operators import FUNCTIONS

__all__ = ["gelu", "sigmoid", "silu", "softmax", "tanh"]
__all__ += list(FUNCTIONS)

globals().update(FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"pl.tile has no operator '{name}'")
