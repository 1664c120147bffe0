"""Reading ``arith`` operations on scalars."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.builder import Builder
from pypto_jit.dialects.assembly.cursor import Token
from pypto_jit.dialects.assembly.infinite import SEEN_AS, read_infinite


def read_scalar(builder: Builder, block: ir.Block, token: Token, start: int, hint: str | None) -> ir.Operation:
    """Take what follows the name of an ``arith`` operation and build it."""
    name = token.text
    if name == forms.CONSTANT:
        value = _read_constant(builder)
        return builder.create(name, block, builder.location(start, hint), [value.type], attributes={"value": value})
    attributes: dict[str, ir.Attribute] = {}
    counts = {forms.SELECT: 3} | dict.fromkeys(forms.CAST | forms.UNARY, 1) | dict.fromkeys(forms.BINARY, 2)
    if name in forms.COMPARE:
        word = builder.kind("word", "a predicate")
        if word.text not in forms.COMPARE[name]:
            raise builder.error(
                "unknown predicate", word.start, word.end, found=word.text, expected=", ".join(forms.COMPARE[name])
            )
        number = ir.IntegerType.get_signless(64, builder.context)
        attributes["predicate"] = ir.IntegerAttr.get(number, forms.COMPARE[name].index(word.text))
        builder.expect(",")
    elif name not in counts:
        raise builder.error(
            "this operation is not part of PTO assembly",
            token.start,
            token.end,
            found=name,
            expected="pto.*, scf.for, scf.while, scf.if or arith on scalars",
        )
    operands = []
    for position in range(counts.get(name, 2)):
        if position:
            builder.expect(",")
        operands.append(builder.value())
    if builder.at("overflow", "fastmath"):
        builder.take()
        if not builder.at("<"):
            raise builder.unexpected("<")
        builder.bracketed()
    builder.expect(":")
    kind = builder.type()
    if str(kind).startswith("!"):
        raise builder.error(f"{name} takes scalars", token.start, builder.last_end, found=kind)
    checked = operands
    if name == forms.SELECT:
        builder.check_type(operands[0][0], operands[0][1], builder.builtin("i1"))
        checked = operands[1:]
    for place, value in checked:
        builder.check_type(place, value, kind)
    result = kind
    if name in forms.CAST:
        builder.expect("to")
        result = builder.type()
    elif name in forms.COMPARE:
        result = builder.builtin("i1")
    values = [value for _, value in operands]
    constant = read_infinite(values[0], result) if name == SEEN_AS else None
    if constant is not None:
        builder.replaced.append(values[0].owner.operation)
        name, values, attributes = forms.CONSTANT, [], {"value": constant}
    return builder.create(name, block, builder.location(start, hint), [result], values, attributes)


def _read_constant(builder: Builder) -> ir.Attribute:
    start = builder.peek().start
    if builder.at("true", "false"):
        return builder.attribute(builder.take().text, start, builder.last_end)
    number = builder.kind("number", "a number, true or false")
    text = number.text
    if builder.accept(":"):
        text += f" : {builder.type()}"
    attribute = builder.attribute(text, start, builder.last_end)
    if not isinstance(attribute, ir.IntegerAttr | ir.FloatAttr):
        raise builder.error("malformed constant", start, builder.last_end, found=text)
    return attribute
