"""The trace in progress, over MLIR: records what the language does as operations of the ``pypto`` dialect."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NoReturn

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rules import result_type
from pypto_jit.dialects.types import DYNAMIC, ArrayType, TensorType
from pypto_jit.dtypes import BOOL, INDEX, DType
from pypto_jit.errors import ArgumentError, ControlFlowError, PyptoError, SourceUnavailableError, Span, UndefinedError
from pypto_jit.frontend.arithmetic import Arithmetic
from pypto_jit.frontend.bounds import at_most, distance
from pypto_jit.frontend.expressions import Expressions, check_memory
from pypto_jit.frontend.extents import Extents
from pypto_jit.frontend.needs import Needs
from pypto_jit.frontend.rewrite import Rewriter, is_rewritten
from pypto_jit.frontend.tasks import Tasks
from pypto_jit.frontend.tensors import Tensors
from pypto_jit.frontend.valid import valid_extents
from pypto_jit.language.arrays import Array
from pypto_jit.language.expressions import Expression
from pypto_jit.language.extents import Side
from pypto_jit.language.location import Positions, frame_span, is_internal, positions, user_frame
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.tracing import Task, Trace
from pypto_jit.language.values import Tensor, Tile
from pypto_jit.signature import DynVar
from pypto_jit.targets import Target

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Region:
    """Where a value may be used: while the region it was made in is being traced."""

    __slots__ = ("block", "open", "parameters", "span", "what")

    def __init__(self, block: ir.Block, what: str, span: Span | None, parameters: frozenset[str] | None) -> None:
        self.block = block
        self.what = what
        self.span = span
        self.open = True
        # Of an arm of an `if`: the parameters that alone decide which arm runs.
        self.parameters = parameters


class Access:
    """What the kernel does with its parameters, each with the line that did it first."""

    def __init__(self) -> None:
        self.loads: dict[str, Span | None] = {}
        self.stores: dict[str, Span | None] = {}
        # Of the stores those that add, and the parameters that others write.
        self.added: dict[str, Span | None] = {}
        self.replaced: set[str] = set()
        # Every store to an omitted output: offsets, tile, line. Its shape is worked out from them.
        self.omitted: dict[str, list[tuple[tuple[Any, ...], Tile, Span | None]]] = {}


class Builder(Trace):
    """Records a kernel into the body of a function.

    Args:
        target: the machine.
        context: the MLIR context; our dialects are loaded.
        rewriter: rewrites the functions that the kernel calls.
    """

    def __init__(self, target: Target, context: ir.Context, rewriter: Rewriter) -> None:
        self.target = target
        self.context = context
        self.rewriter = rewriter
        self.kernel_code: CodeType | None = None
        # Whether what is traced is a kernel on the cores, which has no tasks of its own.
        self.in_core = False
        # Names of the parameters that are declared as outputs, and of those that the kernel rebound to a tile.
        self.outputs: frozenset[str] = frozenset()
        self.rebound: dict[str, Span | None] = {}
        # The user's functions that the kernel called.
        self.helpers: set[FunctionType] = set()
        # Why a variable of a file may have no value.
        self.undefined: dict[tuple[str, str], str] = {}
        self.access = Access()
        self.regions: list[Region] = []
        self._types: dict[str, ir.Type] = {}
        self._constants: dict[tuple[str, str], Scalar] = {}
        self._last_constant: Any = None
        self._locations: dict[tuple[int, int], tuple[ir.Location, Span | None]] = {}
        self._positions: dict[int, tuple[Positions, CodeType]] = {}
        self._unknown = ir.Location.unknown(context)
        self._arithmetic = Arithmetic(self)
        self._expressions = Expressions(self)
        self._tasks = Tasks(self)
        self._made = Tensors(self)
        self.needs = Needs(self)
        self.sides = Extents(self)

    # Places

    def _place(self) -> tuple[ir.Location, Span | None]:
        frame = sys._getframe(2)
        while is_internal(frame.f_code.co_filename):
            if frame.f_back is None:
                return self._unknown, None
            frame = frame.f_back
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        known = self._locations.get(key)
        if known is None:
            places = self._positions.get(id(code))
            if places is None:
                # The code object is kept, so that its id stays its own.
                places = self._positions[id(code)] = (positions(code), code)
            span = frame_span(frame, places[0])
            known = (ir.Location.file(span.filename, span.line, span.column, self.context), span)
            self._locations[key] = known
        return known

    @property
    def location(self) -> ir.Location:
        """The MLIR location of the user's line."""
        return self._place()[0]

    def span(self) -> Span | None:
        """The user's line."""
        return self._place()[1]

    # Regions

    @property
    def region(self) -> Region:
        """The innermost region being traced."""
        return self.regions[-1]

    def open_region(
        self, block: ir.Block, what: str, span: Span | None, parameters: frozenset[str] | None = None
    ) -> Region:
        """Continue the trace in a block."""
        region = Region(block, what, span, parameters)
        self.regions.append(region)
        return region

    def close_region(self, region: Region) -> None:
        """Continue the trace where it was before the region was opened."""
        if self.regions[-1] is not region:
            raise ControlFlowError(
                f"the {region.what} is left while another one is being traced",
                span=region.span,
                hint="do not catch an exception that leaves a pl.range loop or a traced `if`",
            )
        self.regions.pop()
        region.open = False

    def value(self, operand: Any) -> ir.Value:
        """The MLIR value of a traced value.

        Raises:
            UndefinedError: the value was made in a loop body or branch that is no longer being traced.
        """
        region = operand.region
        if region.open and region in self.regions:
            return operand.handle
        kind = type(operand).__name__.lower()
        if not hasattr(region, "what") or region.span is None:
            raise UndefinedError(f"this {kind} belongs to another kernel", span=self.span(), found=operand)
        raise UndefinedError(
            f"reading an undefined {kind}: it was made inside the {region.what}",
            span=self.span(),
            found=f"a {kind} from inside the {region.what} at {region.span}",
            hint="bind it to a variable before, and rebind that variable inside",
        )

    def note_undefined(self, span: Span | None, name: str, why: str, parameters: frozenset[str] | None = None) -> None:
        """Remember why a variable has no value, and which parameters alone decide it, for when it is read."""
        if span is not None:
            self.undefined[span.filename, name] = f"'{name}' {why}"
            self.needs.note(span, name, parameters)

    # Operations

    def type(self, text: str) -> ir.Type:
        """An MLIR type by its text."""
        known = self._types.get(text)
        if known is None:
            known = self._types[text] = ir.Type.parse(text, self.context)
        return known

    def operation(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: Mapping[str, ir.Attribute] | None = None,
        regions: int = 0,
        location: ir.Location | None = None,
    ) -> ir.Operation:
        """Append an operation to the region being traced."""
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=None if attributes is None else dict(attributes),
            regions=regions,
            loc=self.location if location is None else location,
            ip=ir.InsertionPoint(self.region.block),
        )

    def emit(
        self,
        row: Operator,
        operands: Sequence[Tensor | Tile | Scalar],
        attributes: dict[str, Any],
        indices: Sequence[int | Scalar] = (),
    ) -> Any:
        location, span = self._place()
        values = [self.value(operand) for operand in operands]
        values += [self.index(index) for index in indices]
        self._note_access(row, operands, indices, span)
        if row.name == "store":
            self._note_addition(operands[1], attributes.get("atomic", "none") != "none", span)
        types: list[Any] = [operand.dtype if isinstance(operand, Scalar) else operand.type for operand in operands]
        try:
            result = result_type(row, types, attributes, self.target)
        except PyptoError as error:
            error.span = error.span or span
            raise
        recorded = {
            a.name: ir.StringAttr.get(str(attributes[a.name]), self.context)
            for a in row.attributes
            if a.name in attributes
        }
        if isinstance(result, DType):
            created = self.operation(row.operation, [self.type(result.signless)], values, recorded, location=location)
            return Scalar(created.results[0], result, self.region)
        results = [] if result is None else [self.type(str(result))]
        created = self.operation(row.operation, results, values, recorded, location=location)
        if result is None:
            return None
        if isinstance(result, ArrayType):
            return Array(created.results[0], result, self.region)
        extents = valid_extents(row, operands, attributes, result)
        return Tile(created.results[0], result, extents, span, self.region)

    def _note_addition(self, tensor: Any, adds: bool, span: Span | None) -> None:
        if adds:
            self.access.added.setdefault(tensor.name, span)
        else:
            self.access.replaced.add(tensor.name)

    def _note_access(self, row: Operator, operands: Sequence[Any], indices: Sequence[Any], span: Span | None) -> None:
        if row.name in ("load", "read"):
            self.access.loads.setdefault(operands[0].name, span)
        elif row.name == "write" and isinstance(operands[1], Tensor):
            check_memory(operands[1], span)
            self.access.stores.setdefault(operands[1].name, span)
        elif row.name == "store":
            tile, tensor = operands
            check_memory(tensor, span)
            self.access.stores.setdefault(tensor.name, span)
            if tensor.name in self.access.omitted:
                self.access.omitted[tensor.name].append((tuple(indices), tile, span))
                if tensor.type is None:
                    tensor.type = TensorType((DYNAMIC,) * len(indices), tile.dtype, (DYNAMIC,) * len(indices))

    def constant(self, value: float, dtype: DType) -> Scalar:
        key = (dtype.name, repr(value))
        known = self._constants.get(key)
        if known is not None:
            return known
        kind = self.type(dtype.signless)
        if dtype.is_float:
            attribute = ir.FloatAttr.get(kind, float(value), self._unknown)
        else:
            bits = 1 if dtype == BOOL else dtype.bits
            wrapped = int(value) & ((1 << bits) - 1)
            signed = wrapped - (1 << bits) if wrapped >> (bits - 1) and dtype != BOOL else wrapped
            attribute = ir.IntegerAttr.get(kind, signed)
        entry = self.regions[0]
        created = ir.Operation.create(
            "arith.constant",
            results=[kind],
            attributes={"value": attribute},
            loc=self.location,
            ip=ir.InsertionPoint.at_block_begin(entry.block),
        )
        if self._last_constant is not None:
            created.move_after(self._last_constant)
        self._last_constant = created
        scalar = self._constants[key] = Scalar(created.results[0], dtype, entry, frozenset())
        return scalar

    def index(self, value: int | Scalar) -> ir.Value:
        """An index operand: the value of a traced scalar, or of a constant."""
        return self.value(value if isinstance(value, Scalar) else self.constant(value, INDEX))

    def scalar(self, name: str, operands: Sequence[Scalar], dtype: DType) -> Scalar:
        return self._arithmetic.record(name, operands, dtype)

    def at_most(self, left: int | Scalar, right: int | Scalar) -> bool:
        return at_most(left, right)

    def distance(self, start: int | Scalar, end: int | Scalar) -> int | None:
        return distance(start, end)

    # Tensors

    def extent(self, tensor: Tensor, axis: int) -> Scalar:
        return self.sides.scalar(tensor, axis)

    def extents(self, tensor: Tensor) -> tuple[Side, ...]:
        return self.sides.of(tensor)

    def side(self, value: int | Scalar) -> Side:
        return self.sides.side(value)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        if tensor.name in self.access.omitted:
            raise ArgumentError(
                f"the kernel asks for the shape or dtype of '{tensor.name}', which the call leaves out",
                span=self.span(),
                hint=f"pass it, or annotate it: {tensor.name}: pl.Out[pl.Tensor[[rows, columns], pl.FP32]]",
            )
        assert tensor.type is not None
        return tensor.type.shape

    # Values that only a specialization knows

    def need_value(self, parameters: frozenset[str], why: str, cause: PyptoError | None = None) -> NoReturn:
        self.needs.need(parameters, self.span(), why, cause)

    def bind_dynamic(self, tensor: Tensor, axis: int, dim: DynVar) -> None:
        self.needs.bind(tensor, axis, dim)

    def create_tensor(self, shape: Sequence[int | Scalar], dtype: DType, initial: float | None) -> Tensor:
        tensor = self._made.create(shape, dtype, initial)
        self.sides.note(tensor, shape)
        return tensor

    def slice(
        self,
        tensor: Tensor,
        offsets: Sequence[int | Scalar],
        shape: Sequence[int],
        valid: Sequence[int | Scalar],
        axes: Sequence[int],
    ) -> Tensor:
        view = self._made.slice(tensor, offsets, shape, valid, axes)
        self.sides.note(view, [valid[axis] for axis in axes])
        return view

    def permute(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        permuted = self._made.permute(tensor, axes)
        sides = self.sides.of(tensor)
        self.sides.note(permuted, [sides[axis] for axis in axes])
        self._expressions.note_permuted(permuted, tensor, axes)
        return permuted

    def reshape(self, tensor: Tensor, shape: Sequence[Side]) -> Tensor:
        view = self._made.reshape(tensor, shape)
        self.sides.note(view, shape)
        return view

    def restride(
        self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int], dims: Sequence[int] | None
    ) -> Tensor:
        view = self._made.restride(tensor, shape, strides)
        if dims is not None:
            self._expressions.note_permuted(view, tensor, dims)
        return view

    def express(
        self,
        operation: str,
        operands: Sequence[Tensor | Scalar],
        attributes: Mapping[str, str | int | tuple[int, ...]],
        result: TensorType,
        sides: Sequence[Side] | None = None,
    ) -> Expression:
        expression = self._expressions.express(operation, operands, attributes, result)
        if sides is not None:
            self.sides.note(expression, sides)
        return expression

    def assign(self, value: Tensor, tensor: Tensor) -> None:
        self._expressions.assign(value, tensor)

    def settle(self, tensor: Tensor, value: Tensor) -> None:
        self._expressions.settle(tensor, value)

    def permutation(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
        return self._expressions.source(tensor)

    # Tasks

    @property
    def task(self) -> Task | None:
        """The task being traced."""
        return self._tasks.current

    def open_task(
        self,
        name: str,
        blocks: int | Scalar = 1,
        dependencies: Sequence[Scalar] = (),
        predicate: Scalar | None = None,
    ) -> Task:
        return self._tasks.open(name, blocks, dependencies, predicate)

    def close_task(self, task: Task) -> None:
        self._tasks.close(task)

    def submit(self, dependencies: Sequence[Scalar]) -> Scalar:
        return self._tasks.submit(dependencies)

    def callee(self, function: Any) -> Any:
        return self.rewriter.hooks.callee(function)

    # Errors

    def unstaged(self, message: str, hint: str) -> ControlFlowError:
        frame = user_frame()
        # Up to Python 3.11 a comprehension has code of its own.
        while frame is not None and frame.f_code.co_name in _COMPREHENSIONS:
            frame = frame.f_back
        if frame is not None and not is_rewritten(frame.f_code):
            return SourceUnavailableError(
                message + f", and the source of '{frame.f_code.co_name}' is not available, or was edited since",
                span=self.span(),
                hint="define the function in a file (or a notebook cell), and do not compile its text with exec",
            )
        return ControlFlowError(message, span=self.span(), hint=hint)
