"""Reading the statements of a block: results, loops, branches and sections."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.builder import Builder
from pypto_jit.dialects.assembly.cursor import Token
from pypto_jit.dialects.assembly.instructions import read_instruction
from pypto_jit.dialects.assembly.scalars import read_scalar


def last_operation(block: ir.Block) -> str | None:
    """The name of a block's last operation, None for an empty block."""
    count = len(block.operations)
    return block.operations[count - 1].operation.name if count else None


def read_statements(builder: Builder, block: ir.Block, function: ir.Operation) -> None:
    while not builder.at("}"):
        start = builder.peek().start
        if last_operation(block) in (forms.RETURN, forms.YIELD, forms.CONDITION):
            raise builder.unexpected("}")
        names = _read_result_names(builder)
        operation = builder.kind("word", "an operation")
        _read_operation(builder, block, function, operation, names, start)


def _read_result_names(builder: Builder) -> list[tuple[Token, int]]:
    names = []
    while builder.peek().kind == "value":
        if names:
            raise builder.unexpected("=")
        token = builder.take()
        count = 1
        if builder.accept(":"):
            number = builder.kind("number", "a number of results")
            count = int(number.text) if number.text.isdigit() and len(number.text) < 4 else 0
            if count < 1:
                raise builder.error("malformed number of results", number.start, number.end, found=number.text)
        names.append((token, count))
        if not builder.accept(","):
            builder.expect("=")
            break
        if builder.peek().kind != "value":
            raise builder.unexpected("the name of a result")
        more = _read_result_names(builder)
        return names + more
    return names


def _read_operation(
    builder: Builder, block: ir.Block, function: ir.Operation, token: Token, names: list[tuple[Token, int]], start: int
) -> None:
    name = token.text
    hint = names[0][0].text[1:] if names else None
    if name in ("pto.section.cube", "pto.section.vector"):
        _read_section(builder, block, function, name.rpartition(".")[2], token)
        return
    if name == forms.FOR:
        made = _read_for(builder, block, function, start, hint)
    elif name == forms.WHILE:
        made = _read_while(builder, block, function, start, hint)
    elif name == forms.CONDITION:
        made = _read_condition(builder, block, token, start)
    elif name == forms.IF:
        made = _read_if(builder, block, function, start, hint)
    elif name in (forms.RETURN, "return"):
        if block.owner.operation.name != forms.FUNCTION:
            raise builder.error("return stands at the end of a function", token.start, token.end)
        made = builder.create(forms.RETURN, block, builder.location(start, None))
    elif name == forms.YIELD:
        made = _read_yield(builder, block, token, start)
    elif name.startswith("pto."):
        made = read_instruction(builder, block, token, start, hint)
    else:
        made = read_scalar(builder, block, token, start, hint)
    _bind(builder, names, [] if made is None else list(made.results), token)


def _bind(builder: Builder, names: list[tuple[Token, int]], results: list[ir.Value], token: Token) -> None:
    if sum(count for _, count in names) != len(results):
        raise builder.error(
            f"{token.text} has {len(results)} results",
            token.start,
            token.end,
            found=f"{sum(count for _, count in names)} names",
        )
    position = 0
    for name, count in names:
        for part in range(count):
            builder.define(name, name.text if count == 1 else f"{name.text}#{part}", results[position])
            position += 1


def _read_section(builder: Builder, block: ir.Block, function: ir.Operation, kind: str, token: Token) -> None:
    known = function.attributes.get("pto.kernel_kind", None)
    if known is not None and ir.StringAttr(known).value != kind:
        raise builder.error(
            "a function does either cube or vector work", token.start, token.end, found=token.text, expected=known
        )
    function.attributes["pto.kernel_kind"] = ir.StringAttr.get(kind, builder.context)
    builder.expect("{")
    with builder.scope():
        read_statements(builder, block, function)
    builder.expect("}")
    builder.location(token.start, None)


def _read_yield(builder: Builder, block: ir.Block, token: Token, start: int) -> ir.Operation:
    if block.owner.operation.name == forms.FUNCTION or _decides(block):
        raise builder.error("scf.yield ends the body of a loop or branch", token.start, token.end)
    expected = _yielded_types(block.owner.operation)
    values = _read_values(builder, token, expected, "scf.yield does not give what its operation returns")
    return builder.create(forms.YIELD, block, builder.location(start, None), operands=values)


def _read_values(builder: Builder, token: Token, expected: list[ir.Type], message: str) -> list[ir.Value]:
    """What a terminator gives: values, then their types.

    Raises:
        AssemblyError: they are not of the types that are expected; with this message.
    """
    values = []
    while builder.peek().kind == "value":
        values.append(builder.value())
        if not builder.accept(","):
            break
    if values:
        builder.typed_values(values)
    found = [value.type for _, value in values]
    if found != expected:
        raise builder.error(
            message,
            token.start,
            builder.last_end,
            found=", ".join(map(str, found)) or "nothing",
            expected=", ".join(map(str, expected)) or "nothing",
        )
    return [value for _, value in values]


def _decides(block: ir.Block) -> bool:
    """Whether a block is the first of an ``scf.while``."""
    owner = block.owner.operation
    return owner.name == forms.WHILE and block == owner.regions[0].blocks[0]


def _yielded_types(owner: ir.Operation) -> list[ir.Type]:
    """What the body of a loop or branch yields: an ``scf.while`` passes it to its first region."""
    values = owner.operands if owner.name == forms.WHILE else owner.results
    return [value.type for value in values]


def _read_condition(builder: Builder, block: ir.Block, token: Token, start: int) -> ir.Operation:
    if not _decides(block):
        raise builder.error("scf.condition ends the first region of scf.while", token.start, token.end)
    builder.expect("(")
    place, condition = builder.value()
    builder.check_type(place, condition, builder.builtin("i1"))
    builder.expect(")")
    expected = [result.type for result in block.owner.operation.results]
    values = _read_values(builder, token, expected, "scf.condition does not pass on what its operation returns")
    return builder.create(forms.CONDITION, block, builder.location(start, None), operands=[condition, *values])


def _read_body(builder: Builder, block: ir.Block, function: ir.Operation) -> None:
    read_statements(builder, block, function)
    end = builder.expect("}")
    if last_operation(block) not in (forms.YIELD, forms.CONDITION):
        if _decides(block):
            raise builder.error("this region does not decide", end.start, end.end, found="}", expected=forms.CONDITION)
        if _yielded_types(block.owner.operation):
            raise builder.error("this body does not yield", end.start, end.end, found="}", expected="scf.yield")
        builder.create(forms.YIELD, block, builder.place(end.start))


def _read_types(builder: Builder, before: str = "->") -> list[ir.Type]:
    """Take ``-> (T, T)``, or ``-> T``."""
    builder.expect(before)
    if not builder.accept("("):
        return [builder.type()]
    types = []
    while not builder.at(")"):
        if types:
            builder.expect(",")
        types.append(builder.type())
    builder.expect(")")
    return types


def _read_for(builder: Builder, block: ir.Block, function: ir.Operation, start: int, hint: str | None) -> ir.Operation:
    variable = builder.kind("value", "the loop's variable")
    builder.expect("=")
    bounds = [builder.value()]
    for word in ("to", "step"):
        builder.expect(word)
        bounds.append(builder.value())
    carried: list[Token] = []
    initial: list[tuple[Token, ir.Value]] = []
    types: list[ir.Type] = []
    if builder.accept("iter_args"):
        builder.expect("(")
        while not builder.at(")"):
            if carried:
                builder.expect(",")
            carried.append(builder.kind("value", "the name of a carried value"))
            builder.expect("=")
            initial.append(builder.value())
        builder.expect(")")
        opening = builder.peek()
        types = _read_types(builder)
        if len(types) != len(carried):
            raise builder.error("one type per carried value", opening.start, builder.last_end, expected=len(carried))
    counter = builder.type() if builder.accept(":") else builder.builtin("index")
    for (token, value), kind in zip([*bounds, *initial], [counter] * 3 + types, strict=True):
        builder.check_type(token, value, kind)
    place = builder.place(start)
    attributes = builder.kept(builder.line_of(builder.peek().start))
    loop = builder.create(
        forms.FOR, block, place, types, [value for _, value in [*bounds, *initial]], attributes, regions=1
    )
    tokens = [variable, *carried]
    where = [ir.Location.name(token.text[1:], place, context=builder.context) for token in tokens]
    body = loop.regions[0].blocks.append(counter, *types, arg_locs=where)
    builder.expect("{")
    with builder.scope():
        for token, value in zip(tokens, body.arguments, strict=True):
            builder.define(token, token.text, value)
        _read_body(builder, body, function)
    if builder.at("{"):
        for key, text in builder.dictionary().items():
            if key.startswith(forms.KEPT_PREFIX):
                loop.attributes[key] = builder.attribute(text or "unit", start, builder.last_end)
    loop.location = builder.location(start, hint)
    return loop


def _read_while(
    builder: Builder, block: ir.Block, function: ir.Operation, start: int, hint: str | None
) -> ir.Operation:
    carried: list[Token] = []
    initial: list[tuple[Token, ir.Value]] = []
    if builder.accept("("):
        while not builder.at(")"):
            if carried:
                builder.expect(",")
            carried.append(builder.kind("value", "the name of a carried value"))
            builder.expect("=")
            initial.append(builder.value())
        builder.expect(")")
    opening = builder.peek()
    given, left = _read_types(builder, ":"), _read_types(builder)
    if len(given) != len(carried):
        raise builder.error("one type per carried value", opening.start, builder.last_end, expected=len(carried))
    for (token, value), kind in zip(initial, given, strict=True):
        builder.check_type(token, value, kind)
    place = builder.place(start)
    attributes = builder.kept(builder.line_of(builder.peek().start))
    loop = builder.create(forms.WHILE, block, place, left, [value for _, value in initial], attributes, regions=2)
    where = [ir.Location.name(token.text[1:], place, context=builder.context) for token in carried]
    before = loop.regions[0].blocks.append(*given, arg_locs=where)
    builder.expect("{")
    with builder.scope():
        for token, value in zip(carried, before.arguments, strict=True):
            builder.define(token, token.text, value)
        _read_body(builder, before, function)
    builder.expect("do")
    builder.expect("{")
    with builder.scope():
        after = _read_arguments(builder, loop, place)
        _read_body(builder, after, function)
    if builder.accept("attributes"):
        builder.dictionary()
    loop.location = builder.location(start, hint)
    return loop


def _read_arguments(builder: Builder, loop: ir.Operation, place: ir.Location) -> ir.Block:
    """The second block of an ``scf.while``, whose arguments stand behind its label."""
    expected = [result.type for result in loop.results]
    names: list[Token] = []
    types: list[ir.Type] = []
    opening = builder.peek()
    if builder.accept("^"):
        builder.kind("word", "the name of a block")
        if builder.accept("("):
            while not builder.at(")"):
                if names:
                    builder.expect(",")
                names.append(builder.kind("value", "the name of an argument"))
                builder.expect(":")
                types.append(builder.type())
            builder.expect(")")
        builder.expect(":")
    if types != expected:
        raise builder.error(
            "the second region of scf.while takes what scf.condition passes on",
            opening.start,
            max(builder.last_end, opening.end),
            found=", ".join(map(str, types)) or "nothing",
            expected=", ".join(map(str, expected)) or "nothing",
        )
    where = [ir.Location.name(token.text[1:], place, context=builder.context) for token in names]
    block = loop.regions[1].blocks.append(*types, arg_locs=where)
    for token, value in zip(names, block.arguments, strict=True):
        builder.define(token, token.text, value)
    return block


def _read_if(builder: Builder, block: ir.Block, function: ir.Operation, start: int, hint: str | None) -> ir.Operation:
    token, condition = builder.value()
    builder.check_type(token, condition, builder.builtin("i1"))
    types = _read_types(builder) if builder.at("->") else []
    place = builder.place(start)
    attributes = builder.kept(builder.line_of(builder.peek().start))
    branch = builder.create(forms.IF, block, place, types, [condition], attributes, regions=2)
    builder.expect("{")
    with builder.scope():
        _read_body(builder, branch.regions[0].blocks.append(), function)
    if builder.accept("else"):
        builder.expect("{")
        with builder.scope():
            _read_body(builder, branch.regions[1].blocks.append(), function)
    elif types:
        raise builder.unexpected("else")
    branch.location = builder.location(start, hint)
    return branch
