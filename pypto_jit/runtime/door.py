"""A faster way into an entry for torch tensors: a CPython function that looks at them where they are.

TVM-FFI wraps every tensor in two heap objects per call. This function, written in LLVM IR and compiled once per
process, asks torch for a borrowed DLTensor of each argument on the stack instead, checks and counts what DLPack hides
by `torch_layout`, and calls the same entry. It takes tensors of exactly torch's own types, and answers a mismatch for
anything else: the generated caller then goes the general way. Where it cannot be made, callers use the entry itself.
"""

from __future__ import annotations

import ctypes
import struct
from enum import IntEnum
from functools import cache
from typing import Any

import torch

from pypto_jit import abi
from pypto_jit.runtime.native import LoadedEntry, load_code
from pypto_jit.runtime.store.snippets import stored_code
from pypto_jit.runtime.torch_layout import TorchLayout, find_torch_layout

# One bit of a 64-bit mask says whether a tensor is written.
MOST_TENSORS = 64
_METH_FASTCALL = 0x80  # CPython's methodobject.h

_TABLE = "pypto_door_table"
_SYMBOL = "pypto_door"


class _Slot(IntEnum):
    TENSOR_TYPE = 0
    PARAMETER_TYPE = 1
    IMPLEMENTATION = 2  # offset of torch's tensor in the Python object
    KEY_SET = 3
    KEY_SET_IGNORED = 4
    KEY_SET_PLAIN = 5
    VERSION = 6
    VERSION_VALUE = 7
    BORROW = 8  # DLPackExchangeAPI.dltensor_from_py_object_no_sync
    CLEAR_ERROR = 9
    AS_INTEGER = 10
    FROM_INTEGER = 11
    RELEASE = 12
    ACQUIRE = 13
    AS_BYTES = 14
    NONE = 15
    RETAIN = 16


def _load(slot: _Slot, kind: str) -> str:
    return f"load {kind}, ptr getelementptr (i64, ptr @{_TABLE}, i64 {int(slot)})"


# What a function's ``self``, a bytes object, holds.
_TARGET = struct.Struct("<QqQq")  # entry, number of tensors, mask of the written ones, whether to release the GIL

_CODE = f"""\
@{_TABLE} = global [{len(_Slot)} x i64] zeroinitializer

define ptr @{_SYMBOL}(ptr %self, ptr %args, i64 %given) {{
  %as.bytes = {_load(_Slot.AS_BYTES, "ptr")}
  %target = call ptr %as.bytes(ptr %self)
  %entry = load ptr, ptr %target
  %count.at = getelementptr i8, ptr %target, i64 8
  %count = load i64, ptr %count.at
  %written.at = getelementptr i8, ptr %target, i64 16
  %written = load i64, ptr %written.at
  %release.at = getelementptr i8, ptr %target, i64 24
  %release = load i64, ptr %release.at
  %more = sub i64 %given, %count
  %fits = icmp ule i64 %more, 1
  %tensors = alloca [48 x i8], i64 %count, align 8
  %slots = add i64 %count, 1
  %anys = alloca [16 x i8], i64 %slots, align 8
  %result = alloca [2 x i64], align 8
  br i1 %fits, label %setup, label %misfit
setup:
  store i64 0, ptr %result
  %tensor.type = {_load(_Slot.TENSOR_TYPE, "ptr")}
  %parameter.type = {_load(_Slot.PARAMETER_TYPE, "ptr")}
  %implementation.offset = {_load(_Slot.IMPLEMENTATION, "i64")}
  %key.offset = {_load(_Slot.KEY_SET, "i64")}
  %ignored = {_load(_Slot.KEY_SET_IGNORED, "i64")}
  %plain = {_load(_Slot.KEY_SET_PLAIN, "i64")}
  %borrow = {_load(_Slot.BORROW, "ptr")}
  br label %head
head:
  %k = phi i64 [ 0, %setup ], [ %next, %borrowed ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %integer, label %body
body:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %is.tensor = icmp eq ptr %type, %tensor.type
  %is.parameter = icmp eq ptr %type, %parameter.type
  %is.torch = or i1 %is.tensor, %is.parameter
  br i1 %is.torch, label %keys, label %misfit
keys:
  %implementation.at = getelementptr i8, ptr %object, i64 %implementation.offset
  %implementation = load ptr, ptr %implementation.at
  %key.at = getelementptr i8, ptr %implementation, i64 %key.offset
  %key.set = load i64, ptr %key.at
  %with.ignored = or i64 %key.set, %ignored
  %is.plain = icmp eq i64 %with.ignored, %plain
  br i1 %is.plain, label %lend, label %misfit
lend:
  %tensor = getelementptr [48 x i8], ptr %tensors, i64 %k
  %refused = call i32 %borrow(ptr %object, ptr %tensor)
  %lent = icmp eq i32 %refused, 0
  br i1 %lent, label %borrowed, label %error
borrowed:
  %any = getelementptr [16 x i8], ptr %anys, i64 %k
  store i64 {abi.TYPE_DLTENSOR_POINTER}, ptr %any
  %payload = getelementptr i8, ptr %any, i64 8
  store ptr %tensor, ptr %payload
  %next = add i64 %k, 1
  br label %head
integer:
  %has.integer = icmp eq i64 %more, 1
  br i1 %has.integer, label %convert, label %launch
convert:
  %last.at = getelementptr ptr, ptr %args, i64 %count
  %last = load ptr, ptr %last.at
  %as.integer = {_load(_Slot.AS_INTEGER, "ptr")}
  %threads = call i64 %as.integer(ptr %last)
  %positive = icmp sgt i64 %threads, 0
  %last.any = getelementptr [16 x i8], ptr %anys, i64 %count
  store i64 {abi.TYPE_INT}, ptr %last.any
  %last.payload = getelementptr i8, ptr %last.any, i64 8
  store i64 %threads, ptr %last.payload
  br i1 %positive, label %launch, label %error
launch:
  %entry.count = trunc i64 %given to i32
  %releases = icmp ne i64 %release, 0
  br i1 %releases, label %unlocked, label %locked
unlocked:
  %release.function = {_load(_Slot.RELEASE, "ptr")}
  %state = call ptr %release.function()
  %status.unlocked = call i32 %entry(ptr null, ptr %anys, i32 %entry.count, ptr %result)
  %acquire.function = {_load(_Slot.ACQUIRE, "ptr")}
  call void %acquire.function(ptr %state)
  br label %answer
locked:
  %status.locked = call i32 %entry(ptr null, ptr %anys, i32 %entry.count, ptr %result)
  br label %answer
answer:
  %kind = load i64, ptr %result
  %ran = icmp eq i64 %kind, {abi.TYPE_NONE}
  br i1 %ran, label %versions, label %refusal
refusal:
  %reason.at = getelementptr i8, ptr %result, i64 8
  %reason = load i64, ptr %reason.at
  br label %give
versions:
  %version.offset = {_load(_Slot.VERSION, "i64")}
  %value.offset = {_load(_Slot.VERSION_VALUE, "i64")}
  br label %version.head
version.head:
  %left = phi i64 [ %written, %versions ], [ %rest, %version.next ]
  %none.left = icmp eq i64 %left, 0
  br i1 %none.left, label %done, label %version.body
version.body:
  %index = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %below = sub i64 %left, 1
  %rest = and i64 %left, %below
  %written.object.at = getelementptr ptr, ptr %args, i64 %index
  %written.object = load ptr, ptr %written.object.at
  %written.implementation.at = getelementptr i8, ptr %written.object, i64 %implementation.offset
  %written.implementation = load ptr, ptr %written.implementation.at
  %counter.at = getelementptr i8, ptr %written.implementation, i64 %version.offset
  %counter = load ptr, ptr %counter.at
  %uncounted = icmp eq ptr %counter, null
  br i1 %uncounted, label %version.next, label %count.up
count.up:
  %value.at = getelementptr i8, ptr %counter, i64 %value.offset
  %old = atomicrmw add ptr %value.at, i32 1 seq_cst
  br label %version.next
version.next:
  br label %version.head
done:
  %none = {_load(_Slot.NONE, "ptr")}
  %retain = {_load(_Slot.RETAIN, "ptr")}
  call void %retain(ptr %none)
  ret ptr %none
error:
  %clear = {_load(_Slot.CLEAR_ERROR, "ptr")}
  call void %clear()
  br label %misfit
misfit:
  br label %give
give:
  %code = phi i64 [ %reason, %refusal ], [ {abi.ARITY}, %misfit ]
  %from.integer = {_load(_Slot.FROM_INTEGER, "ptr")}
  %number = call ptr %from.integer(i64 %code)
  ret ptr %number
}}

declare i64 @llvm.cttz.i64(i64, i1)
"""


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


@cache
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


def _table(layout: TorchLayout) -> list[int]:
    values = dict.fromkeys(_Slot, 0)
    values[_Slot.TENSOR_TYPE] = id(torch.Tensor)
    values[_Slot.PARAMETER_TYPE] = id(torch.nn.Parameter)
    values[_Slot.IMPLEMENTATION] = layout.implementation
    values[_Slot.KEY_SET] = layout.key_set
    values[_Slot.KEY_SET_IGNORED] = layout.key_set_ignored
    values[_Slot.KEY_SET_PLAIN] = layout.key_set_plain
    values[_Slot.VERSION] = layout.version
    values[_Slot.VERSION_VALUE] = layout.version_value
    values[_Slot.BORROW] = _borrow()
    values[_Slot.CLEAR_ERROR] = _address("PyErr_Clear")
    values[_Slot.AS_INTEGER] = _address("PyLong_AsLongLong")
    values[_Slot.FROM_INTEGER] = _address("PyLong_FromLongLong")
    values[_Slot.RELEASE] = _address("PyEval_SaveThread")
    values[_Slot.ACQUIRE] = _address("PyEval_RestoreThread")
    values[_Slot.AS_BYTES] = _address("PyBytes_AsString")
    values[_Slot.NONE] = id(None)
    values[_Slot.RETAIN] = _address("Py_IncRef")
    return [values[slot] for slot in _Slot]


@cache
def _code() -> tuple[int, Any] | None:
    """Address of the function, and what keeps it loaded; None where it cannot be made here."""
    layout = find_torch_layout()
    if layout is None or not _borrow():
        return None
    library = load_code(*stored_code("door", _CODE, _compile), (_SYMBOL, _TABLE))
    table = (ctypes.c_uint64 * len(_Slot)).from_address(library[_TABLE])
    table[:] = _table(layout)
    return library[_SYMBOL], library


def _compile() -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    return machine.emit_object(llvm.parse_assembly(_CODE))


def open_door(name: str, entry: LoadedEntry, written: list[bool], *, release_gil: bool) -> Any:
    """A function of torch tensors, and optionally a thread count, that runs an entry; None where there cannot be one.

    It returns what the entry returns; `pypto_jit.abi.ARITY` also for an argument that is no plain torch tensor.

    Args:
        name: shown as the function's name.
        written: which of the tensors the kernel writes.
        release_gil: as for `load_entry`.
    """
    code = _code()
    if code is None or len(written) > MOST_TENSORS:
        return None
    mask = sum(1 << k for k, is_written in enumerate(written) if is_written)
    target = _Target(_TARGET.pack(entry.address, len(written), mask, release_gil))
    target.entry = entry
    target.method = _Method(name.encode(), code[0], _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(target.method), target, None)
