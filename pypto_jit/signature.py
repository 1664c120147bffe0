"""What a specialization is keyed on, and what an artifact says of its parameters. A leaf module."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit.dtypes import DType


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument as a specialization sees it.

    Attributes:
        shape: extents.
        dtype: element type.
        strides: in elements; -1 where the kernel reads the stride at run time. A contiguous tensor has its row-major
            strides here; any other has -1 for each dimension longer than one, except a unit innermost stride.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Constant:
    """A Python value the kernel is specialized on, by type and value."""

    value: object


@dataclass(frozen=True)
class ParamInfo:
    """One parameter of a compiled kernel.

    Attributes:
        name: as written.
        direction: ``in``, ``out`` or ``inout``.
        spec: its tensor specification, or the constant it was specialized on.
    """

    name: str
    direction: str
    spec: TensorSpec | Constant
