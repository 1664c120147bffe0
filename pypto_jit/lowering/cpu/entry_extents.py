"""Native checks of tensors some of whose extents are only known when they arrive, as LLVM IR.

What a call cannot be served with branches to the block ``fail<k>`` of the k-th argument, counted from one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto_jit import abi
from pypto_jit.dialects.types import row_major_strides
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.signature import DynVar, TensorSpec

# No sum of products of what is below these limits leaves 64 bits.
MOST_EXTENT = 1 << 48
MOST_BYTES = 1 << 58


@dataclass
class Extents:
    """What is known of a tensor's extents and strides: SSA values, or numbers as text."""

    text: LlvmText
    spec: TensorSpec
    failure: str
    extents: list[str]
    strides: list[str] = field(default_factory=list)
    empty: str = "false"

    def check(self, dltensor: str, shape: str) -> None:
        """Check extents, then strides."""
        text = self.text
        dynamic = [extent for extent, dim in zip(self.extents, self.spec.dims, strict=True) if dim is not None]
        text.require(text.every([text.value(f"icmp ule i64 {e}, {MOST_EXTENT}") for e in dynamic]), self.failure)
        zero = [text.value(f"icmp eq i64 {extent}, 0") for extent in dynamic]
        self.empty = "true" if 0 in self.spec.shape else text.any(zero)
        self._check_strides(dltensor, shape)

    def _check_strides(self, dltensor: str, shape: str) -> None:
        """As `pypto_jit.runtime.arguments.dynamic_spec` tells layouts apart."""
        text, spec = self.text, self.spec
        pattern = row_major_strides(spec.shape)
        values = self._given_strides(dltensor, shape)
        fitting = [
            text.any([self._short(axis), text.value(f"icmp eq i64 {values[axis]}, {stride}")])
            for axis, stride in enumerate(pattern)
            if stride >= 0
        ]
        fits = text.any([self.empty, text.every(fitting)])
        last = len(pattern) - 1
        if spec.strides == pattern:
            text.require(fits, self.failure)
        else:
            unit = text.any([self._short(last), text.value(f"icmp eq i64 {values[last]}, 1")])
            unit = unit if spec.strides[last] == 1 else text.value(f"xor i1 {unit}, true")
            text.require(text.every([unit, text.value(f"xor i1 {fits}, true")]), self.failure)
        self.strides = [str(s) if s >= 0 else v for s, v in zip(spec.strides, values, strict=True)]

    def _given_strides(self, dltensor: str, shape: str) -> list[str]:
        """Those of the tensor; where it has none, it is contiguous."""
        text = self.text
        pointer = text.load("ptr", dltensor, abi.DLTENSOR_STRIDES)
        absent = text.value(f"icmp eq ptr {pointer}, null")
        readable = text.value(f"select i1 {absent}, ptr {shape}, ptr {pointer}")
        step, contiguous = "1", []
        for extent in reversed(self.extents):
            contiguous.append(step)
            step = text.value(f"mul i64 {step}, {extent}")
        loaded = [text.load("i64", readable, 8 * axis) for axis in range(len(self.extents))]
        pairs = zip(reversed(contiguous), loaded, strict=True)
        return [text.value(f"select i1 {absent}, i64 {default}, i64 {given}") for default, given in pairs]

    def _short(self, axis: int) -> str:
        """Whether a dimension has no second element, so that its stride means nothing."""
        extent = self.spec.shape[axis]
        if extent >= 0:
            return "true" if extent <= 1 else "false"
        return self.text.value(f"icmp ule i64 {self.extents[axis]}, 1")

    def check_writable(self) -> None:
        """Refuse to write a tensor two of whose elements share memory: see `TensorGuards`."""
        if all(stride >= 0 for stride in self.spec.strides):
            return
        text, axes = self.text, range(len(self.extents))
        sizes = [text.absolute(stride) for stride in self.strides]
        spans = [text.value(f"mul i64 {sizes[axis]}, {self._steps(axis)}") for axis in axes]
        for axis in axes:
            inner = "0"
            for other in axes:
                if other != axis:
                    within = text.value(f"icmp ule i64 {sizes[other]}, {sizes[axis]}")
                    part = text.value(f"select i1 {within}, i64 {spans[other]}, i64 0")
                    inner = text.value(f"add i64 {inner}, {part}")
            apart = text.value(f"icmp ult i64 {inner}, {sizes[axis]}")
            text.require(text.any([self.empty, self._short(axis), apart]), self.failure)

    def _steps(self, axis: int) -> str:
        return self.text.greatest(self.text.value(f"add i64 {self.extents[axis]}, -1"), "0")

    def range(self, data: str) -> tuple[str, str]:
        """First byte, and the one after the last, of all elements; of an empty tensor, nothing."""
        text, size = self.text, self.spec.dtype.bytes
        low, high = data, text.value(f"add i64 {data}, {size}")
        for axis, stride in enumerate(self.strides):
            span = self._product(self._product(self._steps(axis), stride), str(size))
            fits = text.value(f"icmp ule i64 {text.absolute(span)}, {MOST_BYTES}")
            text.require(text.any([self.empty, fits]), self.failure)
            low = text.value(f"add i64 {low}, {text.least(span, '0')}")
            high = text.value(f"add i64 {high}, {text.greatest(span, '0')}")
        low, high = (text.value(f"select i1 {self.empty}, i64 0, i64 {end}") for end in (low, high))
        return low, high

    def _product(self, left: str, right: str) -> str:
        """A product; one that leaves 64 bits fails."""
        text = self.text
        both = text.value(f"call {{i64, i1}} @llvm.smul.with.overflow.i64(i64 {left}, i64 {right})")
        overflown = text.value(f"extractvalue {{i64, i1}} {both}, 1")
        text.require(text.any([self.empty, text.value(f"xor i1 {overflown}, true")]), self.failure)
        return text.value(f"extractvalue {{i64, i1}} {both}, 0")


def check_names(text: LlvmText, specs: Sequence[TensorSpec], extents: Sequence[Sequence[str]]) -> None:
    """Check that each name of a dimension stands for one number.

    Args:
        text: takes the instructions.
        specs: of the tensors.
        extents: of the tensors.
    """
    named: dict[str, list[tuple[int, str, DynVar]]] = {}
    for tensor, spec in enumerate(specs):
        for axis, dim in enumerate(spec.dims):
            if dim is not None:
                named.setdefault(dim.name, []).append((tensor, extents[tensor][axis], dim))
    for places in named.values():
        tensor, extent, dim = min(places, key=lambda place: place[2].factor)
        number = extent
        if (dim.factor, dim.offset) != (1, 0):
            number = text.value(f"sdiv i64 {text.value(f'sub i64 {extent}, {dim.offset}')}, {dim.factor}")
            text.require(text.value(f"icmp sge i64 {number}, 0"), f"fail{tensor + 1}")
        for tensor, extent, dim in places:
            if extent == number:
                continue
            value = text.value(f"add i64 {text.value(f'mul i64 {number}, {dim.factor}')}, {dim.offset}")
            text.require(text.value(f"icmp eq i64 {extent}, {value}"), f"fail{tensor + 1}")
