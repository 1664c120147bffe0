"""The dtype rows against numpy, torch and DLPack."""

import ml_dtypes
import numpy as np
import pytest
import torch

from pypto_jit import dtypes


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_rows_agree_with_torch_and_numpy(dtype):
    tensor = torch.zeros(1, dtype=getattr(torch, dtype.torch))
    assert tensor.element_size() == dtype.bytes
    assert tensor.is_floating_point() == dtype.is_float
    assert dtype.numpy.itemsize == dtype.bytes
    assert (dtype.dlpack, dtype.bits) in dtypes.BY_DLPACK


def test_dlpack_codes_are_those_torch_exports():
    for dtype in dtypes.ALL:
        if dtype is dtypes.BF16:
            continue  # numpy has no DLPack bfloat16 to compare with
        array = np.from_dlpack(torch.zeros(1, dtype=getattr(torch, dtype.torch)))
        assert array.dtype == dtype.numpy


def test_names():
    assert dtypes.BF16.numpy == ml_dtypes.bfloat16
    assert dtypes.UINT8.signless == "i8"
    assert dtypes.FP16.signless == "f16"
    assert repr(dtypes.INT32) == "INT32"
