"""Arrays on the core: a few integers that a kernel reads and writes one by one. ``pl.Array``, ``pl.array``."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from pypto_jit.dialects.operators import ARRAY_DTYPES
from pypto_jit.dialects.types import ArrayType
from pypto_jit.dtypes import BY_NAME, INDEX, SCALARS, TASK_ID, DType
from pypto_jit.errors import DecoratorError, DTypeError, TraceError
from pypto_jit.language.annotations import ArrayAnnotation
from pypto_jit.language.attributes import Attributed
from pypto_jit.language.indices import element, integer
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import emit, tile_scalar

_DTYPES = tuple(dtype for dtype in (*BY_NAME.values(), *SCALARS) if dtype in ARRAY_DTYPES)


class Array(Attributed):
    """An array on the core. It is memory: what is written stays, also through the loops and branches of the kernel.

    ``pl.Array[16, pl.INT32]`` annotates a local variable.

    Attributes:
        type: number and dtype of the elements.
    """

    __slots__ = ("handle", "region", "type")
    _called = "an array"

    def __init__(self, handle: Any, type: ArrayType, region: Any) -> None:
        self.handle = handle
        self.type = type
        self.region = region

    def __class_getitem__(cls, item: Any) -> ArrayAnnotation:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], Integral):
            raise DecoratorError(
                "pl.Array[...] takes a size and a dtype", found=item, expected="pl.Array[16, pl.INT32]"
            )
        if item[1] not in ARRAY_DTYPES:
            raise DecoratorError("an array has elements of this dtype", found=item[1], expected=_listed())
        return ArrayAnnotation(int(item[0]), item[1])

    @property
    def size(self) -> int:
        """The number of elements: a plain int."""
        return self.type.size

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.type.dtype

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Array[{self.size}, {self.dtype}]"

    def __iter__(self) -> Any:
        return (self[k] for k in range(self.size))

    def __getitem__(self, index: Any) -> Any:
        return emit("array_get", (self,), None, element((index,), (self.size,), "an array"))

    def __setitem__(self, index: Any, value: Any) -> None:
        place = element((index,), (self.size,), "an array")
        emit("array_set", (_value(value, self.dtype), self), None, place)


def _listed() -> str:
    return ", ".join(f"pl.{dtype}" for dtype in _DTYPES)


def _value(value: Any, dtype: DType) -> Scalar:
    if dtype != TASK_ID:
        return tile_scalar("an array", value, dtype)
    if isinstance(value, Scalar) and value.dtype == INDEX:
        return value
    raise DTypeError(
        "an array of TASK_ID holds tasks", span=here(), found=value, expected="what `with pl.at(...) as tid` gives"
    )


@checked
def create(size: Any, dtype: DType) -> Array:
    """An array on the core; its elements are zero, those of a TASK_ID array are no task.

    Args:
        size: number of elements, known while tracing.
        dtype: INT8, INT16, INT32, INT64, INDEX, BOOL or TASK_ID.
    """
    current("pl.array.create")
    if isinstance(size, Scalar):
        raise TraceError("the size of an array is static", span=here(), found=size, expected="a Python integer")
    if dtype not in ARRAY_DTYPES:
        raise DTypeError("an array has no elements of this dtype", span=here(), found=dtype, expected=_listed())
    length = integer(size, "the size of an array")
    return emit("array_create", (), {"size": length, "dtype": dtype, "fill": -1 if dtype == TASK_ID else 0})


@checked
def get_element(array: Any, index: Any) -> Any:
    """``array[index]``."""
    return array[index]


@checked
def update_element(array: Any, index: Any, value: Any) -> Array:
    """``array[index] = value``; the array."""
    array[index] = value
    return array


__all__ = ["Array", "create", "get_element", "update_element"]
