"""Native checks of an entry's tensor arguments, as LLVM IR.

Everything a specialization assumes of a tensor is a few loads and compares here. A check that fails branches to the
block ``fail<k>`` of the k-th argument, counted from one, or to ``overlap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit import abi
from pypto_jit.lowering.cpu.entry_extents import Extents
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.signature import TensorSpec


@dataclass(frozen=True)
class EntryTensor:
    """A tensor parameter: what it must be, and whether the kernel writes it.

    Attributes:
        spec: what the argument must be.
        written: whether any kernel stores to it.
        in_place: indices of the written tensors that this one may be, exactly, without changing any result.
    """

    spec: TensorSpec
    written: bool = False
    in_place: frozenset[int] = frozenset()


@dataclass
class CheckedTensor:
    """The SSA values of one checked tensor argument: data, what was read of its shape and strides, memory range, and
    whether it has no elements, where it may have none."""

    data: str
    extents: list[str]
    strides: list[str]
    low: str
    high: str
    empty: str = ""


def _row_major(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return strides[::-1]


def _element_count(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


class TensorGuards:
    """Writes the checks of one tensor argument after the other."""

    def __init__(self, text: LlvmText) -> None:
        self.text = text

    def tensor(self, index: int, parameter: EntryTensor) -> CheckedTensor:
        text, spec = self.text, parameter.spec
        failure = f"fail{index + 1}"
        slot = text.address("%args", index * abi.ARGUMENT_BYTES)
        kind = text.load("i32", slot)
        payload = text.load("ptr", slot, 8)
        is_object = text.value(f"icmp eq i32 {kind}, {abi.TYPE_TENSOR}")
        is_pointer = text.value(f"icmp eq i32 {kind}, {abi.TYPE_DLTENSOR_POINTER}")
        text.require(text.any([is_object, is_pointer]), failure)
        offset = text.value(f"select i1 {is_object}, i64 {abi.TENSOR_DLTENSOR}, i64 0")
        dltensor = text.address(payload, offset)
        self._header(dltensor, spec, failure)
        shape = text.load("ptr", dltensor, abi.DLTENSOR_SHAPE) if spec.shape else "null"
        extents = [text.load("i64", shape, 8 * axis) for axis in range(len(spec.shape))]
        self._extents(extents, spec, failure)
        if spec.dims:
            return self._dynamic(dltensor, shape, Extents(text, spec, failure, extents), parameter.written)
        strides = self._strides(dltensor, spec, failure)
        if parameter.written:
            self._writable(extents, strides, spec, failure)
        data = self._data(dltensor, spec, failure, "true" if 0 in spec.shape else "false")
        low, high = self._range(data, extents, strides, spec)
        return CheckedTensor(data, extents, strides, low, high, "true" if 0 in spec.shape else "")

    def _dynamic(self, dltensor: str, shape: str, found: Extents, written: bool) -> CheckedTensor:
        found.check(dltensor, shape)
        if written:
            found.check_writable()
        data = self._data(dltensor, found.spec, found.failure, found.empty)
        low, high = found.range(data)
        return CheckedTensor(data, found.extents, found.strides, low, high, found.empty)

    def _header(self, dltensor: str, spec: TensorSpec, failure: str) -> None:
        text = self.text
        # ndim (32 bits), type code (8), bits (8) and lanes (16) lie side by side and are compared at once.
        word = len(spec.shape) | spec.dtype.dlpack << 32 | spec.dtype.bits << 40 | 1 << 48
        form = text.value(f"icmp eq i64 {text.load('i64', dltensor, abi.DLTENSOR_NDIM)}, {word}")
        device = text.value(f"icmp eq i32 {text.load('i32', dltensor, abi.DLTENSOR_DEVICE)}, {abi.DEVICE_CPU}")
        text.require(text.every([form, device]), failure)

    def _extents(self, extents: list[str], spec: TensorSpec, failure: str) -> None:
        text = self.text
        fixed = [
            text.value(f"icmp eq i64 {value}, {extent}")
            for value, extent in zip(extents, spec.shape, strict=True)
            if extent >= 0
        ]
        if fixed:
            text.require(text.every(fixed), failure)

    def _strides(self, dltensor: str, spec: TensorSpec, failure: str) -> list[str]:
        """Check the strides; returns each one's value. Those of dimensions of one element are never looked at."""
        text = self.text
        expected = _row_major(spec.shape)
        values = [str(stride) for stride in expected]
        if 0 in spec.shape:
            return values
        axes = [axis for axis, extent in enumerate(spec.shape) if extent != 1]
        if not axes:
            return values
        pointer = text.load("ptr", dltensor, abi.DLTENSOR_STRIDES)
        absent = text.value(f"icmp eq ptr {pointer}, null")
        if all(stride >= 0 for stride in spec.strides):
            check, after = text.fresh("b"), text.fresh("b")
            text.branch(absent, after, check)
            text.label(check)
            loaded = [text.load("i64", pointer, 8 * axis) for axis in axes]
            fits = [text.value(f"icmp eq i64 {v}, {spec.strides[axis]}") for v, axis in zip(loaded, axes, strict=True)]
            text.branch(text.every(fits), after, failure)
            text.label(after)
            return values
        text.require(text.value(f"icmp ne ptr {pointer}, null"), failure)
        differs, fits = [], []
        for axis in axes:
            values[axis] = text.load("i64", pointer, 8 * axis)
            if spec.strides[axis] >= 0:
                fits.append(text.value(f"icmp eq i64 {values[axis]}, {spec.strides[axis]}"))
            elif axis == len(spec.shape) - 1:
                # A unit innermost stride has a specialization of its own.
                fits.append(text.value(f"icmp ne i64 {values[axis]}, 1"))
            differs.append(text.value(f"icmp ne i64 {values[axis]}, {expected[axis]}"))
        # So has a contiguous tensor.
        text.require(text.every([*fits, text.any(differs)]), failure)
        return values

    def _writable(self, extents: list[str], strides: list[str], spec: TensorSpec, failure: str) -> None:
        """Refuse to write a tensor two of whose elements share memory, as an expanded one.

        No two elements do where every stride exceeds the span of all dimensions with a stride no larger than it.
        """
        if all(stride >= 0 for stride in spec.strides) or 0 in spec.shape:
            return
        text = self.text
        axes = [axis for axis, extent in enumerate(spec.shape) if extent != 1]
        sizes = {axis: text.absolute(strides[axis]) for axis in axes}
        spans = {
            axis: text.value(f"mul i64 {sizes[axis]}, {text.value(f'add i64 {extents[axis]}, -1')}") for axis in axes
        }
        for axis in axes:
            inner = "0"
            for other in axes:
                if other != axis:
                    within = text.value(f"icmp ule i64 {sizes[other]}, {sizes[axis]}")
                    inner = text.value(
                        f"add i64 {inner}, {text.value(f'select i1 {within}, i64 {spans[other]}, i64 0')}"
                    )
            text.require(text.value(f"icmp ult i64 {inner}, {sizes[axis]}"), failure)

    def _data(self, dltensor: str, spec: TensorSpec, failure: str, empty: str) -> str:
        """The address of the data, which an empty tensor may not have."""
        text = self.text
        start = text.load("i64", dltensor, abi.DLTENSOR_DATA)
        data = text.value(f"add i64 {start}, {text.load('i64', dltensor, abi.DLTENSOR_BYTE_OFFSET)}")
        if empty == "true":
            return data
        conditions = [text.value(f"icmp ne i64 {start}, 0")]
        if spec.dtype.bytes > 1:
            low_bits = text.value(f"and i64 {data}, {spec.dtype.bytes - 1}")
            conditions.append(text.value(f"icmp eq i64 {low_bits}, 0"))
        sound = text.every(conditions)
        text.require(sound if empty == "false" else text.any([empty, sound]), failure)
        return data

    def _range(self, data: str, extents: list[str], strides: list[str], spec: TensorSpec) -> tuple[str, str]:
        """First byte, and the one after the last, of all elements."""
        text, size = self.text, spec.dtype.bytes
        if all(stride >= 0 for stride in (*spec.strides, *spec.shape)):
            return data, text.value(f"add i64 {data}, {_element_count(spec.shape) * size}")
        low, high = data, text.value(f"add i64 {data}, {size}")
        for axis, extent in enumerate(spec.shape):
            if extent == 1:
                continue
            last = text.value(f"mul i64 {text.value(f'add i64 {extents[axis]}, -1')}, {strides[axis]}")
            span = text.value(f"mul i64 {last}, {size}")
            down = text.least(span, "0")
            up = text.greatest(span, "0")
            low, high = text.value(f"add i64 {low}, {down}"), text.value(f"add i64 {high}, {up}")
        return low, high


def overlaps(text: LlvmText, tensors: Sequence[EntryTensor], loaded: Sequence[CheckedTensor]) -> str:
    """Whether a written tensor shares memory with another in a way that may change a result."""
    harmful = []
    for b, written in enumerate(tensors):
        if not written.written:
            continue
        for a, other in enumerate(tensors):
            if a == b or (other.written and a > b) or 0 in written.spec.shape or 0 in other.spec.shape:
                continue
            before = text.value(f"icmp ult i64 {loaded[a].low}, {loaded[b].high}")
            after = text.value(f"icmp ult i64 {loaded[b].low}, {loaded[a].high}")
            meets = text.every([before, after])
            if b in other.in_place and other.spec == written.spec:
                same = [text.value(f"icmp eq i64 {loaded[a].data}, {loaded[b].data}")]
                for axis, stride in enumerate(other.spec.strides):
                    if stride < 0 and other.spec.shape[axis] != 1:
                        same.append(text.value(f"icmp eq i64 {loaded[a].strides[axis]}, {loaded[b].strides[axis]}"))
                differs = text.value(f"xor i1 {text.every(same)}, true")
                meets = text.every([meets, differs])
            harmful.append(meets)
    return text.any(harmful)
