"""Writes modules of the ``pypto`` dialect as text, for tests that need IR without going through the frontend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules import result_type
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType, row_major_strides
from pypto_jit.dtypes import DType
from pypto_jit.targets import A2A3, Space, Target


@dataclass(frozen=True)
class Value:
    """An SSA value: its name in the text, its type, and its value where it is a constant index."""

    name: str
    type: TensorType | TileType | str
    constant: int | None = None


class ModuleText:
    """One kernel under construction. Result types come from the rules, so an illegal operation raises here."""

    def __init__(self, target: Target = A2A3, name: str = "kernel") -> None:
        self.target = target
        self.name = name
        self.parameters: list[Value] = []
        self.lines: list[str] = []
        self.count = 0
        self.indent = "    "

    def tensor(self, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> Value:
        """A parameter of the kernel; contiguous unless strides are given."""
        type_ = TensorType(tuple(shape), dtype, row_major_strides(tuple(shape)) if strides is None else tuple(strides))
        value = Value(f"%t{len(self.parameters)}", type_)
        self.parameters.append(value)
        return value

    def emit(self, operation: str, result: TileType | str | None = None, constant: int | None = None) -> Value:
        """Append one operation; the name of its result is prepended."""
        self.count += 1
        value = Value(f"%v{self.count}", result or "", constant)
        self.lines.append(self.indent + (f"{value.name} = " if result is not None else "") + operation)
        return value

    def constant(self, value: object, type_: str = "index") -> Value:
        """A constant scalar; floats are written by their bits where they have no decimal form."""
        return self.emit(
            f"arith.constant {value} : {type_}", type_, value if isinstance(value, int) and type_ == "index" else None
        )

    def index(self, value: Value | int) -> Value:
        """An index value, made constant where it is an int."""
        return value if isinstance(value, Value) else self.constant(value)

    def arith(self, name: str, *operands: Value, type_: str = "index") -> Value:
        """A binary ``arith`` operation, all of one type."""
        return self.emit(f"arith.{name} {', '.join(o.name for o in operands)} : {type_}", type_)

    def operator(self, name: str, *operands: Value, **attributes: object) -> Value:
        """An operator of the table. Attributes are those of the rules; only the row's own are written."""
        row = BY_NAME[name]
        given: list = [o.type for o in operands if not isinstance(o.type, str)]
        result = result_type(row, given, attributes, self.target)
        return self._operation(name, operands, result, attributes)

    def _operation(
        self, name: str, operands: Sequence[Value], result: TileType | None, attributes: dict[str, object]
    ) -> Value:
        own = [f'{a.name} = "{attributes[a.name]}"' for a in BY_NAME[name].attributes if a.name in attributes]
        written = " {" + ", ".join(own) + "}" if own else ""
        types = ", ".join(str(o.type) for o in operands)
        outcome = str(result) if result is not None else "()"
        text = f'"pypto.{name}"({", ".join(o.name for o in operands)}){written} : ({types}) -> {outcome}'
        return self.emit(text, result)

    def load(
        self,
        tensor: Value,
        offsets: Sequence[Value | int],
        shape: Sequence[int],
        valid: Sequence[Value | int] | None = None,
        space: Space = Space.VEC,
    ) -> Value:
        """A load; an extent that is a constant makes the result's valid extent static."""
        box = [self.index(o) for o in offsets], [self.index(v) for v in (shape if valid is None else valid)]
        static = tuple(DYNAMIC if v.constant is None else v.constant for v in box[1])
        result = result_type(
            BY_NAME["load"], [tensor.type], {"shape": tuple(shape), "valid": static, "space": space}, self.target
        )
        return self._operation("load", [tensor, *box[0], *box[1]], result, {})

    def store(self, tile: Value, tensor: Value, offsets: Sequence[Value | int]) -> None:
        """A store of the valid region."""
        result_type(BY_NAME["store"], [tile.type, tensor.type], {}, self.target)
        self._operation("store", [tile, tensor, *(self.index(o) for o in offsets)], None, {})

    @contextmanager
    def loop(
        self,
        upper: Value | int,
        step: int = 1,
        carried: Sequence[Value] = (),
        *,
        parallel: bool = False,
        stages: int = 1,
    ) -> Iterator[Loop]:
        """A loop from 0. Inside, `Loop.carried` are the carried values; set `Loop.yields` before leaving."""
        bounds = [self.index(0), self.index(upper), self.index(step)]
        self.count += 1
        loop = Loop(
            Value(f"%i{self.count}", "index"), [Value(f"%a{self.count}_{k}", v.type) for k, v in enumerate(carried)]
        )
        types = ", ".join(str(v.type) for v in carried)
        initial = ", ".join(f"{a.name} = {v.name}" for a, v in zip(loop.carried, carried, strict=True))
        head = f"scf.for {loop.index.name} = {bounds[0].name} to {bounds[1].name} step {bounds[2].name}"
        result = f"%l{self.count}"
        if carried:
            head = f"{result}:{len(carried)} = {head} iter_args({initial}) -> ({types})"
        self.lines.append(f"{self.indent}{head} {{")
        outer, self.indent = self.indent, self.indent + "  "
        yield loop
        if carried:
            names = ", ".join(v.name for v in loop.yields)
            self.lines.append(f"{self.indent}scf.yield {names} : {types}")
        self.indent = outer
        marks = ["pypto.parallel"] * parallel + [f"pypto.stages = {stages} : i64"] * (stages > 1)
        self.lines.append(self.indent + "}" + (f" {{{', '.join(marks)}}}" if marks else ""))
        loop.results = [Value(f"{result}#{k}", v.type) for k, v in enumerate(carried)]

    @contextmanager
    def repeat(self, upper: Value | int, carried: Sequence[Value] = ()) -> Iterator[Loop]:
        """As `loop`, from 0 in steps of 1, as an ``scf.while`` that carries its index and whether to go on."""
        limit, zero, one = self.index(upper), self.constant(0), self.constant(1)
        first = self.emit(f"arith.cmpi slt, {zero.name}, {limit.name} : index", "i1")
        self.count += 1
        n, result = self.count, f"%l{self.count}"
        loop = Loop(Value(f"%i{n}", "index"), [Value(f"%a{n}_{k}", v.type) for k, v in enumerate(carried)])
        inside = [loop.index, *loop.carried]
        types = ", ".join(str(v.type) for v in inside)
        pairs = [f"%g{n} = {first.name}", f"%b{n} = {zero.name}"]
        pairs += [f"%b{n}_{k} = {v.name}" for k, v in enumerate(carried)]
        passed = ", ".join(pair.partition(" ")[0] for pair in pairs[1:])
        head = f"{result}:{len(inside)} = scf.while ({', '.join(pairs)}) : (i1, {types}) -> ({types})"
        self.lines += [f"{self.indent}{head} {{", f"{self.indent}  scf.condition(%g{n}) {passed} : {types}"]
        arguments = ", ".join(f"{v.name}: {v.type}" for v in inside)
        self.lines += [f"{self.indent}}} do {{", f"{self.indent}^bb0({arguments}):"]
        outer, self.indent = self.indent, self.indent + "  "
        yield loop
        following = self.arith("addi", loop.index, one)
        again = self.emit(f"arith.cmpi slt, {following.name}, {limit.name} : index", "i1")
        names = ", ".join(v.name for v in (again, following, *loop.yields))
        self.lines.append(f"{self.indent}scf.yield {names} : i1, {types}")
        self.indent = outer
        self.lines.append(self.indent + "}")
        loop.results = [Value(f"{result}#{k + 1}", v.type) for k, v in enumerate(carried)]

    def __str__(self) -> str:
        names = ", ".join(f'"p{k}"' for k in range(len(self.parameters)))
        signature = ", ".join(f"{p.name}: {p.type}" for p in self.parameters)
        head = f'module attributes {{pypto.target = "{self.target.name}"}} {{\n  func.func @{self.name}({signature})'
        body = "\n".join(self.lines)
        return f"{head} attributes {{pypto.parameters = [{names}]}} {{\n{body}\n    return\n  }}\n}}\n"


@dataclass
class Loop:
    """A loop under construction: its index, what it carries, and what it yields."""

    index: Value
    carried: list[Value]
    yields: Sequence[Value] = ()
    results: Sequence[Value] = ()
