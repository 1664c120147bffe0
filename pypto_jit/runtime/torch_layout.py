"""Where this process's torch keeps what DLPack does not tell, so that an entry can check it in a nanosecond.

A tensor that reaches an entry through DLPack has lost its dispatch key set (which tells a negative view, a fake tensor
or any other tensor whose memory does not hold its values) and its version counter (which must move when it is written).
The Python ways to both cost a fifth of a call each. The native way needs offsets that no header promises, so they are
not assumed: they are found once per process by looking at tensors whose key sets and versions are known, through reads
that cannot fault, and are used only where every observation agrees. Where one does not, `find_torch_layout` gives None
and callers check in Python.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import tvm_ffi

from pypto_jit import abi

_TENSOR_BYTES = 192  # how much of torch's tensor is searched; c10/core/TensorImpl.h: about 200 bytes for years
_COUNTER_BYTES = 32  # and of its version counter: a vtable, reference counts and the count
_VERSIONS = (5, 11, 0, 8)


@dataclass(frozen=True)
class TorchLayout:
    """What `pypto_jit.abi.Binding` calls by the same names."""

    tensor_deleter: int
    torch_deleter: int
    key_set: int
    key_set_ignored: int
    key_set_plain: int
    version: int
    version_value: int


class _Unknown(Exception):
    """An observation that does not fit."""


@dataclass
class _Probe:
    """One tensor as seen from Python and from an entry."""

    key_set: int
    version: int | None
    words: tuple[int, ...]
    tensor_deleter: int
    torch_deleter: int


class _Memory:
    """Reads of this process's memory that raise where a pointer would fault."""

    def __init__(self, file: int) -> None:
        self._file = file

    def words(self, address: int, count: int) -> tuple[int, ...]:
        try:
            data = os.pread(self._file, 8 * count, address)
        except (OSError, OverflowError) as error:
            raise _Unknown("unmapped memory") from error
        if len(data) != 8 * count:
            raise _Unknown("the end of a mapping")
        return struct.unpack(f"<{count}Q", data)

    def word(self, address: int) -> int:
        return self.words(address, 1)[0]


@contextmanager
def _memory():
    file = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        yield _Memory(file)
    finally:
        os.close(file)


def _passed(tensor: torch.Tensor, look: Callable[[int], None]) -> None:
    """Pass a tensor through TVM-FFI and look at the tensor object that an entry gets for it."""
    failures: list[BaseException] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def receive(_handle: int, arguments: int, _count: int, _result: int) -> int:
        try:
            kind = ctypes.c_int32.from_address(arguments).value
            if kind != abi.TYPE_TENSOR:
                raise _Unknown("a tensor arrives as another type")
            look(ctypes.c_uint64.from_address(arguments + 8).value)
        except BaseException as error:
            failures.append(error)
        return 0

    address = ctypes.cast(receive, ctypes.c_void_p).value or 0
    tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=receive)(tensor)
    if failures:
        raise failures[0]


def _probe(memory: _Memory, tensor: torch.Tensor) -> _Probe:
    seen: list[_Probe] = []
    key_set = torch._C._dispatch_keys(tensor).raw_repr()
    version = None if tensor.is_inference() else tensor._version

    def look(target: int) -> None:
        managed = memory.word(target + abi.TENSOR_OWNER)
        major = memory.word(managed) & 0xFFFFFFFF
        context, deleter = memory.words(managed + abi.MANAGED_CONTEXT, 2)
        data = memory.word(managed + 32)  # DLManagedTensorVersioned.dl_tensor.data
        implementation = memory.word(context)
        own_data = memory.word(target + abi.TENSOR_DLTENSOR)
        if major != 1 or data != tensor.data_ptr() or own_data != data or implementation != tensor._cdata:
            raise _Unknown("another way of wrapping tensors")
        words = memory.words(implementation, _TENSOR_BYTES // 8)
        seen.append(_Probe(key_set, version, words, memory.word(target + abi.OBJECT_DELETER), deleter))

    _passed(tensor, look)
    return seen[0]


def _tensors() -> list[torch.Tensor]:
    """Tensors that differ in key set and version: owners and views, plain, negative, differentiable and inference."""
    with torch.inference_mode(False), torch.enable_grad():
        owners = [torch.zeros(2, 3), torch.zeros(4, dtype=torch.int8), torch.zeros(()), torch.zeros(1, 2, 3, 4, 5)]
        for owner, count in zip(owners, _VERSIONS, strict=True):
            for _ in range(count):
                torch._C._increment_version((owner,))
        parameter = torch.nn.Parameter(torch.zeros(3))
        views = [owners[0][1:], torch._neg_view(owners[0]), parameter * 2]
    with torch.inference_mode():
        frozen = torch.zeros(3)
    return [*owners, parameter, *views, frozen]


def _single(found: list[Any]) -> Any:
    if len(found) != 1:
        raise _Unknown(f"{len(found)} places fit")
    return found[0]


def _locate_version(memory: _Memory, probes: list[_Probe]) -> tuple[int, int]:
    counted = [probe for probe in probes if probe.version is not None]
    uncounted = [probe for probe in probes if probe.version is None]
    found = []
    for place in range(_TENSOR_BYTES // 8):
        if any(probe.words[place] for probe in uncounted) or not all(probe.words[place] for probe in counted):
            continue
        try:
            counters = [memory.words(probe.words[place], _COUNTER_BYTES // 8) for probe in counted]
        except _Unknown:
            continue
        for offset in range(0, _COUNTER_BYTES, 4):
            values = [counter[offset // 8] >> (32 if offset % 8 else 0) & 0xFFFFFFFF for counter in counters]
            if values == [probe.version for probe in counted]:
                found.append((8 * place, offset))
    return _single(found)


def _locate(memory: _Memory) -> TorchLayout:
    tensors = _tensors()
    probes = [_probe(memory, tensor) for tensor in tensors]
    plain, negative, frozen = probes[0].key_set, probes[-3].key_set, probes[-1].key_set
    ignored = plain & ~frozen
    if frozen & ~plain or (negative | ignored) == plain or probes[-2].key_set != plain:
        raise _Unknown("other key sets")
    places = range(_TENSOR_BYTES // 8)
    key_set = _single([8 * p for p in places if all(probe.words[p] == probe.key_set for probe in probes)])
    tensor_deleter = _single(list({probe.tensor_deleter for probe in probes}))
    torch_deleter = _single(list({probe.torch_deleter for probe in probes}))
    version, version_value = _locate_version(memory, probes)
    return TorchLayout(tensor_deleter, torch_deleter, key_set, ignored, plain, version, version_value)


@cache
def find_torch_layout() -> TorchLayout | None:
    """The offsets, or None where they cannot be established (another operating system, torch or TVM-FFI)."""
    try:
        with _memory() as memory:
            return _locate(memory)
    except (OSError, AttributeError, RuntimeError, TypeError, ValueError, _Unknown):
        return None


@cache
def find_object_layout() -> int | None:
    """Offset of torch's tensor in the Python object of a tensor; None where it cannot be established."""
    try:
        with _memory() as memory:
            tensors = _tensors()
            objects = [memory.words(id(tensor), 8) for tensor in tensors]
            for words, tensor in zip(objects, tensors, strict=True):
                if words[1] != id(type(tensor)):
                    raise _Unknown("another header of objects, as without a GIL")
            return _single(
                [8 * p for p in range(2, 8) if all(w[p] == t._cdata for w, t in zip(objects, tensors, strict=True))]
            )
    except (OSError, AttributeError, RuntimeError, _Unknown):
        return None
