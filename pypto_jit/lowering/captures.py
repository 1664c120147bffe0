"""Moving operations out of a function into a kernel of their own, with what they use of the function around them."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import ArrayType, TensorType, TileType
from pypto_jit.errors import TraceError
from pypto_jit.lowering.attributes import KERNEL
from pypto_jit.lowering.chains import VIEW
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.spans import span_of, span_of_location
from pypto_jit.lowering.tree import Node

_COPIED = frozenset({"pypto.dim", VIEW})


def every(nodes: Iterable[Node]) -> list[Node]:
    """These operations and all in them."""
    return [each for node in nodes for each in (node, *(n for body in node.bodies for n in body.walk()))]


def is_copied(op: ir.Operation) -> bool:
    """Whether an operation is computed again where it is needed, rather than handed over."""
    return op.name in _COPIED or op.name.startswith("arith.")


class Captures:
    """What operations use of the function around them.

    Args:
        name: of the task, for errors.
        nodes: the operations.
        lowering: of the run.

    Attributes:
        tensors, scalars: the values that must be handed over.

    Raises:
        TraceError: they use a tile or an array from outside.
    """

    def __init__(self, name: str, nodes: list[Node], lowering: Lowering) -> None:
        self._types = lowering.types
        self._name = name
        self.inside: set[ir.Value] = set()
        self.tensors: list[ir.Value] = []
        self.scalars: list[ir.Value] = []
        self._copied: dict[ir.Operation, None] = {}
        self._seen: set[ir.Value] = set()
        self._all = every(nodes)
        for node in self._all:
            self.inside.update(node.results)
            for body in node.bodies:
                self.inside.update(body.arguments)

    def collect(self, extra: Iterable[ir.Value] = ()) -> None:
        """Find them, for the operations and for further values."""
        for value in extra:
            self._need(value, None)
        for node in self._all:
            for value in node.operands:
                self._need(value, node)

    def _need(self, value: ir.Value, user: Node | None) -> None:
        if value in self.inside or value in self._seen:
            return
        self._seen.add(value)
        kind = self._types.of(value)
        owner = value.owner
        if isinstance(kind, (TileType, ArrayType)):
            raise self._own(value, "tile" if isinstance(kind, TileType) else "array", user)
        if not isinstance(owner, ir.Block):
            operation = owner.operation
            if is_copied(operation):
                for operand in operation.operands:
                    self._need(operand, user)
                self._copied[operation] = None
                return
        (self.tensors if isinstance(kind, TensorType) else self.scalars).append(value)

    def _own(self, value: ir.Value, kind: str, user: Node | None) -> TraceError:
        made = span_of_location(value.location)
        owner = value.owner
        if not isinstance(owner, ir.Block):
            made = span_of(owner.operation)
        return TraceError(
            f"task '{self._name}' uses {'a tile' if kind == 'tile' else 'an array'} that was made outside of it",
            span=None if user is None else user.span,
            found=f"the {kind} from {made}" if made is not None else None,
            expected=f"{kind}s of the task's own",
            hint="load or make it inside of the task; what tasks hand on goes through a tensor",
        )

    def write(self, symbol: str, names: list[str], before: ir.Operation, location: ir.Location) -> Kernel:
        """An empty kernel with these as its arguments, and with the operations that are computed again."""
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(symbol),
                "function_type": ir.TypeAttr.get(
                    ir.FunctionType.get([value.type for value in [*self.tensors, *self.scalars]], [])
                ),
                "pypto.parameters": ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names]),
                KERNEL: ir.StringAttr.get(symbol),
            },
            regions=1,
            loc=location,
            ip=ir.InsertionPoint(before),
        )
        values = [*self.tensors, *self.scalars]
        kinds = [value.type for value in values]
        block = function.regions[0].blocks.append(*kinds, arg_locs=[value.location for value in values])
        end = ir.Operation.create("func.return", loc=location, ip=ir.InsertionPoint(block))
        kernel = Kernel(function, end, dict(zip(values, block.arguments, strict=True)))
        for operation in self._copied:
            kernel.copy(operation)
        return kernel


class Kernel:
    """A kernel being filled.

    Attributes:
        function: the kernel.
        values: its values by those of the function that it is cut from.
    """

    def __init__(self, function: ir.Operation, end: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
        self.function = function
        self._end = end
        self.values = values

    def copy(self, operation: ir.Operation) -> None:
        """Compute an operation again."""
        clone = operation.clone(ir.InsertionPoint(self._end)).operation
        for k, operand in enumerate(operation.operands):
            clone.operands[k] = self.values[operand]
        self.values.update(zip(operation.results, clone.results, strict=True))

    def take(self, nodes: list[Node]) -> None:
        """Move operations into the kernel."""
        for node in nodes:
            node.op.move_before(self._end)
        for node in every(nodes):
            for k, operand in enumerate(node.operands):
                new = self.values.get(operand)
                if new is not None:
                    node.op.operands[k] = new
