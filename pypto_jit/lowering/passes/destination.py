"""``destination``: from tile values to tile buffers, from the ``pypto`` to the ``pto`` dialect.

Every tile becomes a handle on a buffer, every operation one instruction that writes the buffer given last. Loops and
ifs carry no tiles any more: a carried tile lives in one buffer, written in place where the old value is not needed any
more and copied, all carried tiles at once, where it is. Valid extents that are only known at run time are carried as
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.dtypes import FP32
from pypto_jit.errors import ShapeError
from pypto_jit.lowering.attributes import number
from pypto_jit.lowering.buffers import STATIC, Buffers, Extents, TileRef
from pypto_jit.lowering.elements import ELEMENT_OPERATIONS, Elements
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.layouts import (
    as_column,
    buffer_type,
    counting_scratch,
    lies_consecutively,
    transpose_scratch,
    transposed,
)
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.padding import alike
from pypto_jit.lowering.parts import PART_OPERATIONS, Parts
from pypto_jit.lowering.transfers import Transfers
from pypto_jit.lowering.transposes import Transposes
from pypto_jit.lowering.tree import Body, Node, carried, head_operands
from pypto_jit.lowering.views import Tensors
from pypto_jit.targets import ROW_ALIGNMENT, Space


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Convert every function of the module in place."""
    for function, body in lowering.bodies(module):
        _Conversion(function, body, lowering).convert()
    del module.attributes["pypto.target"]
    module.attributes["pto.target_arch"] = ir.StringAttr.get(lowering.target.name)
    return True


# Operations that spread a vector over the shape of a tile.
_TAKE_A_SHAPE = frozenset({"pypto.row_expand", "pypto.col_expand"})
_ONE_UNIT = TileType((1, ROW_ALIGNMENT // FP32.bytes), FP32, Space.VEC, (1, ROW_ALIGNMENT // FP32.bytes))


class _Conversion:
    def __init__(self, function: ir.Operation, body: Body, lowering: Lowering) -> None:
        self._function = function
        self._types = lowering.types
        self._target = lowering.target
        self._body = body
        self._emitter = Emitter(self._body.block, lowering.types)
        self._buffers = Buffers(self._body, self._emitter, lowering.target)
        self._tensors = Tensors(function, self._emitter)
        self._renamed: dict[ir.Value, ir.Value] = {}
        transposes = Transposes(self._emitter, self._buffers, lowering.target)
        self._transfers = Transfers(
            self._emitter, self._buffers, self._tensors, transposes, lowering.target, self._value
        )
        self._parts = Parts(self._emitter, self._buffers, transposes, lowering.target, self._value)
        self._elements = Elements(body, self._emitter, self._buffers, self._tensors, self._value, self._define)
        self._erased: list[ir.Operation] = []
        self._dropped: list[tuple[ir.Block, int]] = []
        self._special: dict[str, Callable[[Node], None]] = {
            "pypto.load": self._load,
            "pypto.store": self._store,
            "pypto.dim": self._dim,
            "pypto.view": self._erased_view,
            "pypto.within": self._within,
            **dict.fromkeys(ELEMENT_OPERATIONS, self._element),
            "pypto.create_tile": self._create,
            "pypto.reshape": self._reshape,
            "pypto.transpose_view": self._transpose_view,
            **dict.fromkeys(PART_OPERATIONS, self._part),
            "scf.for": self._loop,
            "scf.while": self._loop,
            "scf.if": self._branch,
        }

    def convert(self) -> None:
        self._convert(self._body)
        for op in reversed(self._erased):
            op.erase()
        for block, index in reversed(self._dropped):
            block.erase_argument(index)
        self._tensors.finish()
        attributes = self._function.attributes
        attributes["pto.entry"] = ir.UnitAttr.get()

    def _convert(self, body: Body) -> None:
        for node in body.nodes:
            special = self._special.get(node.name)
            if special is not None:
                special(node)
            elif node.row is not None:
                self._instruction(node)

    def _value(self, value: ir.Value) -> ir.Value:
        return self._renamed.get(value, value)

    def _start(self, node: Node) -> None:
        self._emitter.before(node.op)
        self._erased.append(node.op)

    # Instructions

    def _instruction(self, node: Node) -> None:
        self._start(node)
        row = node.row
        assert row is not None
        assert row.instruction is not None
        named = {
            operand.name: self._operand(node, operand.name, value)
            for operand, value in zip(row.operands, node.operands, strict=True)
            if operand.name in row.instruction.inputs
        }
        if row.name == "move" and self._stays_in_vec(node):
            self._buffers.copy(self._buffers.ref(node.operands[0]), self._define(node))
            return
        if "tmp" in row.instruction.inputs:
            named["tmp"] = self._scratch(node).handle
        result = goal = self._define(node)
        if alike(row, self._target):
            result = self._shape_alike(node, goal, named)
        attributes = {a.name: node.op.attributes[a.name] for a in row.attributes if a.name in node.op.attributes}
        inputs = [named[name] for name in row.instruction.inputs]
        self._emitter.emit(f"pto.{row.instruction.operation}", [*inputs, result.handle], attributes=attributes)
        if result is not goal:
            self._buffers.copy(result, goal)

    def _stays_in_vec(self, node: Node) -> bool:
        return all(self._buffers.physical(v).space is Space.VEC for v in (node.operands[0], node.results[0]))

    def _scratch(self, node: Node) -> TileRef:
        """The scratch of an instruction: of the size of its first tile, but for a selection."""
        assert node.row is not None
        if node.row.name == "sel":
            # The address of a row of bits: 4-byte elements, whatever is selected (ptoas v0.57).
            return self._buffers.allocate(buffer_type(_ONE_UNIT, self._target))
        if node.row.rule == "ci":
            return self._buffers.allocate(counting_scratch(self._buffers.physical(node.results[0])))
        if node.row.rule == "transpose":
            source, goal = (self._buffers.physical(value) for value in (node.operands[0], node.results[0]))
            return self._buffers.allocate(transpose_scratch(source, goal, self._target))
        # Of a tile and a scalar the selection's scratch is about the values, not the bits.
        source = self._buffers.ref(node.operands[1 if node.row.rule == "select" else 0])
        return self._buffers.allocate(source.type, source.extents)

    def _shape_alike(self, node: Node, goal: TileRef, named: dict[str, ir.Value]) -> TileRef:
        """Give sources and result buffers of one physical shape, the longest rows of all, where they have none yet.

        Returns:
            What the instruction writes: the result, or a stand-in that is copied to it.
        """
        assert node.row is not None
        names = alike(node.row, self._target)
        operands = zip(node.row.operands, node.operands, strict=True)
        sources = {o.name: self._buffers.ref(value) for o, value in operands if o.name in names}
        shape = max(ref.type.shape for ref in (*sources.values(), goal))
        for name, source in sources.items():
            if source.type.shape != shape:
                wide = self._buffers.allocate(replace(source.type, shape=shape), source.extents)
                self._buffers.copy(source, wide)
                named[name] = wide.handle
        if goal.type.shape == shape:
            return goal
        return self._buffers.allocate(replace(goal.type, shape=shape), goal.extents)

    def _operand(self, node: Node, name: str, value: ir.Value) -> ir.Value:
        if not self._buffers.is_tile(value):
            return self._value(value)
        ref = self._buffers.ref(value)
        if name == "vector" and node.row is not None and node.row.rule == "row_expand" and ref.type.shape[0] == 1:
            # A [1, 1] tile is stored as a row; as the vector of its one row the machine wants a column.
            ref = self._buffers.view(ref, as_column(ref.type), ref.turned)
        return ref.handle

    def _define(self, node: Node) -> TileRef:
        return self._buffers.define(node.results[0], self._extents(node))

    def _extents(self, node: Node) -> Extents:
        kind = self._types.tile(node.results[0])
        assert kind is not None
        assert node.row is not None
        if DYNAMIC not in kind.valid:
            return STATIC
        refs = [self._buffers.ref(v) for v in node.operands if self._buffers.has(v)]
        rule = node.row.rule
        if rule in ("set_validshape", "extract"):
            sources = tuple([self._value(v)] for v in node.operands[-2:])
        elif rule == "insert":
            sources = tuple([extent] for extent in refs[0].extents)
        elif rule == "matmul" or rule == "matmul_bias":
            sources = ([refs[0].extents[0]], [refs[1].extents[1]])
        elif rule == "matmul_acc":
            sources = ([refs[0].extents[0], refs[1].extents[0]], [refs[0].extents[1], refs[2].extents[1]])
        elif rule in ("transpose", "transpose_view"):
            sources = ([refs[0].extents[1]], [refs[0].extents[0]])
        elif rule == "concat":
            sources = ([r.extents[0] for r in refs], [self._concat_columns(refs)])
        elif rule == "reshape":
            source = self._types.tile(node.operands[0])
            assert source is not None
            turned = kind.shape == source.shape[::-1]
            dynamic = [e for e in refs[0].extents if e is not None]
            sources = ([refs[0].extents[1]], [refs[0].extents[0]]) if turned else (dynamic, dynamic)
        else:
            sources = ([r.extents[0] for r in refs], [r.extents[1] for r in refs])
        rows, columns = (next((e for e in source if e is not None), None) for source in sources)
        return (rows if kind.valid[0] == DYNAMIC else None, columns if kind.valid[1] == DYNAMIC else None)

    def _concat_columns(self, refs: list[TileRef]) -> ir.Value | None:
        extra = refs[1].extents[1]
        return None if extra is None else self._emitter.arith("addi", self._emitter.index(refs[0].type.valid[1]), extra)

    # Memory

    def _load(self, node: Node) -> None:
        self._start(node)
        self._transfers.load(node)

    def _store(self, node: Node) -> None:
        self._start(node)
        self._transfers.store(node)

    def _erased_view(self, node: Node) -> None:
        self._erased.append(node.op)

    def _dim(self, node: Node) -> None:
        self._start(node)
        extent = self._tensors.extent(node.operands[0], number(node.op, "axis") or 0)
        node.results[0].replace_all_uses_with(extent)
        self._renamed[node.results[0]] = extent

    def _within(self, node: Node) -> None:
        self._start(node)
        operands = [self._value(v) for v in node.operands]
        offset = self._emitter.value("pto.within", operands, self._types.index, dict(node.op.attributes.items()))
        node.results[0].replace_all_uses_with(offset)
        self._renamed[node.results[0]] = offset

    def _element(self, node: Node) -> None:
        self._start(node)
        value = self._elements.convert(node)
        if value is not None:
            if node.results[0].type == value.type:
                node.results[0].replace_all_uses_with(value)
            self._renamed[node.results[0]] = value

    # Views and buffers without an instruction

    def _create(self, node: Node) -> None:
        self._start(node)
        valid = self._buffers.physical(node.results[0]).valid
        if DYNAMIC in valid and all(use.owner.name in _TAKE_A_SHAPE for use in node.results[0].uses):
            # How much is valid, the vector says that is spread over it.
            return
        # Nothing of an unwritten tile is valid.
        rows, columns = (self._emitter.index(0) if extent == DYNAMIC else None for extent in valid)
        self._buffers.define(node.results[0], (rows, columns))

    def _reshape(self, node: Node) -> None:
        self._start(node)
        source, result = self._types.tile(node.operands[0]), self._types.tile(node.results[0])
        assert isinstance(source, TileType)
        assert isinstance(result, TileType)
        ref, goal = self._buffers.ref(node.operands[0]), self._buffers.physical(node.results[0])
        gaps = [
            tile
            for tile, buffer in ((source, ref.type), (result, goal))
            if not lies_consecutively(buffer, tile.shape[1])
        ]
        if gaps:
            unit = 32 // source.dtype.bytes
            raise ShapeError(
                "reshape needs rows without padding: the machine cannot close the gaps between padded rows",
                span=node.span,
                found=f"{source.describe()} to {list(result.shape)}",
                expected=f"rows of a multiple of {unit} elements (32 bytes)",
                hint=f"make {gaps[0].shape[1]} columns a multiple of {unit}, or load the tile in its new shape",
            )
        self._buffers.bind(node.results[0], self._buffers.view(ref, goal, self._extents(node)))

    def _transpose_view(self, node: Node) -> None:
        self._start(node)
        ref = self._buffers.ref(node.operands[0])
        self._buffers.bind(node.results[0], self._buffers.view(ref, transposed(ref.type), ref.turned))

    def _part(self, node: Node) -> None:
        self._start(node)
        self._parts.convert(node, self._define, self._extents)

    # Control flow

    def _loop(self, node: Node) -> None:
        phis = carried(node)
        tiles = [phi for phi in phis if self._buffers.is_tile(phi[1])]
        body = node.bodies[0]
        if not tiles:
            self._convert(body)
            return
        emitter, buffers = self._emitter, self._buffers
        for initial, argument, _, _ in tiles:
            emitter.before(node.op, initial.location)
            buffers.prepare(argument)
        emitter.before(node.op)
        buffers.copy_all([(initial, argument) for initial, argument, _, _ in tiles])
        numbers = [k for k, phi in enumerate(phis) if not buffers.is_tile(phi[1])]
        initials = [self._value(phis[k][0]) for k in numbers]
        extents = [e for initial, *_ in tiles for e in buffers.ref(initial).extents if e is not None]
        head = [self._value(v) for v in head_operands(node)]
        loop = self._replace(node, head + initials + extents)
        if node.name == "scf.while":
            self._pass_on(loop)
        body.block.append_to(loop.regions[-1])
        added = [body.block.add_argument(self._types.index, node.op.location) for _ in extents]
        first = len(body.arguments) - len(phis)
        self._dropped.extend((body.block, k + first) for k, phi in enumerate(phis) if buffers.is_tile(phi[1]))
        emitter.before(body.nodes[0].op)
        self._enter(tiles, added, 1)
        self._convert(body)
        goes_on = body.terminator.operands[: len(body.terminator.operands) - len(phis)]
        self._yield(body, [(y, a) for _, a, y, _ in tiles], [*goes_on, *(phis[k][2] for k in numbers)])
        emitter.before(node.op)
        self._leave(node, loop, numbers, [result for *_, result in tiles])

    def _pass_on(self, loop: ir.Operation) -> None:
        """The first region of a loop that runs until it says so."""
        kinds = [value.type for value in loop.operands]
        block = loop.regions[0].blocks.append(*kinds, arg_locs=[loop.location] * len(kinds))
        arguments = list(block.arguments)
        ir.Operation.create("scf.condition", operands=arguments, loc=loop.location, ip=ir.InsertionPoint(block))

    def _enter(self, tiles: list[tuple[ir.Value, ...]], added: Sequence[ir.Value], position: int) -> None:
        left = iter(added)
        for phi in tiles:
            extents = tuple(next(left) if v == DYNAMIC else None for v in self._buffers.physical(phi[position]).valid)
            self._buffers.stored_as(phi[position], (extents[0], extents[1]))

    def _replace(self, node: Node, operands: list[ir.Value]) -> ir.Operation:
        results = [r for r in node.results if not self._buffers.is_tile(r)]
        count = sum(
            v == DYNAMIC for r in node.results if self._buffers.is_tile(r) for v in self._buffers.physical(r).valid
        )
        kinds = [r.type for r in results] + [self._types.index] * count
        attributes = dict(node.op.attributes.items())
        self._erased.append(node.op)
        return self._emitter.emit(node.name, operands, kinds, attributes, regions=len(node.op.regions))

    def _yield(self, body: Body, tiles: list[tuple[ir.Value, ir.Value]], numbers: list[ir.Value]) -> None:
        terminator = body.terminator
        self._emitter.before(terminator.op)
        extents = [
            e if e is not None else self._emitter.index(t)
            for value, goal in tiles
            for e, v, t in zip(
                self._buffers.ref(value).extents,
                self._buffers.physical(goal).valid,
                self._buffers.ref(value).type.valid,
                strict=True,
            )
            if v == DYNAMIC
        ]
        self._buffers.copy_all(tiles)
        values = [self._value(value) for value in numbers]
        self._emitter.emit("scf.yield", [*values, *extents])
        self._erased.append(terminator.op)

    def _leave(self, node: Node, new: ir.Operation, numbers: list[int], tiles: list[ir.Value]) -> None:
        results = list(new.results)
        for k, value in zip(numbers, results, strict=False):
            node.results[k].replace_all_uses_with(value)
            self._renamed[node.results[k]] = value
        self._enter([(tile,) for tile in tiles], results[len(numbers) :], 0)

    def _branch(self, node: Node) -> None:
        tiles = [(k, r) for k, r in enumerate(node.results) if self._buffers.is_tile(r)]
        if not tiles:
            for body in node.bodies:
                self._convert(body)
            return
        yielded = node.bodies[0].terminator.operands
        for k, result in tiles:
            self._emitter.before(node.op, yielded[k].location)
            self._buffers.prepare(result)
        numbers = [k for k, r in enumerate(node.results) if not self._buffers.is_tile(r)]
        self._emitter.before(node.op)
        new = self._replace(node, [self._value(v) for v in node.operands])
        for region, body in zip(new.regions, node.bodies, strict=True):
            body.block.append_to(region)
            self._convert(body)
            pairs = [(body.terminator.operands[k], result) for k, result in tiles]
            self._yield(body, pairs, [body.terminator.operands[k] for k in numbers])
        self._emitter.before(node.op)
        self._leave(node, new, numbers, [result for _, result in tiles])
