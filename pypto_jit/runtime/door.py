"""A faster way into an entry for torch tensors: a CPython function that looks at them where they are.

TVM-FFI wraps every tensor in two heap objects per call. Each artifact therefore has a second way in
(`pypto_jit.lowering.cpu.door`), which asks torch for a borrowed DLTensor of each argument instead, checks and counts
what DLPack hides by `torch_layout`, and calls the same entry. Where torch or Python are not as it needs them, callers
use the entry itself.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.runtime.torch_layout import find_torch_layout

if TYPE_CHECKING:
    from pypto_jit.runtime.native import LoadedEntry

_METH_FASTCALL = 0x80  # CPython's methodobject.h
_TARGET = struct.Struct("<QqQqq")  # as `pypto_jit.abi` says


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Target(bytes):
    """The ``self`` of a function: what `_TARGET` packs, and what must outlive the function."""

    entry: LoadedEntry
    method: _Method


def _borrow() -> int:
    """torch's DLPackExchangeAPI.dltensor_from_py_object_no_sync; 0 where it has none (source: dlpack.h)."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = get(capsule, b"dlpack_exchange_api")
    major = ctypes.c_uint32.from_address(address).value
    return ctypes.c_uint64.from_address(address + 40).value if major == 1 else 0


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def door_values() -> Mapping[Binding, int]:
    """What the table holds for the door; empty where there cannot be one."""
    layout = find_torch_layout()
    borrow = _borrow()
    if layout is None or not borrow:
        return {}
    return {
        Binding.TENSOR_TYPE: id(torch.Tensor),
        Binding.PARAMETER_TYPE: id(torch.nn.Parameter),
        Binding.IMPLEMENTATION: layout.implementation,
        Binding.KEY_SET: layout.key_set,
        Binding.KEY_SET_IGNORED: layout.key_set_ignored,
        Binding.KEY_SET_PLAIN: layout.key_set_plain,
        Binding.VERSION: layout.version,
        Binding.VERSION_VALUE: layout.version_value,
        Binding.BORROW: borrow,
        Binding.CLEAR_ERROR: _address("PyErr_Clear"),
        Binding.AS_INTEGER: _address("PyLong_AsLongLong"),
        Binding.FROM_INTEGER: _address("PyLong_FromLongLong"),
        Binding.RELEASE: _address("PyEval_SaveThread"),
        Binding.ACQUIRE: _address("PyEval_RestoreThread"),
        Binding.AS_BYTES: _address("PyBytes_AsString"),
        Binding.NONE: id(None),
        Binding.RETAIN: _address("Py_IncRef"),
        Binding.INTEGER_TYPE: id(int),
        Binding.FLOAT_TYPE: id(float),
        Binding.BOOL_TYPE: id(bool),
        Binding.TRUE: id(True),
        Binding.AS_FLOAT: _address("PyFloat_AsDouble"),
        Binding.FAILED: _address("PyErr_Occurred"),
    }


def open_door(name: str, entry: LoadedEntry, written: Sequence[bool], *, release_gil: bool, scalars: int = 0) -> Any:
    """A function of torch tensors, scalars and optionally a thread count that runs an entry; None where there is none.

    It returns what the entry returns; `pypto_jit.abi.ARITY` also for an argument that is no plain torch tensor, or no
    int, float or bool.

    Args:
        name: shown as the function's name.
        written: which of the tensors the kernel writes.
        release_gil: as for `load_entry`.
        scalars: how many scalars follow the tensors.
    """
    if not entry.table[Binding.BORROW] or len(written) > abi.DOOR_MOST_TENSORS:
        return None
    mask = sum(1 << k for k, is_written in enumerate(written) if is_written)
    target = _Target(_TARGET.pack(entry.address, len(written), mask, release_gil, scalars))
    target.entry = entry
    target.method = _Method(name.encode(), entry.door, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(target.method), target, None)
