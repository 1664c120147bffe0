"""From PTO assembly to the ``pto`` dialect: modules and functions.

Text that nobody here wrote is taken too: any level-3 module whose instructions are in the operator table, around the
upstream operations of `forms`. What is lost: synchronization (one thread runs the instructions in order) and hints.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.buffers import number_buffers
from pypto_jit.dialects.assembly.builder import MLIR_ERRORS, Builder
from pypto_jit.dialects.assembly.cursor import Token
from pypto_jit.dialects.assembly.infinite import erase_unused
from pypto_jit.dialects.assembly.statements import last_operation, read_statements
from pypto_jit.dialects.locations import ASSEMBLY_SUFFIX, span_of
from pypto_jit.errors import AssemblyError
from pypto_jit.targets import A2A3, BY_NAME

DEFAULT_FILENAME = "<assembly>" + ASSEMBLY_SUFFIX


def parse_assembly(
    text: str, context: ir.Context, *, filename: str = DEFAULT_FILENAME, own_places: bool = False
) -> ir.Module:
    """A module in the ``pto`` dialect from its ``.pto`` text.

    Args:
        text: level-3 assembly: every tile buffer has an address.
        context: with both dialects registered.
        filename: names the text in errors and in the locations of what has no ``loc(...)`` of its own.
        own_places: whether operations are where the text has them, whatever their ``loc(...)`` says.

    Raises:
        AssemblyError: with the line and column of the text.
    """
    if not filename.endswith(ASSEMBLY_SUFFIX):
        filename += ASSEMBLY_SUFFIX
    builder = Builder(text, filename, context, own_places)
    location = ir.Location.file(filename, 1, 1, context=context)
    module = ir.Module.create(location)
    _read_module(builder, module)
    try:
        module.operation.verify()
    except MLIR_ERRORS as error:
        diagnostics = getattr(error, "error_diagnostics", [])
        where = span_of(diagnostics[0].location) if diagnostics else None
        raise AssemblyError(diagnostics[0].message if diagnostics else str(error), span=where) from None
    for function in module.body.operations:
        number_buffers(function.operation)
    return module


def _read_module(builder: Builder, module: ir.Module) -> None:
    _skip_aliases(builder)
    wrapped = builder.accept("module")
    attributes = {}
    if wrapped:
        if builder.peek().kind == "symbol":
            builder.take()
        if builder.accept("attributes"):
            attributes = builder.dictionary()
        builder.expect("{")
    # The assembler reads any architecture but a5 as a2a3.
    builder.target = BY_NAME.get(attributes.get("pto.target_arch", "").partition(":")[0].strip().strip('"'), A2A3)
    module.operation.attributes["pto.target_arch"] = ir.StringAttr.get(builder.target.name, builder.context)
    names: set[str] = set()
    while not builder.at("}") and builder.peek().kind != "end":
        _read_function(builder, module.body, names)
    if wrapped:
        builder.expect("}")
        builder.location(0, None)
    _skip_aliases(builder)
    if builder.peek().kind != "end":
        raise builder.unexpected("the end of the text")


def _skip_aliases(builder: Builder) -> None:
    """Skip ``#loc1 = loc(...)``, which the builder has already found."""
    while builder.peek().text.startswith("#"):
        builder.take()
        builder.expect("=")
        builder.expect("loc")
        if not builder.at("("):
            raise builder.unexpected("(")
        builder.bracketed()


def _read_function(builder: Builder, body: ir.Block, names: set[str]) -> None:
    start = builder.peek().start
    if not (builder.accept(forms.FUNCTION) or builder.accept("func")):
        raise builder.unexpected("func.func")
    if builder.at("private", "public"):
        builder.take()
    symbol = builder.kind("symbol", "the function's name, such as @kernel")
    name = symbol.text[1:].strip('"')
    if name in names:
        raise builder.error("two functions have this name", symbol.start, symbol.end, found=symbol.text)
    names.add(name)
    with builder.scope():
        arguments = _read_arguments(builder)
        if builder.at("->"):
            raise builder.unexpected("a kernel without results")
        attributes = _function_attributes(builder)
        header = builder.line_of(builder.peek().start)
        if not builder.at("{"):
            raise builder.unexpected("{")
        kept = builder.kept_of_arguments(header + 1)
        attributes |= builder.kept(header)
        types = [value_type for _, value_type, _, _ in arguments]
        attributes["sym_name"] = ir.StringAttr.get(name, builder.context)
        attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs=types, results=[], context=builder.context), context=builder.context
        )
        about = [_about_argument(builder, token, kind, own, kept) for token, kind, own, _ in arguments]
        attributes["arg_attrs"] = ir.ArrayAttr.get(about, context=builder.context)
        location = builder.place(start)
        function = builder.create(forms.FUNCTION, body, location, attributes=attributes, regions=1)
        block = function.regions[0].blocks.append(*types, arg_locs=[where for *_, where in arguments])
        for (token, *_), value in zip(arguments, block.arguments, strict=True):
            builder.define(token, token.text, value)
        builder.expect("{")
        read_statements(builder, block, function)
        for operation in dict.fromkeys(builder.replaced):
            erase_unused(operation)
        builder.replaced.clear()
        end = builder.expect("}")
    if last_operation(block) != forms.RETURN:
        raise builder.error("the function does not end with return", end.start, end.end, found="}", expected="return")
    function.location = builder.location(start, None)


def _read_arguments(builder: Builder) -> list[tuple[Token, ir.Type, dict[str, str], ir.Location]]:
    builder.expect("(")
    arguments = []
    while not builder.at(")"):
        if arguments:
            builder.expect(",")
        token = builder.kind("value", "an argument, such as %x: !pto.ptr<f32>")
        builder.expect(":")
        kind = builder.type()
        own = builder.dictionary() if builder.at("{") else {}
        arguments.append((token, kind, own, builder.location(token.start, token.text[1:])))
    builder.expect(")")
    return arguments


def _about_argument(
    builder: Builder, token: Token, kind: ir.Type, own: dict[str, str], kept: dict[str, dict[str, ir.Attribute]]
) -> ir.Attribute:
    about = dict(kept.get(token.text, {}))
    for key, text in own.items():
        if key.startswith(forms.KEPT_PREFIX):
            about[key] = builder.attribute(text or "unit", token.start, token.end)
    if not about.keys() & {"pypto.workspace", "pypto.dim", "pypto.stride"}:
        purpose = "pypto.argument" if str(kind).startswith("!pto.ptr") else "pypto.scalar"
        about.setdefault(purpose, ir.StringAttr.get(token.text[1:], builder.context))
    return ir.DictAttr.get(about, context=builder.context)


def _function_attributes(builder: Builder) -> dict[str, ir.Attribute]:
    if not builder.accept("attributes"):
        return {}
    start = builder.peek().start
    attributes = {}
    for key, text in builder.dictionary().items():
        if key in ("pto.entry", "hacc.entry"):
            attributes["pto.entry"] = ir.UnitAttr.get(builder.context)
        elif key == "pto.kernel_kind":
            kind = text.removeprefix("#pto.kernel_kind<").removesuffix(">").strip('"')
            if kind not in ("cube", "vector"):
                raise builder.error(
                    "unknown kernel kind", start, builder.last_end, found=text, expected="#pto.kernel_kind<vector>"
                )
            attributes[key] = ir.StringAttr.get(kind, builder.context)
        elif key.startswith(forms.KEPT_PREFIX):
            attributes[key] = builder.attribute(text or "unit", start, builder.last_end)
    return attributes
