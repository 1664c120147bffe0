"""Whole tensors one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto_jit.dialects.rules.tensors import promote
from pypto_jit.errors import ShapeError
from pypto_jit.language.expressions import axes_of, operand_of, sides_of, type_of
from pypto_jit.language.extents import made
from pypto_jit.language.tensors import create_tensor
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor


def concatenated(tensors: Sequence[Any], axis: Any) -> Tensor:
    """Tensors one after another along an axis, as a new tensor in memory; dtypes are promoted.

    Raises:
        ShapeError: they differ along another axis, or there is no such axis.
    """
    kinds = [type_of(operand_of("concat", tensor)) for tensor in tensors]
    sides = [sides_of(tensor) for tensor in tensors]
    along = axes_of("concat", tensors[0], axis)
    rank, place = kinds[0].rank, along[0] if len(along) == 1 else -1
    shapes = [[*shape[:place], *shape[place + 1 :]] for shape in sides]
    if not 0 <= place < rank or any(kind.rank != rank for kind in kinds) or any(s != shapes[0] for s in shapes):
        raise ShapeError(
            "concat takes tensors that differ along one axis",
            span=here(),
            found=" and ".join(str(list(shape)) for shape in sides) + f" along axis {axis}",
        )
    dtype, extents, first = kinds[0].dtype, made(sides[0]), 0
    along_it = [made([shape[place]])[0] for shape in sides]
    for kind in kinds[1:]:
        dtype = promote(dtype, kind.dtype)
    extents[place] = sum(along_it[1:], along_it[0])
    result = create_tensor(extents, dtype)
    for tensor, extent in zip(tensors, along_it, strict=True):
        after = first + extent
        result[tuple(slice(first, after) if k == place else slice(None) for k in range(rank))] = tensor
        first = after
    return result
