"""Specifications of tensors, and keys of constants."""

from __future__ import annotations

import enum

import ml_dtypes
import numpy
import pytest
import torch

from pypto_jit.dtypes import ALL, FP32
from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import (
    FOREIGN,
    NUMPY,
    SUBCLASS,
    TORCH,
    allocator,
    canonical_spec,
    constant_key,
    describe,
    inspect_tensor,
    is_tensor,
    row_major,
)
from pypto_jit.signature import TensorSpec


@pytest.mark.parametrize(
    ("shape", "strides", "canonical"),
    [
        ((), (), ()),
        ((4, 8), (8, 1), (8, 1)),
        ((4, 8), (9, 1), (-1, 1)),
        ((4, 8), (1, 4), (-1, -1)),
        ((4, 8), (0, 1), (-1, 1)),
        ((4, 8), (-8, -1), (-1, -1)),
        ((1, 8), (77, 1), (8, 1)),
        ((8, 1), (1, 77), (1, 1)),
        ((8, 1), (3, 1), (-1, 1)),
        ((0, 8), (5, 5), (8, 1)),
        ((2, 1, 3), (3, 99, 1), (3, 3, 1)),
        ((2, 3, 4), (12, 1, 3), (-1, -1, -1)),
        ((5,), (2,), (-1,)),
    ],
)
def test_strides_are_static_only_where_contiguous(shape, strides, canonical):
    assert canonical_spec(shape, FP32, strides) == TensorSpec(shape, FP32, canonical)


def test_row_major():
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert row_major(()) == ()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_the_same_tensor_of_every_library(dtype):
    tensor = torch.zeros(3, 4, dtype=getattr(torch, dtype.torch))
    array = numpy.zeros((3, 4), dtype.numpy)
    expected = TensorSpec((3, 4), dtype, (4, 1))
    assert inspect_tensor("x", tensor).spec == inspect_tensor("x", array).spec == expected
    assert allocator(expected, TORCH)().dtype == tensor.dtype
    assert allocator(expected, NUMPY)().dtype == array.dtype


def test_kinds():
    import tvm_ffi

    class Named(torch.Tensor):
        pass

    tensor = torch.zeros(2)
    assert inspect_tensor("x", tensor).kind == inspect_tensor("x", torch.nn.Parameter(tensor)).kind == TORCH
    assert inspect_tensor("x", tensor.as_subclass(Named)).kind == SUBCLASS
    assert inspect_tensor("x", tensor.numpy()).kind == NUMPY
    assert inspect_tensor("x", tvm_ffi.from_dlpack(tensor)).kind == FOREIGN
    assert not any(map(is_tensor, (1, None, [tensor], numpy.float32(1), torch.Tensor, ml_dtypes.bfloat16(1))))


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.bool),
        numpy.zeros(2, ">f4"),
        numpy.zeros(2, "U3"),
        numpy.zeros(2, [("a", "f4"), ("b", "i2")])["a"],
        numpy.zeros(17, "u1")[1:].view("f4"),
        torch.empty(2, device="meta"),
        torch.zeros(2).to_sparse(),
    ],
)
def test_refused_with_the_name(bad):
    with pytest.raises(ArgumentError, match="'weights'"):
        inspect_tensor("weights", bad)


class Color(enum.Enum):
    RED = 1


def test_constants_by_type_and_bits():
    nan = float("nan")
    distinct = [1, 1.0, True, 0, 0.0, -0.0, False, None, "1", b"1", 1 + 0j, nan, Color.RED, FP32, torch.float32, int]
    distinct += [(1,), (1.0,), [1], numpy.float32(1), numpy.float64(1), torch.nn.Linear, 1 << 80]
    assert len({constant_key("v", value) for value in distinct}) == len(distinct)
    assert constant_key("v", nan) == constant_key("v", float("nan"))
    assert constant_key("v", (1, "a")) == constant_key("v", (1, "a"))


def test_what_cannot_be_specialized_on_is_named():
    with pytest.raises(ArgumentError, match="'state' is neither"):
        constant_key("state", object())
    with pytest.raises(ArgumentError, match="'state' is neither"):
        constant_key("state", [1, {}])


def test_describe():
    assert describe(TensorSpec((2, 3), FP32, (3, 1))) == "[2, 3] float32"
    assert describe(TensorSpec((2, 3), FP32, (-1, 1))) == "[2, 3] float32, strided"
