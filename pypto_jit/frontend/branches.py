"""A recorded ``if``: both arms are traced; what they rebind differently becomes results of an ``scf.if``."""

from __future__ import annotations

from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.errors import ControlFlowError, PyptoError, ShapeError, Span
from pypto_jit.frontend.builder import Builder, Region
from pypto_jit.frontend.jumps import RESULT, is_internal
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
from pypto_jit.language.needs import known_parameters
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor, Tile, UnknownExtent

# Operations of an expression's arms that are worked out whether they are needed or not.
_SPECULATED = 8
_HARMFUL = frozenset(
    {"arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi", "arith.remsi", "arith.remui"}
)


def is_harmless(operation: ir.Operation) -> bool:
    """Whether an operation may run where its result is not needed."""
    return operation.name.startswith("arith.") and operation.name not in _HARMFUL


class Phi:
    """One value that the two arms leave differently: a result of the ``scf.if``."""

    def __init__(self, then: Any, other: Any, dtype: DType | None = None) -> None:
        self.then = then
        self.other = other
        self.dtype = dtype
        self.value: Any = None


class Branch:
    """Hooks around the arms of one recorded ``if``."""

    def __init__(
        self, builder: Builder, condition: Scalar, flow: Flow, span: Span | None, *, expression: bool = False
    ) -> None:
        self._builder = builder
        self._expression = expression
        self._chooses = condition
        self._flow = flow
        self._span = span
        self._location = builder.location
        self._condition = builder.value(condition)
        self._parameters = condition.parameters
        self._operation = builder.operation("scf.if", [], [self._condition], {}, 2, self._location)
        self._blocks = [ir.Block.create_at_start(region, []) for region in self._operation.regions]
        self._regions: list[Region] = []
        self._before: dict[str, Any] = {}
        self._then: dict[str, Any] = {}
        self._containers = Containers({})

    def enter(self, variables: dict[str, Any]) -> None:
        """Open the first arm."""
        self._before = {name: variables.get(name, UNDEFINED) for name in self._flow.bound}
        self._containers = Containers({name: variables[name] for name in self._flow.read if name in variables})
        self._open(0)

    def _open(self, arm: int) -> None:
        what = "first arm of an `if`" if arm == 0 else "other arm of an `if`"
        self._regions.append(self._builder.open_region(self._blocks[arm], what, self._span, self._parameters))

    def _close(self) -> None:
        changed = self._containers.changed()
        if changed is not None:
            raise ControlFlowError(
                f"'{changed}' is changed in place inside an `if` on a traced value, whose arms are both traced",
                span=self._span,
                hint=f"bind a new value in both arms: {changed} = [...]",
            )
        self._builder.close_region(self._regions[-1])

    def turn(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        """Close the first arm and open the other; its variables are what they were before the statement."""
        self._close()
        self._then = {name: variables.get(name, UNDEFINED) for name in self._flow.bound}
        self._open(1)
        return tuple(self._before.values())

    def results(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        """Close the other arm; the variables hold what the arm that ran left in them."""
        try:
            return self._results(variables)
        except PyptoError as error:
            if self._parameters:
                self._builder.need_value(self._parameters, "an `if` whose arms do not agree", error)
            raise

    def _results(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        self._close()
        phis: list[Phi] = []
        merged: list[tuple[Any, list[Any]] | None] = []
        for name in self._flow.bound:
            then, other = self._then[name], variables.get(name, UNDEFINED)
            if name not in self._flow.after or (then is UNDEFINED and other is UNDEFINED):
                merged.append(None)
            elif is_internal(name) and (then is UNDEFINED or other is UNDEFINED):
                merged.append(self._complete(then, other, phis))
            elif then is UNDEFINED or other is UNDEFINED:
                merged.append(None)
            else:
                merged.append(self._merge(name, then, other, phis))
        self._finish(phis)
        for name, item in zip(self._flow.bound, merged, strict=True):
            if item is None:
                where = "" if self._span is None else f" at line {self._span.line}"
                self._builder.note_undefined(
                    self._span, name, f"does not have a value in both arms of the `if`{where}", self._parameters
                )
        return tuple(UNDEFINED if item is None else self._value(*item) for item in merged)

    def _value(self, structure: Any, leaves: list[Any]) -> Any:
        return unflatten(structure, (leaf.value if isinstance(leaf, Phi) else leaf for leaf in leaves))

    def _complete(self, then: Any, other: Any, phis: list[Phi]) -> tuple[Any, list[Any]]:
        """A variable that only one arm binds, and that is read only where that arm ran."""
        leaves: list[Any] = []
        structure = flatten(other if then is UNDEFINED else then, leaves)
        for k, leaf in enumerate(leaves):
            if is_traced(leaf) and leaf.region in self._regions:
                phi = Phi(leaf, UNDEFINED) if other is UNDEFINED else Phi(UNDEFINED, leaf)
                phi.dtype = leaf.dtype if isinstance(leaf, Scalar) else None
                phis.append(phi)
                leaves[k] = phi
        return structure, leaves

    def _merge(self, name: str, then: Any, other: Any, phis: list[Phi]) -> tuple[Any, list[Any]]:
        then_leaves: list[Any] = []
        other_leaves: list[Any] = []
        structure = flatten(then, then_leaves)
        if structure != flatten(other, other_leaves):
            raise self._differ(name, then, other)
        leaves: list[Any] = []
        for a, b in zip(then_leaves, other_leaves, strict=True):
            leaf = a if same(a, b) else self._phi(name, a, b)
            leaves.append(leaf)
            if isinstance(leaf, Phi):
                phis.append(leaf)
        return structure, leaves

    def _phi(self, name: str, then: Any, other: Any) -> Phi:
        if isinstance(then, Tile) and isinstance(other, Tile):
            if then.type != other.type:
                raise ShapeError(
                    f"{_shown(name)} is another kind of tile in each arm of the `if`",
                    span=self._span,
                    found=f"{then!r} (line {_line(then)}) and {other!r} (line {_line(other)})",
                    expected="one shape, dtype, memory and valid shape",
                )
            return Phi(then, other)
        dtypes = [_dtype(value) for value in (then, other)]
        if None in dtypes:
            raise self._differ(name, then, other)
        first, second = dtypes
        if first != second:
            # A Python number takes the dtype of the traced scalar in the other arm, where it fits.
            if is_plain_number(then) and not isinstance(then, bool) and (type(then) is int or second.is_float):  # type: ignore[union-attr]
                first = second
            elif is_plain_number(other) and not isinstance(other, bool) and (type(other) is int or first.is_float):  # type: ignore[union-attr]
                second = first
        if first != second or (first is not None and first.name == "BOOL" and not _both_bool(then, other)):
            raise self._differ(name, then, other)
        return Phi(then, other, first)

    def _differ(self, name: str, then: Any, other: Any) -> ControlFlowError:
        hint = "a value that Python needs while tracing cannot depend on a traced condition"
        if isinstance(then, Tensor) or isinstance(other, Tensor):
            hint = "create a tensor before the `if` with pl.create_tensor, and write to it in each arm: t[:] = ..."
        return ControlFlowError(
            f"{_shown(name)} is another kind of value in each arm of an `if` on a traced value",
            span=self._span,
            found=f"{describe(then)} and {describe(other)}",
            expected="tiles of one type, scalars of one dtype, or one Python value",
            hint=hint,
        )

    def _finish(self, phis: list[Phi]) -> None:
        builder = self._builder
        values = [
            [self._handle(phi.then, phi, self._regions[0]) for phi in phis],
            [self._handle(phi.other, phi, self._regions[1]) for phi in phis],
        ]
        if self._expression and all(phi.dtype is not None for phi in phis) and self._speculate():
            self._select(phis, values)
            return
        for block, yielded in zip(self._blocks, values, strict=True):
            ir.Operation.create("scf.yield", operands=yielded, loc=self._location, ip=ir.InsertionPoint(block))
        if not phis:
            return
        kinds = [value.type for value in values[0]]
        created = builder.operation("scf.if", kinds, [self._condition], {}, 2, self._location)
        for block, region in zip(self._blocks, created.regions, strict=True):
            block.append_to(region)
        self._operation.erase()
        for phi, handle in zip(phis, created.results, strict=True):
            phi.value = self._result(phi, handle)

    def _speculate(self) -> bool:
        """Move what the arms compute before the statement, where that costs little and can do no harm."""
        operations = [view.operation for block in self._blocks for view in block.operations]
        if len(operations) > _SPECULATED or not all(is_harmless(operation) for operation in operations):
            return False
        for operation in operations:
            operation.move_before(self._operation)
        self._operation.erase()
        return True

    def _select(self, phis: list[Phi], values: list[list[ir.Value]]) -> None:
        builder = self._builder
        for phi, then, other in zip(phis, *values, strict=True):
            assert phi.dtype is not None
            pair = [Scalar(value, phi.dtype, builder.region) for value in (then, other)]
            if phi.other is False:
                phi.value = builder.scalar("and", [self._chooses, pair[0]], phi.dtype)
            elif phi.then is True:
                phi.value = builder.scalar("or", [self._chooses, pair[1]], phi.dtype)
            else:
                phi.value = builder.scalar("select", [self._chooses, *pair], phi.dtype)

    def _handle(self, value: Any, phi: Phi, arm: Region) -> ir.Value:
        if value is UNDEFINED:
            return placeholder(self._builder, phi.other if phi.then is UNDEFINED else phi.then, arm.block)
        if phi.dtype is not None and not isinstance(value, Scalar):
            return self._builder.constant(value, phi.dtype).handle
        # The arm is closed; what it made may still leave it, by its yield.
        return value.handle if value.region is arm else self._builder.value(value)

    def _known(self, phi: Phi) -> frozenset[str] | None:
        """The parameters that alone decide a scalar result."""
        arms = [value for value in (phi.then, phi.other) if isinstance(value, Scalar)]
        known = known_parameters(arms)
        return None if known is None or self._parameters is None else known | self._parameters

    def _result(self, phi: Phi, handle: ir.Value) -> Any:
        region = self._builder.region
        if phi.dtype is not None:
            return Scalar(handle, phi.dtype, region, self._known(phi))
        then, other = (phi.other, phi.other) if phi.then is UNDEFINED else (phi.then, phi.other)
        other = then if other is UNDEFINED else other
        pairs = zip(then.valid_extents, other.valid_extents, strict=True)
        kept = (isinstance(a, int) or self._lasts(a) for a in then.valid_extents)
        extents = tuple(a if keep and same(a, b) else UnknownExtent() for keep, (a, b) in zip(kept, pairs, strict=True))
        return Tile(handle, then.type, extents, other.span, region)

    def _lasts(self, extent: Any) -> bool:
        """Whether an extent is a value from outside of the arms."""
        return isinstance(extent, Scalar) and extent.region not in self._regions


def _shown(name: str) -> str:
    """A variable in an error message."""
    return "what the function returns" if name == RESULT else f"'{name}'"


def _dtype(value: Any) -> DType | None:
    if isinstance(value, Scalar):
        return value.dtype
    return number_dtype(value) if is_plain_number(value) else None


def _both_bool(then: Any, other: Any) -> bool:
    return all(isinstance(value, (bool, Scalar)) for value in (then, other))


def _line(tile: Tile) -> int | str:
    return "?" if tile.span is None else tile.span.line
