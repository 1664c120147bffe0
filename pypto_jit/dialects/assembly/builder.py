"""What the parser builds with: names in scope, types, locations and operations of one module being made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.assembly.cursor import Cursor, Token, pragmas, split_entries
from pypto_jit.dialects.assembly.spelling import AssemblyType, read_type
from pypto_jit.errors import AssemblyError
from pypto_jit.targets import A2A3, Target

_BUILTIN = re.compile(r"index|[iu]?i\d{1,2}|f16|f32|f64|bf16")
_PLACE = re.compile(r'"((?:[^"\\\n]|\\.)*)":(\d{1,9}):(\d{1,9})(?: to .*)?')
_NAMED = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\((.*)\))?', re.DOTALL)
_LOCATION_ALIAS = re.compile(r"^(#loc\w*) = loc\((.*)\)\s*$", re.MULTILINE)
_DEEPEST_REGION = 50
# The bindings' stubs leave MLIRError out.
MLIR_ERRORS: tuple[type[Exception], ...] = (ir.MLIRError, ValueError)  # pyright: ignore[reportAttributeAccessIssue]


class Builder(Cursor):
    """A cursor that knows the module being made from what it reads.

    Args:
        text, filename: what is read.
        context: with both dialects registered.
        own_places: whether an operation is where this text has it, whatever its ``loc(...)`` says.
    """

    def __init__(self, text: str, filename: str, context: ir.Context, own_places: bool = False) -> None:
        super().__init__(text, filename)
        self.context = context
        self._own_places = own_places
        self.target: Target = A2A3
        self._types: dict[str, tuple[ir.Type, AssemblyType | None]] = {}
        self._kinds: dict[str, AssemblyType] = {}
        self._scopes: list[dict[str, ir.Value]] = []
        self._pragmas = pragmas(text)
        # Operations that made what has become a constant.
        self.replaced: list[ir.Operation] = []
        self._location_aliases = dict(_LOCATION_ALIAS.findall(text))

    # Names.

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names defined inside are forgotten outside."""
        if len(self._scopes) >= _DEEPEST_REGION:
            raise self.unexpected(f"at most {_DEEPEST_REGION} nested regions")
        self._scopes.append({})
        yield
        self._scopes.pop()

    def define(self, token: Token, name: str, value: ir.Value) -> None:
        """Bind a name in the innermost scope."""
        if any(name in scope for scope in self._scopes):
            raise self.error("this name is already defined", token.start, token.end, found=name)
        self._scopes[-1][name] = value

    def value(self) -> tuple[Token, ir.Value]:
        """Take the name of a value that is in scope."""
        token = self.kind("value", "the name of a value, such as %x")
        for scope in reversed(self._scopes):
            if token.text in scope:
                return token, scope[token.text]
        raise self.error("this name is not defined here", token.start, token.end, found=token.text)

    def index(self) -> ir.Value:
        """Take the name of an index value."""
        token, value = self.value()
        self.check_type(token, value, self.builtin("index"))
        return value

    # Types.

    def builtin(self, text: str) -> ir.Type:
        """A builtin type by its text."""
        if text not in self._types:
            self._types[text] = (ir.Type.parse(text, self.context), None)
        return self._types[text][0]

    def type(self) -> ir.Type:
        """Take a type."""
        token = self.peek()
        if token.kind == "word" and _BUILTIN.fullmatch(token.text):
            return self.builtin(self.take().text)
        if token.kind != "sigil" or not token.text.startswith("!"):
            raise self.unexpected("a type")
        self.take()
        if not self.at("<"):
            raise self.unexpected("<")
        body = self.bracketed()
        return self._dialect_type(token, f"{token.text}<{body}>", body)

    def _dialect_type(self, token: Token, spelled: str, body: str) -> ir.Type:
        if spelled not in self._types:
            try:
                kind = read_type(token.text, body, self.target)
                made = ir.Type.parse(str(kind), self.context)
            except AssemblyError as error:
                raise self.error(
                    error.message,
                    token.start,
                    self.last_end,
                    found=error.found,
                    expected=error.expected,
                    hint=error.hint,
                ) from None
            except MLIR_ERRORS:
                raise self.error("malformed type", token.start, self.last_end, found=spelled) from None
            self._types[spelled] = (made, kind)
            self._kinds[str(made)] = kind
        return self._types[spelled][0]

    def spelled_type(self, head: str, body: str, place: Token) -> ir.Type:
        """A type that the text implies at a token without writing it."""
        return self._dialect_type(Token("sigil", head, place.start, place.end), f"{head}<{body}>", body)

    def kind_of_type(self, kind: ir.Type) -> AssemblyType | None:
        """A type as Python data, None for a builtin type."""
        return self._kinds.get(str(kind))

    def kind_of(self, value: ir.Value) -> AssemblyType | None:
        """The type of a value as Python data, None for a builtin type."""
        return self._kinds.get(str(value.type))

    def check_type(self, token: Token, value: ir.Value, kind: ir.Type) -> None:
        """Refuse a value whose type is not the one written."""
        if value.type != kind:
            raise self.error(f"{token.text} has another type", token.start, token.end, found=value.type, expected=kind)

    def typed_values(self, values: Sequence[tuple[Token, ir.Value]]) -> None:
        """Take ``: T, T``, the types of these values."""
        self.expect(":")
        for position, (token, value) in enumerate(values):
            if position:
                self.expect(",")
            self.check_type(token, value, self.type())

    # Attributes.

    def attribute(self, text: str, start: int, end: int) -> ir.Attribute:
        """An attribute from MLIR's own syntax."""
        try:
            return ir.Attribute.parse(text, self.context)
        except MLIR_ERRORS:
            raise self.error("malformed attribute", start, end, found=text[:80]) from None

    def dictionary(self) -> dict[str, str]:
        """Take ``{key = value, flag}``: each value as written, empty for a flag."""
        start = self.peek().start
        entries = {}
        for entry in split_entries(self.bracketed()):
            key, _, value = (part.strip() for part in entry.partition("="))
            if not key or key in entries:
                raise self.error("malformed attributes", start, self.last_end, found=entry, expected="key = value")
            entries[key.strip('"')] = value
        return entries

    def kept(self, line: int) -> dict[str, ir.Attribute]:
        """The attributes kept in the comment at the end of a line."""
        if line not in self._pragmas:
            return {}
        offset, text = self._pragmas[line]
        if text.startswith("%"):
            return {}
        return self._kept_attributes(offset, text)

    def kept_of_arguments(self, line: int) -> dict[str, dict[str, ir.Attribute]]:
        """The attributes of a function's arguments, kept in comments on the lines after its first."""
        found = {}
        while line in self._pragmas and self._pragmas[line][1].startswith("%"):
            offset, text = self._pragmas[line]
            name, _, attributes = text.partition(" = ")
            found[name.strip()] = self._kept_attributes(offset, attributes.strip().removeprefix("{").removesuffix("}"))
            line += 1
        return found

    def _kept_attributes(self, offset: int, text: str) -> dict[str, ir.Attribute]:
        end = offset + len(text)
        if any(text.count(opening) > 50 for opening in "[{<("):
            raise self.error("malformed attribute", offset, end)
        parsed = self.attribute("{" + text + "}", offset, end)
        kept = {}
        for named in ir.DictAttr(parsed):
            integer = isinstance(named.attr, ir.IntegerAttr)
            if not (named.name.startswith(forms.KEPT_PREFIX) or (named.name in forms.KEPT and integer)):
                raise self.error("this attribute is not kept in a comment", offset, end, found=named.name)
            kept[named.name] = named.attr
        return kept

    # Locations and operations.

    def place(self, start: int) -> ir.Location:
        """The location of an offset in this text."""
        span = self.span(start, start)
        return ir.Location.file(span.filename, span.line, span.column, context=self.context)

    def location(self, start: int, name: str | None) -> ir.Location:
        """The location of an operation that ends here: what ``loc(...)`` says, or its place in this text."""
        place = None
        if self.at("loc"):
            opening = self.take()
            if not self.at("("):
                raise self.unexpected("(")
            place = self._read_location(self.bracketed(), opening.start)
        place = place if place is not None and not self._own_places else self.place(start)
        if name and not place.is_a_name():
            place = ir.Location.name(name, place, context=self.context)
        return place

    def _read_location(self, text: str, start: int, depth: int = 0) -> ir.Location | None:
        text = self._location_aliases.get(text.strip(), text).strip()
        if text == "unknown":
            return None
        match = _PLACE.fullmatch(text)
        if match:
            return ir.Location.file(match[1], int(match[2]), int(match[3]), context=self.context)
        match = _NAMED.fullmatch(text)
        if match is None or depth > 5:
            raise self.error("malformed location", start, self.last_end, found=text[:80], expected='"file":line:column')
        inner = self._read_location(match[2], start, depth + 1) if match[2] else None
        inner = inner or ir.Location.unknown(self.context)
        return ir.Location.name(match[1], inner, context=self.context)

    def create(
        self,
        name: str,
        block: ir.Block,
        location: ir.Location,
        results: Sequence[ir.Type] = (),
        operands: Sequence[ir.Value] = (),
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """Append an operation to a block."""
        return ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=attributes or {},
            regions=regions,
            loc=location,
            ip=ir.InsertionPoint(block),
        )
