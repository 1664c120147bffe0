"""Where this process's torch keeps what DLPack does not tell, so that a call can check it in a nanosecond.

A tensor seen through DLPack has lost its dispatch key set (which tells a negative view, a fake tensor or any other
tensor whose memory does not hold its values) and its version counter (which must move when it is written). The Python
ways to both cost a fifth of a call each. The native way needs offsets that no header promises, so they are not assumed:
they are found once per process by looking at tensors whose key sets and versions are known, through reads that cannot
fault, and are used only where every observation agrees. Where one does not, `find_torch_layout` gives None and callers
check in Python.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

_OBJECT_BYTES = 64  # how much of a Python tensor is searched: CPython's header, then torch's fields
_TENSOR_BYTES = 192  # and of torch's own tensor; c10/core/TensorImpl.h: about 200 bytes for years
_COUNTER_BYTES = 32  # and of its version counter: a vtable, reference counts and the count
_OBJECT_TYPE = 8  # offset of the type in a Python object, where there is a GIL
_VERSIONS = (5, 11, 0, 8)


@dataclass(frozen=True)
class TorchLayout:
    """Offsets in bytes, and key sets.

    Attributes:
        implementation: in the Python object of a tensor, the pointer to torch's own tensor.
        key_set: in torch's tensor, its dispatch key set.
        key_set_ignored: bits a plain tensor may lack: the autograd keys, which inference tensors do not have.
        key_set_plain: a plain CPU tensor's key set, with those bits.
        version: in torch's tensor, the pointer to its version counter; null in inference tensors.
        version_value: in the counter, the 32-bit count.
    """

    implementation: int
    key_set: int
    key_set_ignored: int
    key_set_plain: int
    version: int
    version_value: int


class _Unknown(Exception):
    """An observation that does not fit."""


class _Memory:
    """Reads of this process's memory that raise where a pointer would fault."""

    def __init__(self, file: int) -> None:
        self._file = file

    def words(self, address: int, size: int) -> tuple[int, ...]:
        """The 64-bit words of ``size`` bytes."""
        try:
            data = os.pread(self._file, size, address)
        except (OSError, OverflowError) as error:
            raise _Unknown("unmapped memory") from error
        if len(data) != size:
            raise _Unknown("the end of a mapping")
        return struct.unpack(f"<{size // 8}Q", data)


@contextmanager
def _memory() -> Iterator[_Memory]:
    file = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        yield _Memory(file)
    finally:
        os.close(file)


class _Probe:
    """One tensor as Python knows it, and as it lies in memory."""

    def __init__(self, memory: _Memory, tensor: torch.Tensor) -> None:
        self.address = tensor._cdata
        self.key_set = torch._C._dispatch_keys(tensor).raw_repr()
        self.version = None if tensor.is_inference() else tensor._version
        self.object = memory.words(id(tensor), _OBJECT_BYTES)
        self.tensor = memory.words(tensor._cdata, _TENSOR_BYTES)
        if self.object[_OBJECT_TYPE // 8] != id(type(tensor)):
            raise _Unknown("another header of objects")


def _tensors() -> list[torch.Tensor]:
    """Tensors that differ in key set and version: owners and views, plain, negative, differentiable and inference."""
    with torch.inference_mode(False), torch.enable_grad():
        owners = [torch.zeros(2, 3), torch.zeros(4, dtype=torch.int8), torch.zeros(()), torch.zeros(1, 2, 3, 4, 5)]
        for owner, count in zip(owners, _VERSIONS, strict=True):
            for _ in range(count):
                torch._C._increment_version((owner,))
        parameter = torch.nn.Parameter(torch.zeros(3))
        views = [owners[0][1:], negative_view(owners[0]), parameter * 2]
    with torch.inference_mode():
        frozen = torch.zeros(3)
    return [*owners, parameter, *views, frozen]


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose elements are the negated ones; torch makes such views for the imaginary part of a conjugate."""
    return torch._neg_view(tensor)  # type: ignore[reportPrivateImportUsage]


def _single(found: list[Any]) -> Any:
    if len(found) != 1:
        raise _Unknown(f"{len(found)} places fit")
    return found[0]


def _locate_version(memory: _Memory, probes: list[_Probe]) -> tuple[int, int]:
    counted = [probe for probe in probes if probe.version is not None]
    uncounted = [probe for probe in probes if probe.version is None]
    found = []
    for place in range(_TENSOR_BYTES // 8):
        if any(probe.tensor[place] for probe in uncounted) or not all(probe.tensor[place] for probe in counted):
            continue
        try:
            counters = [memory.words(probe.tensor[place], _COUNTER_BYTES) for probe in counted]
        except _Unknown:
            continue
        for offset in range(0, _COUNTER_BYTES, 4):
            values = [counter[offset // 8] >> (32 if offset % 8 else 0) & 0xFFFFFFFF for counter in counters]
            if values == [probe.version for probe in counted]:
                found.append((8 * place, offset))
    return _single(found)


def _locate(memory: _Memory) -> TorchLayout:
    tensors = _tensors()
    probes = [_Probe(memory, tensor) for tensor in tensors]
    plain, negative, frozen = probes[0].key_set, probes[-3].key_set, probes[-1].key_set
    ignored = plain & ~frozen
    if frozen & ~plain or (negative | ignored) == plain or probes[-2].key_set != plain:
        raise _Unknown("other key sets")
    words = range(_OBJECT_BYTES // 8)
    implementation = _single([8 * p for p in words if all(probe.object[p] == probe.address for probe in probes)])
    words = range(_TENSOR_BYTES // 8)
    key_set = _single([8 * p for p in words if all(probe.tensor[p] == probe.key_set for probe in probes)])
    version, version_value = _locate_version(memory, probes)
    return TorchLayout(implementation, key_set, ignored, plain, version, version_value)


@cache
def find_torch_layout() -> TorchLayout | None:
    """The layout; None where it cannot be established: another operating system, torch, or Python without a GIL."""
    try:
        with _memory() as memory:
            return _locate(memory)
    except (OSError, AttributeError, RuntimeError, TypeError, ValueError, _Unknown):
        return None
