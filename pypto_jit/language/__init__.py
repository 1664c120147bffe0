"""What a kernel author writes: ``import pypto_jit.language as pl``.

Dtypes, memories, annotations, operators on tiles, and loops. The operators come from the operator table; they record
into the trace in progress and are errors outside of a kernel.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from pypto_jit.dtypes import (
    BF16,
    BOOL,
    FP16,
    FP32,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    DType,
)
from pypto_jit.language import arrays as array
from pypto_jit.language import methods as methods
from pypto_jit.language import system, tasks, tensor, tensors, tile
from pypto_jit.language.annotations import InOut, Out, constexpr, dynamic
from pypto_jit.language.arrays import Array
from pypto_jit.language.control import cond, parallel, pipeline, range, unroll, while_, yield_
from pypto_jit.language.division import ceil, clamp, floor, floor_divide, pow, remainder, round, square, trunc
from pypto_jit.language.einsum import einsum
from pypto_jit.language.expressions import reduce
from pypto_jit.language.filling import arange, ones, zeros
from pypto_jit.language.functions import FunctionType, func_attr
from pypto_jit.language.library import gelu, sigmoid, silu, softmax, tanh
from pypto_jit.language.operators import FUNCTIONS, AtomicType
from pypto_jit.language.parts import PadValue, assemble, fillpad_expand, fillpad_inplace, slice
from pypto_jit.language.scalars import Scalar, fold
from pypto_jit.language.signatures import checked
from pypto_jit.language.statics import const, static_assert, static_print
from pypto_jit.language.tensor_level import (
    argmax,
    argmin,
    cumsum,
    expand,
    full_like,
    layer_norm,
    mean,
    ones_like,
    prod,
    rms_norm,
    sum,
    where,
    zeros_like,
)
from pypto_jit.language.values import Tensor, Tile
from pypto_jit.signature import RUNTIME, DynVar
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
globals().update({name: getattr(module, name) for module in (tasks, tensors) for name in module.__all__})


def _are_axes(given: tuple[Any, ...], axis: Any) -> bool:
    """Whether what follows a tensor says which axes to reduce: nothing, or what might be given by keyword too."""
    return not given or (axis is None and len(given) == 1 and isinstance(given[0], (int, tuple, list)))


@checked
def min(*scalars: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest of scalars, known now or when the kernel runs; or of a tensor, over some axes."""
    if isinstance(scalars[0] if scalars else None, Tensor) and _are_axes(scalars[1:], axis):
        return reduce("min", scalars[0], scalars[1] if len(scalars) == 2 else axis, keepdims)
    return fold("min", scalars)


@checked
def max(*scalars: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest of scalars, known now or when the kernel runs; or of a tensor, over some axes."""
    if isinstance(scalars[0] if scalars else None, Tensor) and _are_axes(scalars[1:], axis):
        return reduce("max", scalars[0], scalars[1] if len(scalars) == 2 else axis, keepdims)
    return fold("max", scalars)


# What is made of functions needs the compiler, and so is fetched when it is first asked for.
_DECORATORS = {
    "function": "pypto_jit._functions",
    "inline": "pypto_jit._functions",
    "jit": "pypto_jit._functions",
    "program": "pypto_jit._programs",
}
_AS_TEXT = "a kernel is a Python function; PTO assembly and traced modules compile with pypto_jit.compile(text)"
_ELSEWHERE = dict.fromkeys(("parse", "loads", "parse_program", "loads_program"), _AS_TEXT)


def __getattr__(name: str) -> Any:
    if name in _DECORATORS:
        value = getattr(importlib.import_module(_DECORATORS[name]), name)
        globals()[name] = value
        return value
    if name in _ELSEWHERE:
        raise AttributeError(f"pypto_jit.language has no '{name}': {_ELSEWHERE[name]}", name=name, obj=None)
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
    "INT64",
    "RUNTIME",
    "UINT8",
    "UINT16",
    "UINT32",
    "Array",
    "AtomicType",
    "DType",
    "DynVar",
    "FunctionType",
    "InOut",
    "Mem",
    "MemorySpace",
    "Out",
    "PadValue",
    "Scalar",
    "Tensor",
    "Tile",
    "arange",
    "argmax",
    "argmin",
    "array",
    "assemble",
    "ceil",
    "clamp",
    "cond",
    "const",
    "constexpr",
    "cumsum",
    "dynamic",
    "einsum",
    "expand",
    "fillpad_expand",
    "fillpad_inplace",
    "floor",
    "floor_divide",
    "full_like",
    "func_attr",
    "function",
    "gelu",
    "inline",
    "jit",
    "layer_norm",
    "max",
    "mean",
    "min",
    "ones",
    "ones_like",
    "parallel",
    "pipeline",
    "pow",
    "prod",
    "program",
    "range",
    "remainder",
    "rms_norm",
    "round",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "square",
    "static_assert",
    "static_print",
    "sum",
    "system",
    "tanh",
    "tensor",
    "tile",
    "trunc",
    "unroll",
    "where",
    "while_",
    "yield_",
    "zeros",
    "zeros_like",
]
__all__ += list(FUNCTIONS)
__all__ += tasks.__all__ + tensors.__all__
