"""What a recorded loop carries: the body is traced once; what it rebinds goes from turn to turn and out of the loop.

`loops` has the loops themselves: counted ones, and those that run while a condition holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INDEX
from pypto_jit.errors import ControlFlowError, ShapeError, Span
from pypto_jit.frontend.builder import Builder, Region
from pypto_jit.frontend.jumps import is_internal
from pypto_jit.frontend.liveness import Flow
from pypto_jit.frontend.placeholders import placeholder
from pypto_jit.frontend.structures import (
    UNDEFINED,
    Containers,
    describe,
    flatten,
    is_plain_number,
    is_traced,
    number_dtype,
    same,
    unflatten,
)
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor, Tile, UnknownExtent


@dataclass
class Leaf:
    """One value that enters the loop. ``argument`` stands for it in the body; ``final`` is what the body leaves."""

    name: str
    initial: Any
    argument: Any = None
    final: Any = None
    result: Any = None


@dataclass
class Variable:
    """A variable that the body binds."""

    name: str
    initial: Any
    exposed: bool
    structure: Any = None
    leaves: list[Leaf] = field(default_factory=list)
    bound_after: bool = True


class RecordedLoop(ABC):
    """Hooks around the body of one recorded loop.

    Args:
        builder: records.
        flow: what is known of the statement.
        span: its line.
        name: what the user wrote, such as ``pl.range``.
        independent: whether no turn may use what another one leaves.
    """

    def __init__(self, builder: Builder, flow: Flow, span: Span | None, name: str, independent: bool = False) -> None:
        self._builder = builder
        self._flow = flow
        self._span = span
        self._name = name
        self._independent = independent
        self._what = f"{name} loop" if span is None else f"{name} loop at line {span.line}"
        self._location = builder.location
        self._exits = {variable for variable, *_ in flow.exits}
        self._variables: list[Variable] = []
        self._counters: list[Scalar] = []
        self._containers = Containers({})
        self._region: Region | None = None
        self._operation, self._block = self._make()

    @abstractmethod
    def _make(self) -> tuple[ir.Operation, ir.Block]:
        """An operation to hold the body while it is traced, and the body's block."""

    @abstractmethod
    def _create(self, leaves: Sequence[Leaf], exits: Scalar | bool) -> Sequence[ir.Value]:
        """End the body, put the operation in its place, and give what became of each leaf after the loop."""

    def open(self) -> None:
        """Trace into the body from now on."""
        self._region = self._builder.open_region(self._block, f"{self._name} loop", self._span)

    # Entering the body

    def enter(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        """What the body finds in the variables that it reads before it rebinds them."""
        flow = self._flow
        self._containers = Containers({name: variables[name] for name in flow.read if name in variables})
        entered = []
        for name in flow.bound:
            # A turn begins only where no jump has been taken.
            leaves = name in self._exits
            exposed = name in flow.exposed and not leaves
            if leaves and name in flow.exposed:
                entered.append(False)
            if not exposed and name not in flow.after:
                continue
            variable = Variable(name, variables.get(name, UNDEFINED), exposed)
            self._variables.append(variable)
            if variable.initial is not UNDEFINED:
                self._open(variable)
            if exposed:
                entered.append(self._entering(variable))
        return tuple(entered)

    def _open(self, variable: Variable) -> None:
        values: list[Any] = []
        variable.structure = flatten(variable.initial, values)
        variable.leaves = [Leaf(variable.name, value) for value in values]
        if self._independent or not variable.exposed:
            return
        for leaf in variable.leaves:
            if is_traced(leaf.initial) or is_plain_number(leaf.initial):
                leaf.argument = self._argument(leaf.initial)

    def _argument(self, value: Any) -> Tile | Scalar:
        builder = self._builder
        assert self._region is not None
        if isinstance(value, Tile):
            kind = builder.type(str(value.type))
            extents = tuple(e if isinstance(e, int) else UnknownExtent() for e in value.valid_extents)
            return Tile(self._block.add_argument(kind, self._location), value.type, extents, value.span, self._region)
        dtype = value.dtype if isinstance(value, Scalar) else number_dtype(value)
        kind = builder.type(dtype.signless)
        return Scalar(self._block.add_argument(kind, self._location), dtype, self._region)

    def _entering(self, variable: Variable) -> Any:
        if variable.initial is UNDEFINED:
            self._builder.note_undefined(self._span, variable.name, f"has no value before the {self._what}")
            return UNDEFINED
        leaves = (leaf.initial if leaf.argument is None else leaf.argument for leaf in variable.leaves)
        return unflatten(variable.structure, leaves)

    # Leaving the body

    def leave(self, variables: dict[str, Any]) -> None:
        """Close the body: what it left in the variables is carried to the next turn and out of the loop."""
        changed = self._containers.changed()
        if changed is not None:
            raise ControlFlowError(
                f"'{changed}' is changed in place inside a {self._name} loop, which runs once while it is traced",
                span=self._span,
                hint=f"bind a new value: {changed} = [...]; to unroll in Python, use range",
            )
        exits = self._exit(variables)
        for variable in self._variables:
            self._close(variable, variables.get(variable.name, UNDEFINED))
        leaves = [leaf for variable in self._variables for leaf in variable.leaves]
        carried = [leaf for leaf in leaves if leaf.final is not None]
        for leaf in carried:
            if leaf.argument is None:
                leaf.argument = self._argument(leaf.final if leaf.initial is UNDEFINED else leaf.initial)
        carried.sort(key=lambda leaf: leaf.argument.handle.arg_number)
        results = self._create(carried, exits)
        for leaf in leaves:
            if leaf.argument is not None and leaf.final is None:
                # The body does not change it after all: it is the value from outside.
                argument = leaf.argument.handle
                argument.replace_all_uses_with(self._builder.value(self._traced(leaf.initial)))
                self._block.erase_argument(argument.arg_number)
        # The block has moved into another operation: what was made of its arguments looks for the old one.
        arguments = list(self._block.arguments)
        counter = len(arguments) - len(carried)
        for scalar, handle in zip(self._counters, arguments[:counter], strict=False):
            scalar.handle = handle
        for leaf, handle in zip(carried, arguments[counter:], strict=True):
            leaf.argument.handle = handle
        for leaf, handle in zip(carried, results, strict=True):
            if isinstance(leaf.argument, Tile):
                extents = _lasting(leaf.initial, leaf.argument, leaf.final)
                leaf.result = Tile(handle, leaf.argument.type, extents, leaf.final.span, self._builder.region)
            else:
                leaf.result = Scalar(handle, leaf.argument.dtype, self._builder.region)

    def _exit(self, variables: dict[str, Any]) -> Scalar | bool:
        """Whether a turn ends with a jump out of the loop."""
        exits: Any = False
        for name, keyword, line in self._flow.exits:
            value = variables.get(name, False)
            if value is not False and self._independent:
                raise ControlFlowError(
                    f"`{keyword}` cannot leave a {self._name} loop, whose turns do not follow each other",
                    span=None if self._span is None else type(self._span)(self._span.filename, line),
                    hint="use pl.range, or put the rest of the body under an `if`",
                )
            if value is True or exits is False:
                exits = value
            elif exits is not True and value is not False:
                exits = exits | value
        return exits

    def _close(self, variable: Variable, final: Any) -> None:
        if variable.name in self._exits:
            self._close_exit(variable, final)
            return
        if variable.initial is UNDEFINED and final is not UNDEFINED and is_internal(variable.name):
            self._begin_without(variable, final)
            return
        if variable.initial is UNDEFINED or final is UNDEFINED:
            variable.bound_after = False
            return
        values: list[Any] = []
        structure = flatten(final, values)
        if structure != variable.structure:
            raise self._changes(variable, variable.initial, final, "another structure")
        for leaf, value in zip(variable.leaves, values, strict=True):
            self._compare(variable, leaf, value)

    def _close_exit(self, variable: Variable, final: Any) -> None:
        """A turn finds False in such a variable, whatever it held before the loop."""
        (leaf,) = variable.leaves
        if final is not False or leaf.initial is not False:
            leaf.final = final if isinstance(final, Scalar) else self._builder.constant(bool(final), number_dtype(True))

    def _begin_without(self, variable: Variable, final: Any) -> None:
        """A variable that only a jump out of the loop binds, and that is read only after such a jump."""
        values: list[Any] = []
        variable.structure = flatten(final, values)
        variable.leaves = [Leaf(variable.name, UNDEFINED if is_traced(value) else value) for value in values]
        for leaf, value in zip(variable.leaves, values, strict=True):
            if is_traced(value):
                leaf.final = value

    def _compare(self, variable: Variable, leaf: Leaf, value: Any) -> None:
        if same(value, leaf.initial) or (leaf.argument is not None and same(value, leaf.argument)):
            return
        if self._independent:
            raise ControlFlowError(
                f"'{variable.name}' is carried from one iteration of {self._name} to the next",
                span=self._span,
                found=f"{describe(leaf.initial)} before, {describe(value)} after",
                expected="independent iterations",
                hint="use pl.range for a loop that accumulates, or another name for a value of one iteration",
            )
        initial = leaf.initial if leaf.argument is None else leaf.argument
        if isinstance(initial, Tile) and isinstance(value, Tile):
            if initial.type != value.type:
                raise self._tiles_differ(variable, leaf.initial, value)
            leaf.final = value
            return
        scalar = self._as_scalar(value, initial)
        if scalar is None:
            raise self._changes(variable, leaf.initial, value, "another kind of value")
        leaf.final = scalar

    def _as_scalar(self, value: Any, initial: Any) -> Scalar | None:
        if not all(isinstance(v, Scalar) or is_plain_number(v) for v in (value, initial)):
            return None
        dtype = initial.dtype if isinstance(initial, Scalar) else number_dtype(initial)
        if isinstance(value, Scalar):
            return value if value.dtype == dtype else None
        if number_dtype(value) != dtype and not (number_dtype(value) == INDEX and dtype.name != "BOOL"):
            return None
        return self._builder.constant(value, dtype)

    def _tiles_differ(self, variable: Variable, before: Tile, after: Tile) -> ShapeError:
        return ShapeError(
            f"'{variable.name}' is another kind of tile after an iteration of the loop than before",
            span=after.span or self._span,
            found=f"{before!r} before (line {_line(before)}), {after!r} after (line {_line(after)})",
            expected="one shape, dtype, memory and valid shape",
            hint=_hint(before, after),
        )

    def _changes(self, variable: Variable, before: Any, after: Any, what: str) -> ControlFlowError:
        hint = "a loop carries tiles, scalars, and tuples, lists, dicts and dataclasses of them"
        if is_plain_number(before) and isinstance(after, Scalar) and after.dtype.is_float:
            hint = f"start with a float: {variable.name} = {float(before)}"
        if isinstance(after, Tensor):
            hint = f"create a tensor before the loop with pl.create_tensor, and write to it: {variable.name}[:] = ..."
        return ControlFlowError(
            f"'{variable.name}' becomes {what} inside the {self._name} loop",
            span=self._span,
            found=f"{describe(before)} before, {describe(after)} after an iteration",
            hint=hint,
        )

    # After the loop

    def _close_body(self, yielded: Sequence[ir.Value]) -> None:
        """End the body with what it hands to the next turn; what follows is traced outside of the loop."""
        self._builder.operation("scf.yield", [], yielded, location=self._location)
        assert self._region is not None
        self._builder.close_region(self._region)

    def _replace(self, created: ir.Operation) -> None:
        """Let an operation that the body has moved into stand for the one that held it."""
        self._operation.erase()
        self._operation, self._block = created, created.regions[len(created.regions) - 1].blocks[0]

    def _initial(self, leaf: Leaf) -> ir.Value:
        """The value of a leaf before the loop."""
        if leaf.initial is UNDEFINED:
            return placeholder(self._builder, leaf.final, self._builder.region.block)
        return self._builder.value(self._traced(leaf.initial))

    def _traced(self, value: Any) -> Any:
        return self._builder.constant(value, number_dtype(value)) if is_plain_number(value) else value

    def results(self) -> tuple[Any, ...]:
        """What the variables that the body binds hold after the loop; then the loop variables, which hold nothing."""
        known = {variable.name: variable for variable in self._variables}
        names = (*self._flow.bound, *self._flow.targets)
        values = tuple(self._result(known.get(name)) for name in names)
        for name, value in zip(names, values, strict=True):
            if value is UNDEFINED:
                self._builder.note_undefined(self._span, name, f"only has a value inside the {self._what}")
        return values

    def _result(self, variable: Variable | None) -> Any:
        if variable is None or not variable.bound_after or variable.name not in self._flow.after:
            return UNDEFINED
        leaves = (leaf.initial if leaf.result is None else leaf.result for leaf in variable.leaves)
        return unflatten(variable.structure, leaves)


def _lasting(initial: Any, argument: Tile, final: Tile) -> tuple[Any, ...]:
    """The valid extents after the loop: those of the first value where the body keeps them."""
    if not isinstance(initial, Tile):
        return argument.valid_extents
    every = zip(initial.valid_extents, argument.valid_extents, final.valid_extents, strict=True)
    return tuple(
        before if after is inside or same(after, before) else UnknownExtent() for before, inside, after in every
    )


def _line(tile: Tile) -> int | str:
    return "?" if tile.span is None else tile.span.line


def _hint(before: Tile, after: Tile) -> str | None:
    if before.type.space != after.type.space:
        return "keep it in one memory: pl.create_tile and pl.load have target_memory, and pl.move moves a tile"
    if before.dtype != after.dtype:
        return f"cast it inside of the loop: pl.cast(tile, pl.{before.dtype})"
    return None
