"""What a call's arguments are: tensors of which specification, or constants; and what is wrong with the others.

Used off the hot path only. The hot path is the entry's native guards.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any

import numpy
import torch

from pypto_jit.dtypes import ALL, DType
from pypto_jit.errors import ArgumentError
from pypto_jit.signature import DynVar, TensorSpec


class Omitted:
    """The value of a parameter that a call leaves out."""

    def __repr__(self) -> str:
        return "<omitted>"


OMITTED = Omitted()

TORCH = "torch"
SUBCLASS = "subclass"
NUMPY = "numpy"
FOREIGN = "foreign"

Dims = tuple[DynVar | None, ...]

_TORCH_TYPES = (torch.Tensor, torch.nn.Parameter)
_BY_TORCH: dict[torch.dtype, DType] = {getattr(torch, dtype.torch): dtype for dtype in ALL}
_BY_NUMPY: dict[Any, DType] = {dtype.numpy: dtype for dtype in ALL}
_SUPPORTED = ", ".join(dtype.torch for dtype in ALL)


@dataclass(frozen=True)
class TensorArgument:
    """A tensor of a call.

    Attributes:
        spec: its specification.
        kind: what it is an object of: torch's own types (`TORCH`) or a subclass of theirs (`SUBCLASS`), NumPy's
            (`NUMPY`), another library's (`FOREIGN`).
        number: the same for equal specifications and for no others; quicker to hash.
        plain: whether torch sees the very values that memory holds.
        shape: its extents, all of them known; those of the specification where that knows them.
    """

    spec: TensorSpec
    kind: str
    number: int
    plain: bool = True
    shape: tuple[int, ...] = ()


@cache
def _number(spec: TensorSpec) -> int:
    return next(_numbers)


_numbers = itertools.count()


@lru_cache(maxsize=4096)
def tensor_argument(
    spec: TensorSpec, kind: str, plain: bool = True, shape: tuple[int, ...] | None = None
) -> TensorArgument:
    """What a call knows of a tensor with this specification; its extents, where the specification has not all."""
    return TensorArgument(spec, kind, _number(spec), plain, spec.shape if shape is None else shape)


def is_tensor(value: Any) -> bool:
    """Whether a value is an array of any library. NumPy's scalars are numbers."""
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        return True
    return not isinstance(value, (type, numpy.generic)) and hasattr(type(value), "__dlpack__")


@lru_cache(maxsize=4096)
def canonical_spec(shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...]) -> TensorSpec:
    """The specification of a tensor with these strides in elements.

    Contiguous: row-major strides. Otherwise -1 for every dimension longer than one, but 1 for a unit innermost stride.
    """
    expected = row_major(shape)
    longer = [axis for axis, extent in enumerate(shape) if extent != 1]
    if 0 in shape or all(strides[axis] == expected[axis] for axis in longer):
        return TensorSpec(shape, dtype, expected)
    last = len(shape) - 1
    canonical = [
        expected[axis] if axis not in longer else 1 if axis == last and strides[axis] == 1 else -1
        for axis in range(len(shape))
    ]
    return TensorSpec(shape, dtype, tuple(canonical))


def renamed_spec(spec: TensorSpec, dims: tuple[DynVar | None, ...]) -> TensorSpec:
    """A specification with more extents that are only known at run time."""
    known = tuple(-1 if dim else extent for dim, extent in zip(dims, spec.shape, strict=True))
    if spec.strides == row_major(spec.shape):
        return TensorSpec(known, spec.dtype, row_major(known), dims)
    last = len(known) - 1
    return TensorSpec(known, spec.dtype, (*([-1] * last), 1 if spec.strides[last] == 1 else -1), dims)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor; -1 where they depend on an extent of -1."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step = -1 if -1 in (step, extent) else step * extent
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def dynamic_spec(
    shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...], dims: tuple[DynVar | None, ...]
) -> TensorSpec:
    """The specification of a tensor some of whose extents a kernel reads when it runs.

    Its strides are those of contiguous tensors as far as these are known, if they are the tensor's in every dimension
    longer than one; otherwise -1, except for a unit innermost stride.

    Args:
        shape, strides: of the tensor.
        dtype: of its elements.
        dims: of each dimension the name, or None where its extent is part of the specialization.
    """
    known = tuple(-1 if dim else extent for dim, extent in zip(dims, shape, strict=True))
    expected = row_major(known)
    if 0 in shape or all(
        e <= 1 or pattern in (-1, stride) for e, pattern, stride in zip(shape, expected, strides, strict=True)
    ):
        return TensorSpec(known, dtype, expected, dims)
    last = len(shape) - 1
    unit = shape[last] <= 1 or strides[last] == 1
    return TensorSpec(known, dtype, (*([-1] * last), 1 if unit else -1), dims)


def inspect_tensor(name: str, value: Any, dims: Dims = ()) -> TensorArgument:
    """The specification of a tensor argument.

    Args:
        name: of the parameter.
        value: the tensor.
        dims: of each dimension, what names its extent if that is not to be part of the specialization; not looked at
            where the tensor has another rank.

    Raises:
        ArgumentError: no kernel can take it: its device, dtype or layout; it is fake; it lies unaligned in memory.
    """
    if isinstance(value, torch.Tensor):
        return _inspect_torch(name, value, dims)
    if isinstance(value, numpy.ndarray):
        return _inspect_numpy(name, value, dims)
    return _inspect_foreign(name, value, dims)


def _spec(shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...], dims: Dims) -> TensorSpec:
    if any(dims) and len(dims) == len(shape):
        return dynamic_spec(shape, dtype, strides, dims)
    return canonical_spec(shape, dtype, strides)


@cache
def _plain_key_sets() -> frozenset[int]:
    """The dispatch key sets of tensors whose memory holds their values: ordinary ones, and those of inference mode."""
    with torch.inference_mode(False):
        ordinary = torch.zeros(())
    with torch.inference_mode():
        frozen = torch.zeros(())
    return frozenset(torch._C._dispatch_keys(tensor).raw_repr() for tensor in (ordinary, frozen))


def _inspect_torch(name: str, value: torch.Tensor, dims: Dims) -> TensorArgument:
    plain = torch._C._dispatch_keys(value).raw_repr() in _plain_key_sets()
    kind = TORCH if type(value) in _TORCH_TYPES else SUBCLASS
    if not plain:
        _check_backing(name, value)
        # A negative view is passed as a copy with its signs applied, whose strides may be others.
        value = value.resolve_neg()
    argument = _torch_argument(value.shape, value.dtype, value.stride(), kind, plain, dims)
    if argument is None:
        raise _bad_dtype(name, value.dtype, _nearest(name, value))
    size = argument.spec.dtype.bytes
    if size > 1 and value.data_ptr() % size:
        _check_alignment(name, value.data_ptr(), argument.spec.dtype, value.numel())
    return argument


@lru_cache(maxsize=4096)
def _torch_argument(
    shape: tuple[int, ...], dtype: torch.dtype, strides: tuple[int, ...], kind: str, plain: bool, dims: Dims
) -> TensorArgument | None:
    known, shape = _BY_TORCH.get(dtype), tuple(shape)
    return None if known is None else tensor_argument(_spec(shape, known, strides, dims), kind, plain, shape)


def torch_dtype(name: str, value: torch.Tensor) -> DType:
    """The dtype of torch's tensor as kernels have it.

    Raises:
        ArgumentError: they do not have it.
    """
    known = _BY_TORCH.get(value.dtype)
    if known is None:
        raise _bad_dtype(name, value.dtype, _nearest(name, value))
    return known


def _nearest(name: str, value: torch.Tensor) -> str:
    if value.is_complex():
        return f"torch.view_as_real({name})"
    return f"{name}.float()" if value.is_floating_point() else f"{name}.int()"


def _check_backing(name: str, value: torch.Tensor) -> None:
    """Raise where the tensor has no memory of this machine that holds its values."""
    keys = torch._C._dispatch_keys(value)
    key = torch._C.DispatchKey
    wrapped = keys.has(key.Python) or keys.has(key.FuncTorchBatched) or keys.has(key.Functionalize)
    if wrapped:
        raise ArgumentError(
            f"'{name}' is no ordinary tensor: torch only pretends that it has values, or keeps them elsewhere",
            found=f"a {type(value).__module__}.{type(value).__qualname__}",
            hint="call the kernel with real tensors, outside of torch.compile, vmap and fake tensor modes",
        )
    if value.device.type != "cpu":
        raise ArgumentError(
            f"'{name}' is not in the CPU's memory",
            found=f"a tensor on device '{value.device}'",
            expected="device 'cpu'",
            hint=None if value.device.type == "meta" else f"pass {name}.cpu()",
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise ArgumentError(
            f"'{name}' is not a dense tensor", found=f"layout {value.layout}", hint=f"pass {name}.to_dense()"
        )


def _inspect_numpy(name: str, value: numpy.ndarray, dims: Dims) -> TensorArgument:
    dtype = _BY_NUMPY.get(value.dtype)
    if dtype is None:
        raise _bad_dtype(name, value.dtype, f"{name}.astype('float32')")
    if any(stride % dtype.bytes for stride, extent in zip(value.strides, value.shape, strict=True) if extent > 1):
        raise ArgumentError(f"the strides of '{name}' are no multiples of its element size", found=value.strides)
    _check_alignment(name, value.ctypes.data, dtype, value.size)
    strides = tuple(stride // dtype.bytes for stride in value.strides)
    return tensor_argument(_spec(value.shape, dtype, strides, dims), NUMPY, True, value.shape)


def _inspect_foreign(name: str, value: Any, dims: Dims) -> TensorArgument:
    """Any other library's array, as torch sees it through DLPack."""
    try:
        viewed = torch.from_dlpack(value)
    except Exception as error:
        raise ArgumentError(
            f"'{name}' cannot be exchanged through DLPack: {error}", found=f"a {type(value).__qualname__}"
        ) from error
    argument = _inspect_torch(name, viewed, dims)
    return tensor_argument(argument.spec, FOREIGN, True, argument.shape)


def _bad_dtype(name: str, dtype: Any, hint: str) -> ArgumentError:
    return ArgumentError(
        f"'{name}' has a dtype that kernels do not have", found=dtype, expected=_SUPPORTED, hint=f"pass {hint}"
    )


def _check_alignment(name: str, address: int, dtype: DType, count: int) -> None:
    if count and address % dtype.bytes:
        raise ArgumentError(
            f"'{name}' is not aligned to its elements in memory",
            found=f"address {address:#x}",
            expected=f"a multiple of {dtype.bytes}",
            hint=f"pass a copy of {name}",
        )


def constant_key(name: str, value: Any) -> Any:
    """A hashable key that tells constants apart by type and bits: 1, 1.0, True, 0.0, -0.0 differ, NaN equals itself.

    Raises:
        ArgumentError: the value cannot be specialized on.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return (kind, value)
    if kind is float:
        return (kind, struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<2d", value.real, value.imag))
    if isinstance(value, numpy.generic):
        return (kind, value.tobytes())
    if kind in (tuple, list):
        return (kind, tuple(constant_key(name, item) for item in value))
    if kind is DType or isinstance(value, (Enum, torch.dtype, type)):
        return (kind, value)
    if callable(value) and hasattr(value, "__code__"):
        return (kind, value)
    raise ArgumentError(
        f"'{name}' is neither a tensor nor a constant that a kernel can be specialized on",
        found=f"a {kind.__module__}.{kind.__qualname__}",
        expected="a tensor, or a number, bool, string, dtype, enum, function, None, or a tuple or list of these",
    )


def describe(spec: TensorSpec) -> str:
    """A specification in the user's words."""
    strides = "" if spec.strides == row_major(spec.shape) else ", strided"
    return f"{spec.shown} {spec.dtype.torch}{strides}"


def allocator(spec: TensorSpec, kind: str, shape: tuple[int, ...] | None = None) -> Callable[[], Any]:
    """What makes new, contiguous, uninitialized tensors of the library ``kind``; of a shape that the specification
    does not tell, if given."""
    shape = spec.shape if shape is None else shape
    if kind == NUMPY:
        return partial(numpy.empty, shape, spec.dtype.numpy)
    # A third of what torch.empty takes.
    return partial(torch.empty_strided, shape, row_major(shape), dtype=getattr(torch, spec.dtype.torch))
