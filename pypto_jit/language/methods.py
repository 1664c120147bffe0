"""The methods of tensors and tiles: every operator function whose first operand is one, and torch's names for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rows.families import WITH_SCALAR
from pypto_jit.dtypes import ALL, BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.language import division, library, parts, tensor_level, tensors
from pypto_jit.language.expressions import reduce, takes_tensors
from pypto_jit.language.operators import FUNCTIONS
from pypto_jit.language.signatures import method
from pypto_jit.language.values import Tensor, Tile

_Function = Callable[..., Any]


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element over some axes; over all where none is given."""
    return reduce("max", x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element over some axes; over all where none is given."""
    return reduce("min", x, axis, keepdims)


def where(x: Any, mask: Any, y: Any) -> Any:
    """These elements where a mask is not zero, those of ``y`` elsewhere."""
    return tensor_level.where(mask, x, y)


def to(x: Any, dtype: DType) -> Any:
    """The elements in another dtype, as torch converts them: floats toward zero to integers, to nearest to floats."""
    return FUNCTIONS["cast"](x, dtype, "trunc" if dtype in ALL and not dtype.is_float else "rint")


def _converted(dtype: DType) -> _Function:
    def convert(x: Any) -> Any:
        return to(x, dtype)

    convert.__doc__ = f"The elements in {dtype}, as torch converts them."
    return convert


# Rows for a tile and a scalar: their functions are those of two tiles.
_WITH_SCALAR = {row for pair in WITH_SCALAR.values() for row in pair}


def _of_rows(takes: Callable[[str], bool]) -> dict[str, _Function]:
    """The functions of rows whose first operand is the value."""
    return {
        name: function
        for name, function in FUNCTIONS.items()
        if BY_NAME[name].operands and BY_NAME[name].operands[0].kind == "tile" and takes(name)
        if name not in _WITH_SCALAR
    }


_COMPOSITES = {function.__name__: function for function in (getattr(library, name) for name in library.__all__)}
_CONVERSIONS = {
    name: _converted(dtype)
    for name, dtype in (
        *(("float", FP32), ("half", FP16), ("bfloat16", BF16)),
        *(("int", INT32), ("short", INT16), ("char", INT8), ("byte", UINT8)),
    )
}
_OF_BOTH = {**_COMPOSITES, **_CONVERSIONS, "to": to, "slice": parts.slice, "assemble": parts.assemble}
_OF_TENSORS: dict[str, _Function] = {
    **_of_rows(takes_tensors),
    **_OF_BOTH,
    **{name: getattr(tensor_level, name) for name in tensor_level.METHODS},
    **{name: getattr(division, name) for name in division.__all__},
    **{function.__name__: function for function in (max, min, where, tensors.view)},
}
_OF_TILES: dict[str, _Function] = {
    **_of_rows(lambda name: True),
    **_OF_BOTH,
    **{function.__name__: function for function in (parts.fillpad_expand, parts.fillpad_inplace)},
}

for _kind, _methods in ((Tensor, _OF_TENSORS), (Tile, _OF_TILES)):
    for _name, _function in _methods.items():
        setattr(_kind, _name, method(_function, _name))
