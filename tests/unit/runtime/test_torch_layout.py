"""What is found of torch's tensors in memory agrees with what torch says of them."""

from __future__ import annotations

import ctypes
import sys

import pytest
import torch

from pypto_jit.runtime import torch_layout
from pypto_jit.runtime.torch_layout import TorchLayout, find_torch_layout

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def layout() -> TorchLayout:
    found = find_torch_layout()
    assert found is not None
    return found


def word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def is_plain(layout: TorchLayout, tensor: torch.Tensor) -> bool:
    return word(tensor._cdata + layout.key_set) | layout.key_set_ignored == layout.key_set_plain


def test_plain_tensors_are_told_from_others(layout):
    plain = torch.randn(3, 4, requires_grad=True)
    with torch.inference_mode():
        frozen = torch.zeros(2)
    for tensor in (plain, plain.detach()[1:], torch.nn.Parameter(plain), plain * 2, torch.zeros(0), frozen):
        assert is_plain(layout, tensor)
    complex_view = torch.zeros(3, dtype=torch.complex64).conj()
    for tensor in (torch._neg_view(plain), complex_view, complex_view.imag, plain.to("meta"), plain.to_sparse()):
        assert not is_plain(layout, tensor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32])
def test_every_dtype_is_plain(layout, dtype):
    assert is_plain(layout, torch.zeros(2, dtype=dtype))


def test_the_version_counter_is_the_one_torch_shows(layout):
    base = torch.zeros(4)
    view = base[1:]
    for count in range(1, 4):
        base.add_(1)
        for tensor in (base, view):
            counter = word(tensor._cdata + layout.version)
            assert ctypes.c_uint32.from_address(counter + layout.version_value).value == count == tensor._version
    with torch.inference_mode():
        assert word(torch.zeros(1)._cdata + layout.version) == 0


def test_the_object_leads_to_the_tensor(layout):
    tensor = torch.zeros(3)
    assert word(id(tensor) + layout.implementation) == tensor._cdata


@pytest.mark.parametrize("name", ["_OBJECT_TYPE", "_OBJECT_BYTES", "_TENSOR_BYTES", "_COUNTER_BYTES"])
def test_another_layout_is_noticed_and_not_used(monkeypatch, name):
    monkeypatch.setattr(torch_layout, name, 16)
    find_torch_layout.cache_clear()
    try:
        assert find_torch_layout() is None
    finally:
        find_torch_layout.cache_clear()
