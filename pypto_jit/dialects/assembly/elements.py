"""The text of instructions that read or write one element: of a tensor, of a tile, or of an array on the core.

The index and extent of each dimension, by which the CPU checks an access, have no place in the text: what was parsed
checks tiles and arrays only.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly.builder import Builder
from pypto_jit.dialects.assembly.cursor import Token
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.operators import ELEMENT_ROWS
from pypto_jit.dialects.types import ArrayType, PointerType, TileBufType, parse_type
from pypto_jit.errors import AssemblyError

# Operands that the text names, before those that only say where an element is.
NAMED = {"within": 1, "load_scalar": 2, "store_scalar": 3, "tgetval": 2, "tsetval": 3}

Spell = Callable[[ir.Value], str]


def named_operands(operation: ir.Operation) -> list[ir.Value]:
    """The operands of any operation that its text names."""
    operands = list(operation.operands)
    return operands[: NAMED.get(operation.name.removeprefix("pto."), len(operands))]


def spell_element(operation: ir.Operation, name: Spell, kind: Spell) -> str:
    """The text of an operation after its results.

    Raises:
        AssemblyError: an unsigned element, which the assembler has no scalar for.
    """
    operands = named_operands(operation)
    results = list(operation.results)
    mnemonic = operation.name
    _check_sign(operation)
    if mnemonic == "pto.load_scalar":
        pointer, offset = operands
        return f"{mnemonic} {name(pointer)}[{name(offset)}] : {kind(pointer)} -> {kind(results[0])}"
    if mnemonic == "pto.store_scalar":
        value, pointer, offset = operands
        return f"{mnemonic} {name(value)}, {name(pointer)}[{name(offset)}] : {kind(pointer)}, {kind(value)}"
    if mnemonic == "pto.tgetval":
        tile, offset = operands
        return f"{mnemonic} ins({name(tile)}, {name(offset)} : {kind(tile)}, index) outs : {kind(results[0])}"
    if mnemonic == "pto.tsetval":
        offset, value, tile = operands
        taken = f"ins({name(offset)}, {name(value)} : index, {kind(value)})"
        return f"{mnemonic} {taken} outs({name(tile)} : {kind(tile)})"
    if mnemonic == "pto.declare_local_array":
        return f"{mnemonic} -> {kind(results[0])}"
    if mnemonic == "pto.local_array_get":
        array, index = operands
        return f"{mnemonic} {name(array)}[{name(index)}] : {kind(array)} -> {kind(results[0])}"
    array, index, value = operands
    return f"{mnemonic} {name(array)}[{name(index)}], {name(value)} : {kind(array)}, {kind(value)}"


def _check_sign(operation: ir.Operation) -> None:
    for value in operation.operands:
        kind = parse_type(str(value.type))
        if isinstance(kind, PointerType) and kind.dtype.kind == "uint":
            raise AssemblyError(
                f"this cannot be written as PTO assembly: it has no scalars of {kind.dtype}",
                span=span_of(operation.location),
                found=operation.name,
                hint="keep such numbers in a tensor of INT32; the kernel runs on the CPU as it is",
            )


def _subscript(builder: Builder) -> ir.Value:
    builder.expect("[")
    index = builder.index()
    builder.expect("]")
    return index


def _element_type(builder: Builder, token: Token, value: ir.Value, expected: type) -> str:
    """The element type of a pointer, array or tile, after its type was taken; checked."""
    builder.check_type(token, value, builder.type())
    kind = builder.kind_of(value)
    if not isinstance(kind, expected) or not isinstance(kind, PointerType | ArrayType | TileBufType):
        raise builder.error(f"{token.text} is of the wrong kind", token.start, token.end, found=value.type)
    return kind.dtype.signless


def _check_scalar(builder: Builder, token: Token, value: ir.Value, element: str) -> None:
    builder.check_type(token, value, builder.builtin(element))
    builder.check_type(token, value, builder.type())


def read_element(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    """Take what follows the name of one of these operations and build it."""
    operands, results = _READERS[token.text.removeprefix("pto.")](builder)
    return builder.create(token.text, block, builder.location(start, hint), results, operands)


Read = tuple[list[ir.Value], list[ir.Type]]


def _result(builder: Builder, element: str) -> list[ir.Type]:
    opening = builder.peek()
    kind = builder.type()
    if str(kind) != element:
        raise builder.error(
            "an element has another type", opening.start, builder.last_end, found=kind, expected=element
        )
    return [kind]


def _from(builder: Builder, expected: type) -> Read:
    """``%p[%i] : P -> f32``."""
    token, source = builder.value()
    index = _subscript(builder)
    builder.expect(":")
    element = _element_type(builder, token, source, expected)
    builder.expect("->")
    return [source, index], _result(builder, element)


def _load_scalar(builder: Builder) -> Read:
    return _from(builder, PointerType)


def _store_scalar(builder: Builder) -> Read:
    place, value = builder.value()
    builder.expect(",")
    token, pointer = builder.value()
    index = _subscript(builder)
    builder.expect(":")
    element = _element_type(builder, token, pointer, PointerType)
    builder.expect(",")
    _check_scalar(builder, place, value, element)
    return [value, pointer, index], []


def _tgetval(builder: Builder) -> Read:
    builder.expect("ins")
    builder.expect("(")
    token, tile = builder.value()
    builder.expect(",")
    offset = builder.index()
    builder.expect(":")
    element = _element_type(builder, token, tile, TileBufType)
    builder.expect(",")
    builder.expect("index")
    builder.expect(")")
    builder.expect("outs")
    builder.expect(":")
    return [tile, offset], _result(builder, element)


def _tsetval(builder: Builder) -> Read:
    builder.expect("ins")
    builder.expect("(")
    offset = builder.index()
    builder.expect(",")
    place, value = builder.value()
    builder.expect(":")
    builder.expect("index")
    builder.expect(",")
    builder.check_type(place, value, builder.type())
    builder.expect(")")
    builder.expect("outs")
    builder.expect("(")
    token, tile = builder.value()
    builder.expect(":")
    element = _element_type(builder, token, tile, TileBufType)
    builder.expect(")")
    builder.check_type(place, value, builder.builtin(element))
    return [offset, value, tile], []


def _declare_local_array(builder: Builder) -> Read:
    builder.expect("->")
    opening = builder.peek()
    kind = builder.type()
    if not isinstance(builder.kind_of_type(kind), ArrayType):
        raise builder.error("this declares an array", opening.start, builder.last_end, found=kind)
    return [], [kind]


def _local_array_get(builder: Builder) -> Read:
    return _from(builder, ArrayType)


def _local_array_set(builder: Builder) -> Read:
    token, array = builder.value()
    index = _subscript(builder)
    builder.expect(",")
    place, value = builder.value()
    builder.expect(":")
    element = _element_type(builder, token, array, ArrayType)
    builder.expect(",")
    _check_scalar(builder, place, value, element)
    return [array, index, value], []


_READERS: dict[str, Callable[[Builder], Read]] = {
    "load_scalar": _load_scalar,
    "store_scalar": _store_scalar,
    "tgetval": _tgetval,
    "tsetval": _tsetval,
    "declare_local_array": _declare_local_array,
    "local_array_get": _local_array_get,
    "local_array_set": _local_array_set,
}
assert _READERS.keys() == ELEMENT_ROWS.keys()
