"""Overlap of tensors in memory, and errors for what an entry answers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import ml_dtypes
import numpy
import pytest
import torch

from pypto_jit import abi
from pypto_jit.errors import ArgumentError, BoundsError, InternalError, LaunchError, Span
from pypto_jit.runtime.arguments import inspect_tensor
from pypto_jit.runtime.launch import OverlappingInputs, as_array, failure, launch, overlaps_itself
from tests.entries import bump_program


def elements_share_memory(shape, strides) -> bool:
    places = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*map(range, shape))
    ]
    return len(set(places)) != len(places)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2), (2, 2, 2), (1, 3)])
def test_a_tensor_called_free_of_overlap_is(shape):
    for strides in itertools.product((-4, -1, 0, 1, 2, 3, 6), repeat=len(shape)):
        if elements_share_memory(shape, strides):
            assert overlaps_itself(shape, strides)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((4, 8), (8, 1)), ((4, 8), (1, 4)), ((4, 8), (20, 2)), ((2, 3, 4), (4, 8, 1)), ((1, 4), (0, 1))],
)
def test_ordinary_layouts_are_free_of_overlap(shape, strides):
    assert not overlaps_itself(shape, strides)


def test_arrays_over_the_memory_of_tensors():
    tensor = torch.arange(4, dtype=torch.bfloat16)
    array = as_array(tensor)
    assert array.dtype == ml_dtypes.bfloat16
    array[0] = 7
    assert tensor[0] == 7
    assert as_array(torch.zeros(2, requires_grad=True)).tolist() == [0, 0]
    assert as_array(array) is array


def run(program, *tensors):
    launch(program, tensors, [inspect_tensor("t", tensor) for tensor in tensors], None)


def test_inputs_that_overlap_outputs_are_to_be_copied():
    memory = torch.arange(6, dtype=torch.float32)
    program = bump_program((4,), in_place=frozenset())
    with pytest.raises(OverlappingInputs) as caught:
        run(program, memory[:4], memory[1:5])
    assert {k: copy.tolist() for k, copy in caught.value.copies.items()} == {0: [0, 1, 2, 3]}
    assert memory.tolist() == [0, 1, 2, 3, 4, 5]


def test_interleaved_tensors_do_not_overlap():
    memory = torch.zeros(4, 2)
    with pytest.raises(ArgumentError):
        run(bump_program((4,)), memory[:, 0], memory[:, 1])
    memory = torch.zeros(8)
    run(bump_program((4,)), memory[:4], memory[4:])
    assert memory.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_what_an_answer_means():
    program = replace(bump_program((4,)), checks=((Span("f.py", 1), "left"), (Span("f.py", 2), "right")))
    second = failure(program, -2)
    assert isinstance(second, BoundsError)
    assert (second.message, second.span) == ("right", Span("f.py", 2))
    assert isinstance(failure(program, abi.OUT_OF_MEMORY), LaunchError)
    misfit = failure(program, 1)
    assert isinstance(misfit, ArgumentError)
    assert "'x'" in str(misfit)
    assert isinstance(failure(program, abi.ARITY), InternalError)


def test_numpy_bfloat16_and_read_only_inputs():
    program = bump_program((4,))
    x = numpy.arange(4, dtype="float32")
    x.flags.writeable = False
    out = numpy.zeros(4, "float32")
    run(program, x, out)
    assert out.tolist() == [1, 2, 3, 4]
