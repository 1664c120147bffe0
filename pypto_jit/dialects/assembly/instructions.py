"""Reading ``pto`` operations: views, tile buffers, and the instructions of the operator table."""

from __future__ import annotations

import difflib
import re

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.builder import Builder
from pypto_jit.dialects.assembly.cursor import Token
from pypto_jit.dialects.assembly.elements import read_element
from pypto_jit.dialects.operators import ELEMENT_ROWS, INSTRUCTIONS, Operator
from pypto_jit.dialects.types import DYNAMIC, PartitionType, PointerType, TensorViewType, TileBufType

Named = tuple[Token, ir.Value]

_BY_MNEMONIC = {rows[0].instruction.mnemonic: rows for rows in INSTRUCTIONS.values() if rows[0].instruction}
# Inputs of instructions that are no operands of their rows.
_IMPLIED = {"tmp": "tile", "partition": "partition", "row": "index", "column": "index"}
_LAYOUTS = ("nd", "dn", "nz")


def read_instruction(
    builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None
) -> ir.Operation | None:
    """Take what follows the name of a ``pto`` operation and build it; None for one that leaves nothing behind."""
    name = token.text
    if name in forms.SYNCHRONIZATION:
        _skip_synchronization(builder)
        builder.location(start, None)
        return None
    if name == "pto.fence.barrier_all":
        _skip_synchronization(builder)
        return builder.create(forms.FENCE, block, builder.location(start, None))
    readers = {
        "pto.alloc_tile": _read_alloc_tile,
        "pto.treshape": _read_other_handle,
        "pto.bitcast": _read_other_handle,
        "pto.make_tensor_view": _read_make_tensor_view,
        "pto.partition_view": _read_partition_view,
        "pto.get_block_idx": _read_block,
        "pto.get_block_num": _read_block,
    }
    if name.removeprefix("pto.") in ELEMENT_ROWS:
        return read_element(builder, block, token, start, hint)
    if name in readers:
        return readers[name](builder, block, token, start, hint)
    rows = _BY_MNEMONIC.get(name.removeprefix("pto."))
    if rows is None:
        known = ["pto." + mnemonic for mnemonic in _BY_MNEMONIC] + list(readers)
        close = difflib.get_close_matches(name, known, 1)
        raise builder.error(
            "this instruction is not in the operator table",
            token.start,
            token.end,
            found=name,
            hint=f"did you mean {close[0]}?" if close else None,
        )
    return _read_table_instruction(builder, block, token, rows, start)


def _skip_synchronization(builder: Builder) -> None:
    if builder.accept("all"):
        pass
    if builder.at("[", "<"):
        builder.bracketed()
    elif builder.peek().kind == "sigil":
        builder.take()
        if builder.at("<"):
            builder.bracketed()
    else:
        raise builder.unexpected("a pipe")
    if builder.at("{"):
        builder.bracketed()


# Views.


def _read_block(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    return builder.create(token.text, block, builder.location(start, hint), [builder.builtin("i64")])


def _indices(builder: Builder, key: str) -> list[ir.Value]:
    builder.expect(key)
    builder.expect("=")
    builder.expect("[")
    values = []
    while not builder.at("]"):
        if values:
            builder.expect(",")
        values.append(builder.index())
    builder.expect("]")
    return values


def _read_make_tensor_view(
    builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None
) -> ir.Operation:
    pointer_token, pointer = builder.value()
    builder.expect(",")
    shape = _indices(builder, "shape")
    builder.expect(",")
    strides = _indices(builder, "strides")
    layout = "nd"
    if builder.at("{"):
        opening = builder.peek()
        text = builder.dictionary().get("layout", "#pto.layout<nd>")
        layout = text.removeprefix("#pto.layout<").removesuffix(">").strip()
        if layout not in _LAYOUTS:
            raise builder.error("unknown layout", opening.start, builder.last_end, found=text, expected="nd, dn or nz")
    builder.expect(":")
    opening = builder.peek()
    kind = builder.type()
    view = builder.kind_of_type(kind)
    source = builder.kind_of(pointer)
    if not isinstance(view, TensorViewType) or source != PointerType(view.dtype):
        raise builder.error(
            "make_tensor_view turns a pointer into a view of the same element type",
            opening.start,
            builder.last_end,
            found=f"{pointer.type} to {kind}",
        )
    if len(shape) != len(view.shape) or len(strides) != len(view.shape) or not shape:
        raise builder.error(
            "a view has one extent and one stride per dimension",
            pointer_token.start,
            builder.last_end,
            found=f"{len(shape)} extents, {len(strides)} strides",
            expected=len(view.shape),
        )
    attributes = {"layout": ir.StringAttr.get(layout, builder.context)}
    attributes |= builder.kept(builder.line_of(builder.last_end))
    operands = [pointer, *shape, *strides]
    return builder.create(token.text, block, builder.location(start, hint), [kind], operands, attributes)


def _read_partition_view(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    view_token, view = builder.value()
    builder.expect(",")
    offsets = _indices(builder, "offsets")
    builder.expect(",")
    sizes = _indices(builder, "sizes")
    builder.expect(":")
    builder.check_type(view_token, view, builder.type())
    source = builder.kind_of(view)
    if builder.accept("->"):
        opening = builder.peek()
        kind = builder.type()
    else:
        opening = view_token
        # The assembler then takes the sizes that are constants as static.
        dtype = source.dtype.mlir if isinstance(source, TensorViewType) else "f32"
        extents = [_constant(size) for size in sizes]
        spelled = "".join(f"{'?' if extent is None else extent}x" for extent in extents) + dtype
        kind = builder.spelled_type("!pto.partition_tensor_view", spelled, opening)
    box = builder.kind_of_type(kind)
    if not isinstance(source, TensorViewType) or not isinstance(box, PartitionType) or source.dtype != box.dtype:
        raise builder.error(
            "partition_view takes a box of a view, of the same element type",
            opening.start,
            builder.last_end,
            found=f"{view.type} to {kind}",
        )
    ranks = {len(source.shape), len(box.shape), len(offsets), len(sizes)}
    if len(ranks) != 1:
        raise builder.error(
            "a partition has one offset and one size per dimension of its view",
            opening.start,
            builder.last_end,
            found=f"{len(offsets)} offsets, {len(sizes)} sizes, {len(box.shape)} dimensions",
            expected=len(source.shape),
        )
    return builder.create(token.text, block, builder.location(start, hint), [kind], [view, *offsets, *sizes])


# Tile buffers.


def _read_alloc_tile(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    if not builder.at("addr"):
        raise builder.error(
            "this tile buffer has no address",
            token.start,
            token.end,
            expected="addr = %a (level-3 assembly)",
        )
    builder.take()
    builder.expect("=")
    address = _constant_address(builder)
    valid: dict[str, ir.Value] = {}
    for key in ("valid_row", "valid_col"):
        if builder.accept(key):
            builder.expect("=")
            valid[key] = builder.index()
    if builder.at("{"):
        builder.dictionary()
    builder.expect(":")
    opening = builder.peek()
    kind = builder.type()
    tile = builder.kind_of_type(kind)
    if not isinstance(tile, TileBufType):
        raise builder.error("alloc_tile makes a tile buffer", opening.start, builder.last_end, found=kind)
    needed = [key for key, extent in zip(("valid_row", "valid_col"), tile.valid, strict=True) if extent == DYNAMIC]
    if needed != list(valid):
        raise builder.error(
            "a valid extent is an operand exactly where the type says ?",
            opening.start,
            builder.last_end,
            found=", ".join(valid) or "no operand",
            expected=", ".join(needed) or "no operand",
        )
    _check_address(builder, tile, address, opening)
    number = ir.IntegerType.get_signless(64, builder.context)
    attributes: dict[str, ir.Attribute] = {"addr": ir.IntegerAttr.get(number, address)}
    attributes |= builder.kept(builder.line_of(builder.last_end))
    return builder.create(token.text, block, builder.location(start, hint), [kind], list(valid.values()), attributes)


def _constant_address(builder: Builder) -> int:
    token, value = builder.value()
    builder.check_type(token, value, builder.builtin("i64"))
    address = _constant(value)
    if address is None:
        raise builder.error("an address is a constant", token.start, token.end, found=token.text)
    return address


def _constant(value: ir.Value) -> int | None:
    """The value of an integer constant, else None."""
    definition = value.owner
    if isinstance(definition, ir.Block) or definition.name != forms.CONSTANT:
        return None
    return ir.IntegerAttr(definition.attributes["value"]).value


def _check_address(builder: Builder, tile: TileBufType, address: int, opening: Token) -> None:
    target = builder.target
    if address < 0 or address % target.alignment[tile.space]:
        raise builder.error(
            f"the address of a tile in {tile.space.value} is not aligned",
            opening.start,
            builder.last_end,
            found=address,
            expected=f"a multiple of {target.alignment[tile.space]}",
        )
    if address + tile.bytes > target.capacity[tile.space]:
        raise builder.error(
            f"the tile does not fit {tile.space.value} of {target.name}",
            opening.start,
            builder.last_end,
            found=f"bytes {address} to {address + tile.bytes}",
            expected=f"at most {target.capacity[tile.space]}",
        )


def _read_other_handle(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    """``pto.treshape %t : T -> U``: another handle on the same buffer, which the dialect allocates at its address."""
    source_token, source = builder.value()
    builder.expect(":")
    builder.check_type(source_token, source, builder.type())
    builder.expect("->")
    opening = builder.peek()
    kind = builder.type()
    before, after = builder.kind_of(source), builder.kind_of_type(kind)
    definition = source.owner
    if (
        not isinstance(before, TileBufType)
        or not isinstance(after, TileBufType)
        or isinstance(definition, ir.Block)
        or (before.space, before.bytes) != (after.space, after.bytes)
        or DYNAMIC in after.valid
    ):
        raise builder.error(
            f"{token.text} gives a buffer another static type of as many bytes",
            opening.start,
            builder.last_end,
            found=f"{source.type} to {kind}",
        )
    attributes = {key: definition.attributes[key] for key in ("addr", "buffer") if key in definition.attributes}
    return builder.create("pto.alloc_tile", block, builder.location(start, hint), [kind], [], attributes)


# Instructions of the table.


def _read_table_instruction(
    builder: Builder, block: ir.Block, token: Token, rows: tuple[Operator, ...], start: int
) -> ir.Operation:
    instruction = rows[0].instruction
    assert instruction is not None
    options: dict[str, str] = {}
    inputs = _read_group(builder, "ins", options)
    outputs = _read_group(builder, "outs", options)
    if builder.at("{"):
        options |= builder.dictionary()
    if instruction.optional_scratch and len(inputs) == len(instruction.inputs) + 1:
        inputs.pop()
    if len(inputs) != len(instruction.inputs) or len(outputs) != 1:
        raise builder.error(
            f"{token.text} takes {len(instruction.inputs)} inputs and one output",
            token.start,
            builder.last_end,
            found=f"{len(inputs)} inputs, {len(outputs)} outputs",
            expected=", ".join(instruction.inputs),
        )
    _check_operands(builder, token, rows, inputs, outputs[0])
    source, result = builder.kind_of(inputs[0][1]), builder.kind_of(outputs[0][1])
    if source is not None and result is not None and instruction.asks_saturation(source.dtype, result.dtype):
        for key in forms.SATURATION:
            options.pop(key, None)
    attributes = _attributes(builder, token, rows[0], options)
    attributes |= builder.kept(builder.line_of(builder.last_end))
    operands = [value for _, value in (*inputs, *outputs)]
    name = f"pto.{instruction.operation}"
    return builder.create(name, block, builder.location(start, None), (), operands, attributes)


def _read_group(builder: Builder, word: str, options: dict[str, str]) -> list[Named]:
    builder.expect(word)
    builder.expect("(")
    values = [builder.value()]
    while builder.accept(","):
        values.append(builder.value())
    if builder.at("{"):
        options |= builder.dictionary()
    builder.typed_values(values)
    builder.expect(")")
    return values


def _check_operands(
    builder: Builder, token: Token, rows: tuple[Operator, ...], inputs: list[Named], output: Named
) -> None:
    stores = rows[0].results == 0
    wanted = PartitionType if stores else TileBufType
    destination = builder.kind_of(output[1])
    if not isinstance(destination, wanted):
        raise builder.error(f"{token.text} does not write this", output[0].start, output[0].end, found=output[1].type)
    problems = []
    for row in rows:
        problem = _misfit(builder, row, inputs, destination)
        if problem is None:
            return
        problems.append(problem)
    (place, value), expected = problems[0]
    raise builder.error(
        f"{token.text} does not take this operand", place.start, place.end, found=value.type, expected=expected
    )


def _misfit(
    builder: Builder, row: Operator, inputs: list[Named], destination: TileBufType | PartitionType
) -> tuple[Named, str] | None:
    """The first operand that does not fit the row, and what the row takes there."""
    assert row.instruction is not None
    kinds = {operand.name: operand.kind for operand in row.operands} | _IMPLIED
    for name, named in zip(row.instruction.inputs, inputs, strict=True):
        found = builder.kind_of(named[1])
        if kinds[name] == "scalar":
            dtype = destination.dtype
            source = builder.kind_of(inputs[0][1])
            if row.rule == "compare" and isinstance(source, TileBufType):
                dtype = source.dtype
            if str(named[1].type) != dtype.signless:
                return named, f"a scalar of type {dtype.signless}"
        elif kinds[name] == "index":
            if str(named[1].type) != "index":
                return named, "an index"
        elif not isinstance(found, PartitionType if kinds[name] == "partition" else TileBufType):
            return named, f"a {kinds[name]}"
    return None


def _attributes(builder: Builder, token: Token, row: Operator, options: dict[str, str]) -> dict[str, ir.Attribute]:
    attributes: dict[str, ir.Attribute] = {}
    instruction = row.instruction
    assert instruction is not None
    choices = {a.name: a.choices for a in row.attributes}
    for attribute in instruction.attributes:
        text = options.pop(attribute.key, None)
        value = attribute.default if text is None else _enumerator(text).removeprefix("cast_").removeprefix("atomic_")
        if value not in choices[attribute.name]:
            raise builder.error(
                f"unknown {attribute.key}",
                token.start,
                builder.last_end,
                found=text,
                expected=", ".join(attribute.spell(str(c)) for c in choices[attribute.name]),
            )
        if attribute.trailing and value == attribute.default:
            continue
        attributes[attribute.name] = ir.StringAttr.get(value, builder.context)
    for key, text in options.items():
        if key in forms.HINTS or forms.NEUTRAL.get(key) == _enumerator(text):
            continue
        raise builder.error(
            f"{token.text} with this attribute is not supported",
            token.start,
            builder.last_end,
            found=f"{key} = {text}",
        )
    return attributes


def _enumerator(text: str) -> str:
    """``#pto<round_mode RINT>`` and ``#pto.round_mode<RINT>`` both say ``rint``."""
    match = re.fullmatch(r"#pto(?:\.\w+)?<\s*(?:\w+\s+)?(\w+)\s*>", text.strip())
    return (match[1] if match else text).lower()
