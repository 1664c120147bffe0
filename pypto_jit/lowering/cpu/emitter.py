"""A small typed builder: scalars and vectors of a fixed number of lanes, byte addresses, counted loops.

Arithmetic is emitted as ``arith`` operations, memory and intrinsics as ``llvm`` ones, loops as ``scf``. Extents and
offsets are ``int`` where known while compiling and 64-bit values where not; `Emitter.add` and its like fold the former.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.description import CpuDescription

Extent = int | ir.Value

_FLOAT_COMPARE = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7, "une": 13, "uno": 14}
_INT_COMPARE = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}
_DYNAMIC_INDEX = -(2**31)


class Emitter:
    """Emits at MLIR's current insertion point; constants go to the top of the function.

    Args:
        context: the context, which must be current.
        entry: the function's entry block.
        cpu: the processor; its vector width gives `lanes`.
    """

    def __init__(self, context: ir.Context, entry: ir.Block, cpu: CpuDescription) -> None:
        self.cpu = cpu
        self.lanes = cpu.lanes
        self._context = context
        self._scalars: dict[str, ir.Type] = {
            "ptr": ir.Type.parse("!llvm.ptr", context),
            "index": ir.IndexType.get(),
            "f16": ir.F16Type.get(),
            "bf16": ir.BF16Type.get(),
            "f32": ir.F32Type.get(),
            "f64": ir.F64Type.get(),
        }
        for bits in (1, 8, 16, 32, 64):
            self._scalars[f"i{bits}"] = ir.IntegerType.get_signless(bits)
        self.i64 = self._scalars["i64"]
        self.pointer = self._scalars["ptr"]
        self._vectors: dict[tuple[str, int], ir.Type] = {}
        self._shapes: dict[ir.Type, tuple[str, int]] = {t: (name, 1) for name, t in self._scalars.items()}
        self._constants: dict[tuple[object, str, int], ir.Value] = {}
        self._attributes: dict[object, ir.Attribute] = {}
        self._first_lane: set[ir.Value] = set()
        # Constants are inserted before this one, so that each dominates whatever is emitted later.
        anchor = ir.Operation.create(
            "arith.constant",
            results=[self.i64],
            attributes={"value": ir.IntegerAttr.get(self.i64, 0)},
            ip=ir.InsertionPoint.at_block_begin(entry),
        )
        self._constants[(0, "i64", 1)] = anchor.result
        self._top = ir.InsertionPoint(anchor)

    # -- types

    def type(self, element: str, lanes: int = 1) -> ir.Type:
        """The type of ``lanes`` elements (``f32``, ``i16``, ...); one lane is a scalar."""
        if lanes == 1:
            return self._scalars[element]
        known = self._vectors.get((element, lanes))
        if known is None:
            known = ir.VectorType.get([lanes], self._scalars[element])
            self._vectors[element, lanes] = known
            self._shapes[known] = (element, lanes)
        return known

    def shape(self, value: ir.Value) -> tuple[str, int]:
        """Element name and lanes of a value."""
        kind = value.type
        known = self._shapes.get(kind)
        if known is None:
            vector = ir.VectorType(kind)
            known = (str(vector.element_type), vector.shape[0])
            self._shapes[kind] = known
        return known

    # -- operations

    def op(self, name: str, result: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
        """Any operation with one result."""
        if attributes:
            return ir.Operation.create(name, results=[result], operands=operands, attributes=attributes).result
        return ir.Operation.create(name, results=[result], operands=operands).result

    def effect(self, name: str, *operands: ir.Value, **attributes: ir.Attribute) -> None:
        """Any operation without a result."""
        ir.Operation.create(name, results=[], operands=operands, attributes=attributes)

    def same(self, name: str, first: ir.Value, *others: ir.Value) -> ir.Value:
        """An operation whose result has the type of its first operand."""
        return ir.Operation.create(name, results=[first.type], operands=[first, *others]).result

    def attribute(self, key: object, make: Callable[[], ir.Attribute]) -> ir.Attribute:
        """An attribute made once per emitter."""
        known = self._attributes.get(key)
        if known is None:
            known = self._attributes[key] = make()
        return known

    def number(self, value: int, bits: int = 64) -> ir.Attribute:
        """An integer attribute."""
        return self.attribute(("number", value, bits), lambda: ir.IntegerAttr.get(self._scalars[f"i{bits}"], value))

    def parsed_type(self, text: str) -> ir.Type:
        """A type from its text."""
        kind = self._scalars.get(text)
        if kind is None:
            kind = self._scalars[text] = ir.Type.parse(text, self._context)
        return kind

    def parsed(self, text: str) -> ir.Attribute:
        """An attribute from its text."""
        return self.attribute(("parsed", text), lambda: ir.Attribute.parse(text, self._context))

    # -- constants

    def constant(self, value: int | float, element: str, lanes: int = 1) -> ir.Value:
        """A constant, the same in every lane. Integers wrap to their width."""
        key = (struct.pack("d", value) if element[0] == "f" else value, element, lanes)
        known = self._constants.get(key)
        if known is None:
            scalar = self._scalars[element]
            if element[0] in "fb":
                attribute: ir.Attribute = ir.FloatAttr.get(scalar, float(value))
            else:
                attribute = ir.IntegerAttr.get(scalar, _signed(int(value), int(element[1:])))
            kind = self.type(element, lanes)
            if lanes != 1:
                attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
            operation = ir.Operation.create(
                "arith.constant", results=[kind], attributes={"value": attribute}, ip=self._top
            )
            known = self._constants[key] = operation.result
        return known

    def value(self, extent: Extent) -> ir.Value:
        """A 64-bit value of an extent."""
        return self.constant(extent, "i64") if isinstance(extent, int) else extent

    def lane_numbers(self, lanes: int) -> ir.Value:
        """The 32-bit vector 0, 1, 2, ..."""
        key = ("iota", "i32", lanes)
        known = self._constants.get(key)
        if known is None:
            kind = self.type("i32", lanes)
            text = f"dense<[{', '.join(map(str, range(lanes)))}]> : vector<{lanes}xi32>"
            operation = ir.Operation.create(
                "arith.constant", results=[kind], attributes={"value": self.parsed(text)}, ip=self._top
            )
            known = self._constants[key] = operation.result
        return known

    # -- 64-bit index arithmetic with folding

    def add(self, a: Extent, b: Extent) -> Extent:
        """``a + b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        return self.same("arith.addi", self.value(a), self.value(b))

    def sub(self, a: Extent, b: Extent) -> Extent:
        """``a - b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if isinstance(b, int) and b == 0:
            return a
        return self.same("arith.subi", self.value(a), self.value(b))

    def mul(self, a: Extent, b: Extent) -> Extent:
        """``a * b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int) and x in (0, 1):
                return 0 if x == 0 else y
        return self.same("arith.muli", self.value(a), self.value(b))

    def round_down(self, a: Extent, step: int) -> Extent:
        """The largest multiple of ``step``, a power of two, that is not above ``a``."""
        if isinstance(a, int):
            return a // step * step
        return self.same("arith.andi", a, self.constant(-step, "i64"))

    # -- comparisons, selection, vectors

    def compare(self, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """A comparison by its ``arith`` name (``olt``, ``slt``, ...), lane by lane."""
        _, lanes = self.shape(a)
        floating = predicate in _FLOAT_COMPARE
        code = _FLOAT_COMPARE[predicate] if floating else _INT_COMPARE[predicate]
        name = "arith.cmpf" if floating else "arith.cmpi"
        return self.op(name, self.type("i1", lanes), a, b, predicate=self.number(code))

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """``condition ? a : b``, lane by lane."""
        return self.op("arith.select", a.type, condition, a, b)

    def first_lanes(self, count: Extent) -> ir.Value:
        """A mask of the first ``count`` lanes of a vector of `lanes`."""
        if isinstance(count, int):
            limit = self.constant(count, "i32", self.lanes)
        else:
            limit = self.splat(self.cast("trunci", count, "i32"), self.lanes)
        mask = self.compare("slt", self.lane_numbers(self.lanes), limit)
        if isinstance(count, int) and count == 1:
            self._first_lane.add(mask)
        return mask

    def splat(self, scalar: ir.Value, lanes: int) -> ir.Value:
        """A vector with the scalar in each lane; the scalar itself for one lane."""
        if lanes == 1:
            return scalar
        return self.op("vector.broadcast", self.type(self.shape(scalar)[0], lanes), scalar)

    def cast(self, name: str, value: ir.Value, element: str) -> ir.Value:
        """A conversion by its ``arith`` name (``extf``, ``bitcast``, ...) to another element of as many lanes."""
        return self.op(f"arith.{name}", self.type(element, self.shape(value)[1]), value)

    def reduction(self, kind: str, vector: ir.Value) -> ir.Value:
        """Across the lanes of a vector, in any order: ``add``, ``maximumf``, ``minimumf``, ``maxsi``, ``minsi``."""
        element, lanes = self.shape(vector)
        if lanes == 1:
            return vector
        # Which zero an extreme of both zeros is, is left open: it would double the code.
        flags = "reassoc" if kind in ("add", "mul") else "reassoc,nsz"
        return self.op(
            "vector.reduction",
            self._scalars[element],
            vector,
            kind=self.parsed(f"#vector.kind<{kind}>"),
            fastmath=self.parsed(f"#arith.fastmath<{flags}>"),
        )

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """``a * b + c``, rounded once."""
        return self.same("llvm.intr.fma", a, b, c)

    # -- memory

    def address(self, base: ir.Value, offset: Extent) -> ir.Value:
        """An address some bytes after another."""
        byte = self.attribute("byte", lambda: ir.TypeAttr.get(self._scalars["i8"]))
        if isinstance(offset, int):
            if offset == 0:
                return base
            if 0 < offset < 2**31:
                indices = self.parsed(f"array<i32: {offset}>")
                return self.op("llvm.getelementptr", self.pointer, base, rawConstantIndices=indices, elem_type=byte)
            offset = self.constant(offset, "i64")
        indices = self.parsed(f"array<i32: {_DYNAMIC_INDEX}>")
        return self.op("llvm.getelementptr", self.pointer, base, offset, rawConstantIndices=indices, elem_type=byte)

    def reserve(self, size: int) -> ir.Value:
        """The address of some bytes of the function's own."""
        byte = self.attribute("byte", lambda: ir.TypeAttr.get(self._scalars["i8"]))
        count = self.constant(size, "i64")
        attributes = {"elem_type": byte, "alignment": self.number(16)}
        return ir.Operation.create("llvm.alloca", [self.pointer], [count], attributes, ip=self._top).result

    def load(self, address: ir.Value, element: str, lanes: int = 1, mask: ir.Value | None = None) -> ir.Value:
        """Consecutive elements from memory, aligned to one element; lanes that the mask leaves out are zero."""
        kind = self.type(element, lanes)
        alignment = int(element.lstrip("bfi")) // 8 if element != "ptr" else 8
        if mask is None:
            return self.op("llvm.load", kind, address, alignment=self.number(alignment))
        zero = self.constant(0, element, lanes)
        return self.op("llvm.intr.masked.load", kind, address, mask, zero, alignment=self.number(alignment, 32))

    def store(self, value: ir.Value, address: ir.Value, mask: ir.Value | None = None) -> None:
        """Consecutive elements to memory, aligned to one element; only the lanes of the mask."""
        element, _ = self.shape(value)
        alignment = int(element.lstrip("bfi")) // 8
        if mask is not None and mask in self._first_lane:
            # LLVM 22 stores too many bytes where it narrows integers and stores one lane of a constant mask.
            first = self.parsed("array<i64: 0>")
            value, mask = self.op("vector.extract", self._scalars[element], value, static_position=first), None
        if mask is None:
            self.effect("llvm.store", value, address, alignment=self.number(alignment))
        else:
            self.effect("llvm.intr.masked.store", value, address, mask, alignment=self.number(alignment, 32))

    def prefetch(self, address: ir.Value) -> None:
        """Ask for the cache line of an address, which need not exist, to be read from memory into the second cache."""
        numbers = {"rw": self.number(0, 32), "hint": self.number(2, 32), "cache": self.number(1, 32)}
        self.effect("llvm.intr.prefetch", address, **numbers)

    def copy(self, source: ir.Value, target: ir.Value, size: Extent) -> None:
        """Some bytes from one place to another; the places do not overlap."""
        plain = self.attribute("false", lambda: ir.BoolAttr.get(False))
        self.effect("llvm.intr.memcpy", target, source, self.value(size), isVolatile=plain)

    # -- control

    def loop(
        self,
        lower: Extent,
        upper: Extent,
        step: int,
        carried: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """``for index in range(lower, upper, step)``; ``body(index, carried)`` gives the next carried values."""
        operation: Any = ir.Operation.create(
            "scf.for",
            results=[value.type for value in carried],
            operands=[self.value(lower), self.value(upper), self.value(step), *carried],
            regions=1,
        )
        block = operation.regions[0].blocks.append(self.i64, *[value.type for value in carried])
        arguments = list(block.arguments)
        with ir.InsertionPoint(block):
            results = body(arguments[0], arguments[1:])
            ir.Operation.create("scf.yield", operands=list(results))
        return list(operation.results)

    def each(self, lower: Extent, upper: Extent, step: int, body: Callable[[ir.Value], None]) -> None:
        """A `loop` without carried values; nothing where it is known not to run."""
        if isinstance(lower, int) and isinstance(upper, int) and lower >= upper:
            return

        def run(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            body(index)
            return carried

        self.loop(lower, upper, step, [], run)

    def until(self, first: ir.Value, body: Callable[[ir.Value], tuple[ir.Value, ir.Value]]) -> None:
        """Repeat: ``body(value)`` gives the next value, and whether that was the last time."""
        operation: Any = ir.Operation.create("scf.while", results=[first.type], operands=[first], regions=2)
        before = operation.regions[0].blocks.append(first.type)
        with ir.InsertionPoint(before):
            following, done = body(before.arguments[0])
            again = self.same("arith.xori", done, self.constant(1, "i1"))
            ir.Operation.create("scf.condition", operands=[again, following])
        after = operation.regions[1].blocks.append(first.type)
        with ir.InsertionPoint(after):
            ir.Operation.create("scf.yield", operands=[after.arguments[0]])

    def when(self, condition: ir.Value, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """``if condition: body()``."""
        operation: Any = ir.Operation.create("scf.if", operands=[condition], regions=2)
        branches = [body] if otherwise is None else [body, otherwise]
        for region, branch in zip(operation.regions, branches, strict=False):
            with ir.InsertionPoint(region.blocks.append()):
                branch()
                ir.Operation.create("scf.yield")


def _signed(value: int, bits: int) -> int:
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
