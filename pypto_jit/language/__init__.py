"""What a kernel author writes: ``import pypto_jit.language as pl``.

Dtypes, memories, annotations, operators on tiles, and loops. The operators come from the operator table; they record
into the trace in progress and are errors outside of a kernel.
"""

from __future__ import annotations

import difflib
from typing import Any

from pypto_jit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT16, INT32, UINT8, DType
from pypto_jit.language import system, tasks, tile
from pypto_jit.language.annotations import InOut, Out, constexpr
from pypto_jit.language.control import parallel, range
from pypto_jit.language.library import gelu, sigmoid, silu, softmax, tanh
from pypto_jit.language.operators import FUNCTIONS
from pypto_jit.language.scalars import Scalar, fold
from pypto_jit.language.values import Tensor, Tile
from pypto_jit.targets import Space


class Mem:
    """The memories of the machine: Vec (unified buffer), Mat (L1), Left (L0A), Right (L0B), Acc (L0C), Bias."""

    Vec = Space.VEC
    Mat = Space.MAT
    Left = Space.LEFT
    Right = Space.RIGHT
    Acc = Space.ACC
    Bias = Space.BIAS


MemorySpace = Mem

globals().update(FUNCTIONS)
globals().update({name: getattr(tasks, name) for name in tasks.__all__})


def min(*scalars: Any) -> Any:
    """The smallest of scalars, known now or when the kernel runs."""
    return fold("min", scalars)


def max(*scalars: Any) -> Any:
    """The largest of scalars, known now or when the kernel runs."""
    return fold("max", scalars)


def __getattr__(name: str) -> Any:
    if name == "jit":
        from pypto_jit._jit import jit

        return jit
    near = [] if name.startswith("__") else difflib.get_close_matches(name, __all__, 1)
    hint = f"; did you mean pl.{near[0]}?" if near else ""
    raise AttributeError(f"pypto_jit.language has no '{name}'{hint}", name=name, obj=None)


__all__ = [
    "BF16",
    "BOOL",
    "FP16",
    "FP32",
    "INDEX",
    "INT8",
    "INT16",
    "INT32",
    "UINT8",
    "DType",
    "InOut",
    "Mem",
    "MemorySpace",
    "Out",
    "Scalar",
    "Tensor",
    "Tile",
    "constexpr",
    "gelu",
    "jit",
    "max",
    "min",
    "parallel",
    "range",
    "sigmoid",
    "silu",
    "softmax",
    "system",
    "tanh",
    "tile",
]
__all__ += list(FUNCTIONS)
__all__ += tasks.__all__
