"""Writes planned modules of the ``pto`` dialect by hand: what the passes would hand to the printer."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.dialects.registration import register
from pypto_jit.dialects.types import PartitionType, PointerType, TensorViewType, TileBufType
from pypto_jit.dtypes import DType
from pypto_jit.targets import BY_NAME, Layout, Space, Target


def new_context() -> ir.Context:
    context = ir.Context()
    context.enable_multithreading(False)
    register(context)
    return context


@dataclass
class Planned:
    """A kernel being written: operations in MLIR's generic form, constants and addresses made as they are asked for."""

    target: str
    name: str
    kind: str = "vector"
    lines: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    addresses: dict[Space, int] = field(default_factory=dict)
    count: int = 0
    # The line of the user's file that the next operations come from.
    place: int = 1

    @property
    def machine(self) -> Target:
        return BY_NAME[self.target]

    def fresh(self, kind: str, prefix: str = "v") -> str:
        name = f"%{prefix}{self.count}"
        self.count += 1
        self.types[name] = kind
        return name

    def constant(self, value: object, kind: str = "index") -> str:
        name = self.fresh(kind, "k")
        self.head.append(f"{name} = arith.constant {value} : {kind}")
        return name

    def line(self, text: str) -> None:
        where = "" if text.endswith("{") else f' loc("/home/me/{self.name}.py":{self.place}:5)'
        self.lines.append(text + where)

    def scalar(self, operation: str, operands: list[str], kind: str = "index", *, tail: str | None = None) -> str:
        name = self.fresh(kind)
        self.line(f"{name} = {operation} {', '.join(operands)} : {tail or kind}")
        return name

    def pointer(self, name: str, dtype: DType) -> str:
        self.arguments.append(f'%{name}: {PointerType(dtype)} {{pypto.argument = "{name}"}}')
        self.types[f"%{name}"] = str(PointerType(dtype))
        return f"%{name}"

    def index_argument(self, name: str, attribute: str) -> str:
        self.arguments.append(f"%{name}: index {{{attribute}}}")
        self.types[f"%{name}"] = "index"
        return f"%{name}"

    def generic(self, operation: str, operands: list[str], result: str | None = None, attributes: str = "") -> str:
        operand_types = ", ".join(self.types[o] for o in operands)
        name = self.fresh(result) if result else ""
        shown = f" {{{attributes}}}" if attributes else ""
        left = f"{name} = " if name else ""
        returned = result or "()"
        self.line(f'{left}"pto.{operation}"({", ".join(operands)}){shown} : ({operand_types}) -> {returned}')
        return name

    def view(self, pointer: str, dtype: DType, shape: tuple[int, ...], layout: str = "nd") -> str:
        strides, step = [], 1
        for extent in reversed(shape):
            strides.insert(0, step)
            step *= extent
        operands = [pointer, *map(self.constant, shape), *map(self.constant, strides)]
        return self.generic("make_tensor_view", operands, str(TensorViewType(shape, dtype)), f'layout = "{layout}"')

    def part(
        self,
        view: str,
        dtype: DType,
        offsets: list[str],
        sizes: list[str],
        shape: tuple[int, ...],
    ) -> str:
        return self.generic("partition_view", [view, *offsets, *sizes], str(PartitionType(shape, dtype)))

    def tile(
        self,
        space: Space,
        dtype: DType,
        shape: tuple[int, int],
        *,
        valid: tuple[int, int] | None = None,
        extents: tuple[str, ...] = (),
        layout: Layout | None = None,
        address: int | None = None,
        buffer: int | None = None,
    ) -> str:
        kind = TileBufType(space, dtype, shape, valid or shape, layout or self.machine.layouts[space])
        alignment = self.machine.alignment[space]
        if address is None:
            address = self.addresses.get(space, 0)
            self.addresses[space] = address + -(-kind.bytes // alignment) * alignment
        # A tile that says nothing is a buffer of its own.
        known = f"addr = {address} : i64, buffer = {self.count if buffer is None else buffer} : i64"
        return self.generic("alloc_tile", list(extents), str(kind), known)

    def text(self, attributes: str = "pypto.trips = -1 : i64") -> str:
        body = "\n    ".join([*self.head, *self.lines, f'return loc("{self.name}.py":{self.place}:5)'])
        marks = f'{{pto.entry, pto.kernel_kind = "{self.kind}", {attributes}}}'
        return (
            f'module attributes {{pto.target_arch = "{self.target}"}} {{\n'
            f"  func.func @{self.name}({', '.join(self.arguments)}) attributes {marks} {{\n"
            f'    {body}\n  }} loc("{self.name}.py":1:1)\n}}\n'
        )

    def module(self, context: ir.Context) -> ir.Module:
        return ir.Module.parse(self.text(), context)
