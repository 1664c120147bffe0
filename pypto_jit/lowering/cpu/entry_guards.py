"""Native checks of an entry's tensor arguments, as LLVM IR.

Everything a specialization assumes of a tensor is a few loads and compares here. A check that fails branches to the
block ``fail<k>`` of the k-th argument, counted from one, or to ``overlap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit import abi
from pypto_jit.abi import Binding
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
    """The SSA values of one checked tensor argument: data, what was read of its shape and strides, memory range."""

    data: str
    extents: list[str]
    strides: list[str]
    low: str
    high: str
    owner: str


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
        owner = text.value(f"select i1 {is_object}, ptr {payload}, ptr null")
        self._header(dltensor, spec, failure)
        written = "true" if parameter.written else "false"
        text.require(text.value(f"call i1 @pypto_owner(ptr {owner}, i1 {written})"), failure)
        shape = text.load("ptr", dltensor, abi.DLTENSOR_SHAPE) if spec.shape else "null"
        extents = [text.load("i64", shape, 8 * axis) for axis in range(len(spec.shape))]
        self._extents(extents, spec, failure)
        strides = self._strides(dltensor, spec, failure)
        if parameter.written:
            self._writable(extents, strides, spec, failure)
        start = text.load("i64", dltensor, abi.DLTENSOR_DATA)
        data = text.value(f"add i64 {start}, {text.load('i64', dltensor, abi.DLTENSOR_BYTE_OFFSET)}")
        self._data(start, data, spec, failure)
        low, high = self._range(data, extents, strides, spec)
        return CheckedTensor(data, extents, strides, low, high, owner)

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

    def _data(self, start: str, data: str, spec: TensorSpec, failure: str) -> None:
        if 0 in spec.shape:
            return
        text = self.text
        conditions = [text.value(f"icmp ne i64 {start}, 0")]
        if spec.dtype.bytes > 1:
            low_bits = text.value(f"and i64 {data}, {spec.dtype.bytes - 1}")
            conditions.append(text.value(f"icmp eq i64 {low_bits}, 0"))
        text.require(text.every(conditions), failure)

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


OWNER_FUNCTIONS = f"""\
; What DLPack does not tell of a tensor: that it is read-only or a copy, or that torch sees other values than memory has.
define internal i1 @pypto_owner(ptr %object, i1 %written) {{
  %none = icmp eq ptr %object, null
  br i1 %none, label %fine, label %header
header:
  %deleter.at = getelementptr i8, ptr %object, i64 {abi.OBJECT_DELETER}
  %deleter = load i64, ptr %deleter.at
  %known = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.TENSOR_DELETER)})
  %versioned = icmp eq i64 %deleter, %known
  br i1 %versioned, label %managed, label %fine
managed:
  %tensor.at = getelementptr i8, ptr %object, i64 {abi.TENSOR_OWNER}
  %tensor = load ptr, ptr %tensor.at
  %flags.at = getelementptr i8, ptr %tensor, i64 {abi.MANAGED_FLAGS}
  %flags = load i64, ptr %flags.at
  %frozen = and i64 %flags, {abi.READ_ONLY_OR_COPIED}
  %is.frozen = icmp ne i64 %frozen, 0
  %refused = and i1 %is.frozen, %written
  br i1 %refused, label %bad, label %torch
torch:
  %implementation = call ptr @pypto_torch(ptr %object)
  %foreign = icmp eq ptr %implementation, null
  br i1 %foreign, label %fine, label %keys
keys:
  %key.offset = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.KEY_SET)})
  %keys.at = getelementptr i8, ptr %implementation, i64 %key.offset
  %key.set = load i64, ptr %keys.at
  %ignored = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.KEY_SET_IGNORED)})
  %plain = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.KEY_SET_PLAIN)})
  %with.ignored = or i64 %key.set, %ignored
  %is.plain = icmp eq i64 %with.ignored, %plain
  br i1 %is.plain, label %fine, label %bad
fine:
  ret i1 true
bad:
  ret i1 false
}}

; torch's own tensor behind a tensor object, or null.
define internal ptr @pypto_torch(ptr %object) {{
  %none = icmp eq ptr %object, null
  br i1 %none, label %foreign, label %header
header:
  %deleter.at = getelementptr i8, ptr %object, i64 {abi.OBJECT_DELETER}
  %deleter = load i64, ptr %deleter.at
  %known = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.TENSOR_DELETER)})
  %versioned = icmp eq i64 %deleter, %known
  br i1 %versioned, label %managed, label %foreign
managed:
  %tensor.at = getelementptr i8, ptr %object, i64 {abi.TENSOR_OWNER}
  %tensor = load ptr, ptr %tensor.at
  %own.at = getelementptr i8, ptr %tensor, i64 {abi.MANAGED_DELETER}
  %own = load i64, ptr %own.at
  %torch = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.TORCH_DELETER)})
  %is.torch = icmp eq i64 %own, %torch
  br i1 %is.torch, label %yes, label %foreign
yes:
  %context.at = getelementptr i8, ptr %tensor, i64 {abi.MANAGED_CONTEXT}
  %context = load ptr, ptr %context.at
  %implementation = load ptr, ptr %context
  ret ptr %implementation
foreign:
  ret ptr null
}}

; Tells autograd that a tensor was written, as torch's own in-place operators do; inference tensors have no counter.
define internal void @pypto_written(ptr %object) {{
  %implementation = call ptr @pypto_torch(ptr %object)
  %foreign = icmp eq ptr %implementation, null
  br i1 %foreign, label %done, label %mine
mine:
  %offset = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.VERSION)})
  %counter.at = getelementptr i8, ptr %implementation, i64 %offset
  %counter = load ptr, ptr %counter.at
  %uncounted = icmp eq ptr %counter, null
  br i1 %uncounted, label %done, label %count
count:
  %value.offset = load i64, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.VERSION_VALUE)})
  %value.at = getelementptr i8, ptr %counter, i64 %value.offset
  %old = atomicrmw add ptr %value.at, i32 1 seq_cst
  br label %done
done:
  ret void
}}
"""
