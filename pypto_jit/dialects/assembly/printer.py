"""From a planned module in the ``pto`` dialect to PTO assembly.

One function a kernel; its constants, tile addresses among them, are collected at the top. What the assembly has no
place for and the CPU uses (which handles share a buffer, what a trailing argument means) is kept in ``// pypto:``
comments. The text depends on the module only: nothing of the process, and of source files only the name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from pathlib import PurePath
from typing import NoReturn

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.elements import named_operands, spell_element
from pypto_jit.dialects.assembly.infinite import is_infinite, spell_infinite
from pypto_jit.dialects.assembly.names import Names, argument_hint, constant_name, hint_of
from pypto_jit.dialects.assembly.spelling import spell_type
from pypto_jit.dialects.locations import ASSEMBLY_SUFFIX, file_location, span_of
from pypto_jit.dialects.operators import ELEMENT_ROWS, INSTRUCTIONS
from pypto_jit.dialects.types import TileBufType, parse_type
from pypto_jit.dtypes import DType
from pypto_jit.errors import AssemblyError

_spell = lru_cache(maxsize=4096)(spell_type)
_HINTS = {"pto.get_block_idx": "block_idx", "pto.get_block_num": "block_num"}


def print_assembly(module: ir.Module, *, locations: bool = True) -> str:
    """The ``.pto`` text of a planned module.

    Args:
        module: in the ``pto`` dialect, every tile buffer with its address. Host functions are left out.
        locations: whether each line ends with the user's ``loc("file.py":line:column)``.

    Raises:
        AssemblyError: the module has what the assembly cannot say: a kernel that mixes cube and vector work in one
            function, a tile without an address, an operation the assembler does not lower.
    """
    attributes = module.operation.attributes
    target = ir.StringAttr(attributes["pto.target_arch"]).value if "pto.target_arch" in attributes else "a2a3"
    lines = [f'module attributes {{pto.target_arch = "{target}"}} {{']
    for operation in module.body.operations:
        if operation.operation.name != forms.FUNCTION:
            raise _cannot(operation.operation, f"{operation.operation.name} at the top of a module")
        if forms.HOST in operation.operation.attributes:
            continue
        lines.extend(_FunctionPrinter(operation.operation, locations).lines())
    lines.append("}")
    return "\n".join(lines) + "\n"


def _cannot(operation: ir.Operation, what: str) -> AssemblyError:
    return AssemblyError("this cannot be written as PTO assembly", span=span_of(operation.location), found=what)


@cache
def _written(name: str) -> frozenset[str]:
    """The attributes of an operation that its own text says."""
    rows = INSTRUCTIONS.get(name.removeprefix("pto."), ())
    own = [a.name for row in rows if row.instruction for a in row.instruction.attributes]
    return frozenset({"addr", "layout", "predicate", *own})


@lru_cache(maxsize=256)
def _file(name: str) -> str:
    return PurePath(name).name


def _dtype(value: ir.Value) -> DType:
    kind = parse_type(str(value.type))
    assert isinstance(kind, TileBufType)
    return kind.dtype


def _listed(values: list[str]) -> str:
    return "[" + ", ".join(values) + "]"


def _integer(operation: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(operation.attributes[name]).value


def _text(operation: ir.Operation, name: str) -> str:
    return ir.StringAttr(operation.attributes[name]).value


def _walk(block: ir.Block) -> Iterator[ir.Operation]:
    for view in block.operations:
        operation = view.operation
        yield operation
        for region in operation.regions:
            for inner in region.blocks:
                yield from _walk(inner)


class _FunctionPrinter:
    def __init__(self, function: ir.Operation, locations: bool) -> None:
        self._function = function
        self._locations = locations
        self._names = Names()
        self._types: dict[ir.Value, str] = {}
        self._constants: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = 2
        self._loops = 0
        self._tiles = 0
        self._structure: dict[str, Callable[[ir.Operation], str]] = {
            "pto.alloc_tile": self._alloc_tile,
            "pto.make_tensor_view": self._make_tensor_view,
            "pto.partition_view": self._partition_view,
            "pto.get_block_idx": self._results_only,
            "pto.get_block_num": self._results_only,
            **dict.fromkeys((f"pto.{name}" for name in ELEMENT_ROWS), self._element),
            forms.SELECT: self._select,
            forms.ADD_FLOATS: self._add_floats,
            forms.RETURN: self._return,
        }

    # The parts of a function.

    def lines(self) -> list[str]:
        function = self._function
        if "pypto.mixed" in function.attributes:
            self._refuse("its cube and vector work cannot be separated", function, _text(function, "pypto.mixed"))
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            raise _cannot(function, f"a function of {len(blocks)} blocks")
        self._header(blocks[0])
        self._collect_constants(blocks[0])
        for operation in blocks[0].operations:
            self._print(operation.operation)
        self._depth = 1
        self._line("}", function)
        return self._lines

    def _refuse(self, why: str, operation: ir.Operation, found: str | None = None) -> NoReturn:
        raise AssemblyError(
            f"the kernel {_text(self._function, 'sym_name')} cannot be written as PTO assembly: {why}",
            span=span_of(operation.location),
            found=found,
            hint="it runs on the CPU",
        )

    def _header(self, block: ir.Block) -> None:
        function = self._function
        attributes = function.attributes
        arguments = list(block.arguments)
        described = [dict[str, ir.Attribute]()] * len(arguments)
        if "arg_attrs" in attributes:
            described = [{a.name: a.attr for a in ir.DictAttr(d)} for d in ir.ArrayAttr(attributes["arg_attrs"])]
        pragmas = []
        for argument, about in zip(arguments, described, strict=True):
            key = next((key for key in forms.NAMES if key in about), "")
            implied = ir.StringAttr(about[key]).value if key else None
            name = self._names.give(argument, implied or hint_of(argument.location) or argument_hint(about))
            if name == f"%{implied}":
                about.pop(key)
            if about:
                pragmas.append(f"{name} = {ir.DictAttr.get(about, function.context)}")
        signature = ", ".join(f"{self._names[a]}: {self._type(a)}" for a in arguments)
        kind = _text(function, "pto.kernel_kind") if "pto.kernel_kind" in attributes else None
        marks = ["pto.entry"] if "pto.entry" in attributes else []
        marks += [f"pto.kernel_kind = #pto.kernel_kind<{kind}>"] if kind else []
        shown = f" attributes {{{', '.join(marks)}}}" if marks else ""
        consumed = ("sym_name", "function_type", "arg_attrs", "pto.entry", "pto.kernel_kind", *forms.UNPRINTED)
        self._depth = 1
        header = f"func.func @{_text(function, 'sym_name')}({signature}){shown} {{{self._pragma(function, consumed)}"
        self._lines.append("  " + header)
        self._depth = 2
        self._lines.extend(f"    {forms.PRAGMA} {pragma}" for pragma in pragmas)

    def _collect_constants(self, block: ir.Block) -> None:
        values: dict[ir.Value, ir.Attribute] = {}
        for operation in _walk(block):
            if operation.name == forms.CONSTANT:
                values[operation.results[0]] = operation.attributes["value"]
                continue
            if operation.name == "pto.alloc_tile":
                self._constant(self._address(operation))
            for operand in named_operands(operation):
                if operand in values:
                    value = values[operand]
                    give = self._infinite if is_infinite(value) else self._constant
                    self._names.alias(operand, give(str(value)))

    def _constant(self, text: str) -> str:
        if text not in self._constants:
            name = "%" + self._names.reserve(constant_name(text))
            self._constants[text] = name
            self._lines.append(f"    {name} = {forms.CONSTANT} {text}")
        return self._constants[text]

    def _infinite(self, text: str) -> str:
        if text not in self._constants:
            self._constants[text] = spell_infinite(text, self._constant, self._computed)
        return self._constants[text]

    def _computed(self, hint: str, text: str) -> str:
        name = "%" + self._names.reserve(hint)
        self._lines.append(f"    {name} = {text}")
        return name

    # The ends of lines.

    def _line(self, text: str, operation: ir.Operation, pragma: str = "") -> None:
        self._lines.append("  " * self._depth + text + self._location(operation) + pragma)

    def _location(self, operation: ir.Operation) -> str:
        place = file_location(operation.location) if self._locations else None
        if place is None or place.filename.endswith(ASSEMBLY_SUFFIX):
            return ""
        return f' loc("{_file(place.filename)}":{place.start_line}:{place.start_col})'

    def _pragma(self, operation: ir.Operation, consumed: Collection[str]) -> str:
        kept = {}
        for name in operation.attributes:
            if name.startswith(forms.KEPT_PREFIX) or name in forms.KEPT:
                kept[name] = operation.attributes[name]
            elif name not in consumed and name not in forms.PERMISSIONS:
                raise _cannot(operation, f"attribute {name} of {operation.name}")
        if not kept:
            return ""
        return f" {forms.PRAGMA} {str(ir.DictAttr.get(kept, operation.context))[1:-1]}"

    # Operations.

    def _print(self, operation: ir.Operation) -> None:
        name = operation.name
        if name == forms.CONSTANT:
            return
        if forms.REFUSED in operation.attributes:
            self._refuse(_text(operation, forms.REFUSED), operation)
        if name == forms.FOR:
            self._for(operation)
        elif name == forms.WHILE:
            self._while(operation)
        elif name == forms.IF:
            self._if(operation)
        elif name == forms.CONDITION:
            self._condition(operation)
        elif name == forms.WITHIN:
            self._names.alias(operation.results[0], self._names[operation.operands[0]])
        elif name == forms.FENCE:
            for line in forms.FENCED:
                self._line(line, operation)
        elif name == forms.YIELD:
            if operation.operands:
                self._line(f"{name} {self._typed(list(operation.operands))}", operation)
        else:
            text = self._structure.get(name, self._upstream if not name.startswith("pto.") else self._instruction)
            body = text(operation)
            self._line(self._results(operation) + body, operation, self._pragma(operation, _written(name)))

    def _results(self, operation: ir.Operation) -> str:
        results = list[ir.Value](operation.results)
        if not results:
            return ""
        hint = hint_of(operation.location) or self._default_hint(operation)
        return self._names.give_all(results, hint) + " = "

    def _default_hint(self, operation: ir.Operation) -> str | None:
        if operation.name == "pto.alloc_tile":
            self._tiles += 1
            return f"t{self._tiles - 1}"
        if operation.name == "pto.make_tensor_view":
            return self._names[operation.operands[0]][1:] + "_view"
        if operation.name == "pto.partition_view":
            return self._names[operation.operands[0]][1:].removesuffix("_view") + "_part"
        return _HINTS.get(operation.name)

    def _values(self, values: list[ir.Value]) -> str:
        return ", ".join(self._names[value] for value in values)

    def _typed(self, values: list[ir.Value]) -> str:
        return f"{self._values(values)} : {', '.join(map(self._type, values))}"

    def _type(self, value: ir.Value) -> str:
        found = self._types.get(value)
        if found is None:
            found = self._types[value] = _spell(str(value.type))
        return found

    def _address(self, operation: ir.Operation) -> str:
        if "addr" not in operation.attributes:
            raise _cannot(operation, "a tile buffer without an address")
        return f"{_integer(operation, 'addr')} : i64"

    def _alloc_tile(self, operation: ir.Operation) -> str:
        kind = self._type(operation.results[0])
        valid = list(operation.operands)
        text = f"pto.alloc_tile addr = {self._constants[self._address(operation)]}"
        for key, field in (("valid_row", "v_row=?"), ("valid_col", "v_col=?")):
            if field in kind:
                text += f" {key} = {self._names[valid.pop(0)]}"
        return f"{text} : {kind}"

    def _make_tensor_view(self, operation: ir.Operation) -> str:
        pointer, *extents = operation.operands
        rank = len(extents) // 2
        shape, strides = (_listed([self._names[v] for v in part]) for part in (extents[:rank], extents[rank:]))
        layout = _text(operation, "layout")
        return (
            f"pto.make_tensor_view {self._names[pointer]}, shape = {shape}, strides = {strides} "
            f"{{layout = #pto.layout<{layout}>}} : {self._type(operation.results[0])}"
        )

    def _partition_view(self, operation: ir.Operation) -> str:
        view, *extents = operation.operands
        rank = len(extents) // 2
        offsets, sizes = (_listed([self._names[v] for v in part]) for part in (extents[:rank], extents[rank:]))
        return (
            f"pto.partition_view {self._names[view]}, offsets = {offsets}, sizes = {sizes} : "
            f"{self._type(view)} -> {self._type(operation.results[0])}"
        )

    def _results_only(self, operation: ir.Operation) -> str:
        return operation.name

    def _instruction(self, operation: ir.Operation) -> str:
        rows = INSTRUCTIONS.get(operation.name.removeprefix("pto."))
        if rows is None or rows[0].instruction is None:
            raise _cannot(operation, operation.name)
        instruction = rows[0].instruction
        *inputs, destination = operation.operands
        attributes, trailing = [], []
        for a in instruction.attributes:
            value = _text(operation, a.name) if a.name in operation.attributes else a.default
            if not a.trailing:
                attributes.append(a.spell(value))
            elif value != a.default:
                trailing.append(a.spell(value))
        if instruction.saturates and instruction.asks_saturation(_dtype(inputs[0]), _dtype(destination)):
            attributes.append(f"{forms.SATURATION[0]} = {forms.SATURATE}")
        shown = f" {{{', '.join(attributes)}}}" if attributes else ""
        types = ", ".join(map(self._type, inputs))
        taken = f"ins({self._values(inputs)}{shown} : {types})"
        behind = f" {{{', '.join(trailing)}}}" if trailing else ""
        return f"pto.{instruction.mnemonic} {taken} outs({self._typed([destination])}){behind}"

    def _element(self, operation: ir.Operation) -> str:
        return spell_element(operation, self._names.__getitem__, self._type)

    def _select(self, operation: ir.Operation) -> str:
        return f"{operation.name} {self._values(list(operation.operands))} : {self._type(operation.results[0])}"

    def _add_floats(self, operation: ir.Operation) -> str:
        left, right = operation.operands
        negated = "%" + self._names.reserve(None)
        self._line(f"{negated} = arith.negf {self._names[right]} : {self._type(right)}", operation)
        return f"arith.subf {self._names[left]}, {negated} : {self._type(left)}"

    def _return(self, operation: ir.Operation) -> str:
        return f"return {self._typed(list(operation.operands))}" if operation.operands else "return"

    def _upstream(self, operation: ir.Operation) -> str:
        name = operation.name
        operands = self._values(list(operation.operands))
        if name in forms.BINARY or name in forms.UNARY:
            return f"{name} {operands} : {self._type(operation.results[0])}"
        if name in forms.CAST:
            return f"{name} {operands} : {self._type(operation.operands[0])} to {self._type(operation.results[0])}"
        if name in forms.COMPARE:
            predicate = forms.COMPARE[name][_integer(operation, "predicate")]
            return f"{name} {predicate}, {operands} : {self._type(operation.operands[0])}"
        raise _cannot(operation, name)

    # Control flow.

    def _for(self, operation: ir.Operation) -> None:
        lower, upper, step, *initial = operation.operands
        results = self._results(operation)
        block = operation.regions[0].blocks[0]
        variable, *carried = block.arguments
        name = self._names.give_loop(variable, hint_of(variable.location), self._loops)
        text = f"{results}{forms.FOR} {name} = {self._values([lower])} to {self._values([upper])} step "
        text += self._values([step])
        if carried:
            pairs = (
                f"{self._names.give(inner, hint_of(inner.location))} = {self._names[outer]}"
                for inner, outer in zip(carried, initial, strict=True)
            )
            text += f" iter_args({', '.join(pairs)}) -> ({', '.join(map(self._type, carried))})"
        if str(variable.type) != "index":
            text += f" : {variable.type}"
        self._lines.append("  " * self._depth + f"{text} {{{self._pragma(operation, ())}")
        self._loops += 1
        self._nested(block)
        self._loops -= 1
        self._line("}", operation)

    def _while(self, operation: ir.Operation) -> None:
        results = self._results(operation)
        before, after = (region.blocks[0] for region in operation.regions)
        pairs = (
            f"{self._names.give(inner, hint_of(inner.location))} = {self._names[outer]}"
            for inner, outer in zip(before.arguments, operation.operands, strict=True)
        )
        given, left = (", ".join(map(self._type, values)) for values in (operation.operands, operation.results))
        text = f"{results}{forms.WHILE} ({', '.join(pairs)}) : ({given}) -> ({left})"
        self._lines.append("  " * self._depth + f"{text} {{{self._pragma(operation, ())}")
        self._nested(before)
        self._lines.append("  " * self._depth + "} do {")
        if len(after.arguments):
            arguments = ", ".join(
                f"{self._names.give(value, hint_of(value.location))}: {self._type(value)}" for value in after.arguments
            )
            self._lines.append("  " * self._depth + f"^bb0({arguments}):")
        self._nested(after)
        self._line("}", operation)

    def _condition(self, operation: ir.Operation) -> None:
        condition, *passed = operation.operands
        values = f" {self._typed(passed)}" if passed else ""
        self._line(f"{operation.name}({self._names[condition]}){values}", operation)

    def _if(self, operation: ir.Operation) -> None:
        results = self._results(operation)
        text = f"{results}{forms.IF} {self._names[operation.operands[0]]}"
        if results:
            text += f" -> ({', '.join(map(self._type, operation.results))})"
        self._lines.append("  " * self._depth + f"{text} {{{self._pragma(operation, ())}")
        self._nested(operation.regions[0].blocks[0])
        otherwise = list(operation.regions[1].blocks)
        if otherwise:
            self._lines.append("  " * self._depth + "} else {")
            self._nested(otherwise[0])
        self._line("}", operation)

    def _nested(self, block: ir.Block) -> None:
        self._depth += 1
        for operation in block.operations:
            self._print(operation.operation)
        self._depth -= 1
