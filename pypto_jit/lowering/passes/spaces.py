"""``spaces``: every operand gets into the memory that its instruction reads.

A matmul reads Left, Right and Bias, a vector instruction Vec. A load that only matmuls read is retargeted to Mat; other
operands get moves. Moves between the cube and the vector core (Acc to Vec, Vec to Mat) are written down here like any
other; ``stage`` splits the kernel at them.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import FP16, FP32, DType
from pypto_jit.errors import LayoutError
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Body, Node
from pypto_jit.targets import Space

_PLACES = {"lhs": Space.LEFT, "rhs": Space.RIGHT, "bias": Space.BIAS}
_PARTS = frozenset({"pypto.extract", "pypto.insert"})
_VIEWS = frozenset({"pypto.transpose", "pypto.transpose_view"})


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Insert the moves of every function; whether there is cube work that may need some.

    Raises:
        LayoutError: an operand lies where no move leads from.
    """
    changed = False
    for _, body in lowering.bodies(module):
        changed |= _Placement(body, lowering).place()
    return changed


class _Placement:
    def __init__(self, body: Body, lowering: Lowering) -> None:
        self._types = lowering.types
        self._target = lowering.target
        self._nodes = [node for node in body.walk() if node.row is not None or node.bodies]
        self._made: dict[tuple, ir.Value] = {}
        self._users: dict[ir.Value, list[tuple[Node, int]]] = {}
        self._maker: dict[ir.Value, Node] = {}
        self._gone: set[Node] = set()

    def place(self) -> bool:
        if all(self._tile_space(v) in (Space.VEC, None) for node in self._nodes for v in node.results):
            return False
        for node in self._nodes:
            for result in node.results:
                self._maker[result] = node
        self._collect_users()
        for node in self._nodes:
            if node.name == "pypto.load":
                self._retarget(node)
        for node in self._nodes:
            if node.name == "pypto.move" and node not in self._gone:
                self._fold_part(node)
        for node in self._nodes:
            row = node.row
            if row is None or row.instruction is None or node in self._gone:
                continue
            if row.instruction.core == "cube":
                for k, operand in enumerate(row.operands):
                    if operand.name in _PLACES:
                        self._bring(node, k, _PLACES[operand.name])
            elif row.instruction.core == "vector" or self._is_in_vec(node):
                for k, operand in enumerate(row.operands):
                    if operand.kind != "indices":
                        self._bring(node, k, Space.VEC)
        return True

    def _is_in_vec(self, node: Node) -> bool:
        """Whether a part of a tile is read or written in Vec."""
        return node.name in _PARTS and self._tile_space(node.results[0]) is Space.VEC

    def _collect_users(self) -> None:
        for node in self._nodes:
            operands = list(node.operands)
            for body in node.bodies:
                operands += body.terminator.operands
            for k, value in enumerate(operands):
                if self._tile_space(value) is not None:
                    self._users.setdefault(value, []).append((node, k))

    def _tile_space(self, value: ir.Value) -> Space | None:
        tile = self._types.tile(value)
        return tile.space if tile is not None else None

    # Loads that the cube reads

    def _retarget(self, node: Node) -> None:
        """Let a Vec load whose users are all on the cube land in Mat; split it where both cores read it."""
        value = node.results[0]
        if self._tile_space(value) is not Space.VEC:
            self._copy_for_vector(node)
            return
        cube = [use for use in self._users.get(value, ()) if self._reads_mat(*use)]
        if not cube:
            return
        kind = self._types.build(replace(self._tile(value), space=Space.MAT))
        if len(cube) == len(self._users[value]):
            value.set_type(kind)
            mat = value
        else:
            mat = self._clone(node, kind)
        for user, k in cube:
            self._read_mat(user, k, mat)

    def _copy_for_vector(self, node: Node) -> None:
        """A load into Mat that a vector instruction reads as well is loaded once more, into Vec."""
        value = node.results[0]
        vector = [
            (user, k)
            for user, k in self._users.get(value, ())
            if user.row is not None and user.row.instruction is not None and user.row.instruction.core == "vector"
        ]
        if not vector:
            return
        copy = self._clone(node, self._types.build(replace(self._tile(value), space=Space.VEC)))
        for user, k in vector:
            self._set(user, k, copy)

    def _reads_mat(self, user: Node, k: int) -> bool:
        row = user.row
        if row is None:
            return False
        if row.name == "move":
            return self._tile_space(user.results[0]) is Space.MAT
        if row.name == "transpose":
            uses = self._users.get(user.results[0], ())
            return bool(uses) and all(self._feeds_matmul(*use) for use in uses)
        return self._feeds_matmul(user, k)

    def _feeds_matmul(self, user: Node, k: int) -> bool:
        row = user.row
        return row is not None and row.instruction is not None and row.instruction.core == "cube"

    def _read_mat(self, user: Node, k: int, mat: ir.Value) -> None:
        if user.name == "pypto.move":
            # The move to Mat is what the load does now.
            for later, index in self._users.get(user.results[0], ()):
                self._set(later, index, mat)
            self._users.setdefault(mat, []).extend(self._users.pop(user.results[0], ()))
            self._erase(user)
        elif user.name == "pypto.transpose":
            old = user.results[0]
            kind = self._types.build(replace(self._tile(old), space=Space.MAT))
            view = self._create("pypto.transpose_view", mat, kind, ir.InsertionPoint(user.op), user.op.location)
            for later, index in self._users.get(old, ()):
                self._set(later, index, view)
            self._erase(user)
        else:
            self._set(user, k, mat)

    def _erase(self, node: Node) -> None:
        self._gone.add(node)
        node.op.erase()

    def _clone(self, node: Node, kind: ir.Type) -> ir.Value:
        copy = node.op.clone(ir.InsertionPoint(node.op)).operation
        copy.result.set_type(kind)
        return copy.result

    # Moves

    def _tile(self, value: ir.Value) -> TileType:
        tile = self._types.tile(value)
        assert tile is not None
        return tile

    def _set(self, node: Node, k: int, value: ir.Value) -> None:
        """Replace the k-th operand; those after a region operation's own belong to its terminators."""
        own = len(node.operands)
        if k < own:
            node.op.operands[k] = value
            node.operands[k] = value
            return
        k -= own
        for body in node.bodies:
            terminator = body.terminator
            if k < len(terminator.operands):
                terminator.op.operands[k] = value
                terminator.operands[k] = value
                return
            k -= len(terminator.operands)

    def _bring(self, node: Node, k: int, space: Space) -> None:
        value = node.operands[k]
        tile = self._types.tile(value)
        if tile is None or tile.space is space:
            return
        dtype = tile.dtype
        if space is Space.BIAS and dtype == FP16 and self._tile(node.results[0]).dtype == FP32:
            dtype = FP32
        self._set(node, k, self._moved(node, value, space, dtype))

    def _moved(self, user: Node, value: ir.Value, space: Space, dtype: DType) -> ir.Value:
        tile = self._tile(value)
        part = self._part(value)
        if part is not None and space in (Space.LEFT, Space.RIGHT):
            return self._clone_part(part, user, self._types.build(replace(tile, space=space)))
        for step in self._route(user, tile, space):
            last = step is space
            tile = replace(tile, space=step, dtype=dtype if last else tile.dtype)
            value = self._step(user, value, tile, near=step in (Space.LEFT, Space.RIGHT, Space.BIAS))
        return value

    def _fold_part(self, node: Node) -> None:
        """A move of a part of a Mat tile brings that part itself to where it goes."""
        result = node.results[0]
        space = self._tile_space(result)
        part = self._part(node.op.operands[0])
        if part is None or space not in (Space.LEFT, Space.RIGHT):
            return
        result.replace_all_uses_with(self._clone_part(part, node, result.type))
        for user, k in self._users.get(result, ()):
            if k < len(user.operands):
                user.operands[k] = user.op.operands[k]
        self._erase(node)

    def _part(self, value: ir.Value) -> Node | None:
        """The operation that a part of a Mat tile comes from."""
        maker = self._maker.get(value)
        found = maker is not None and maker.name == "pypto.extract" and self._tile_space(value) is Space.MAT
        return maker if found else None

    def _clone_part(self, part: Node, user: Node, kind: ir.Type) -> ir.Value:
        copy = part.op.clone(ir.InsertionPoint(user.op)).operation
        copy.result.set_type(kind)
        return copy.result

    def _route(self, user: Node, tile: TileType, space: Space) -> list[Space]:
        legal = self._target.moves | self._target.crossings
        if (tile.space, space) in legal:
            return [space]
        for through in (Space.MAT, Space.VEC):
            if (tile.space, through) in legal and (through, space) in legal:
                return [through, space]
        raise LayoutError(
            f"{user.name[6:]} needs a tile in {space.name.capitalize()}, and no move leads there",
            span=user.span,
            found=tile.describe(),
            expected=f"a tile that can be moved to {space.name.capitalize()}",
            hint="load the tile a second time, into the other memory" if tile.space is Space.MAT else None,
        )

    def _step(self, user: Node, value: ir.Value, tile: TileType, *, near: bool) -> ir.Value:
        """One move: next to its user where the goal is small, after the definition where others can share it."""
        kind = self._types.build(tile)
        key = (value, kind, id(user.body)) if near else (value, kind)
        made = self._made.get(key)
        if made is not None:
            return made
        point, location = ir.InsertionPoint(user.op), user.op.location
        if not near:
            maker = self._maker.get(value)
            if maker is not None:
                location = maker.op.location
                point = ir.InsertionPoint.after(maker.op)
            elif not isinstance(value.owner, ir.Block):
                point = ir.InsertionPoint.after(value.owner)
            else:
                point = ir.InsertionPoint.at_block_begin(value.owner)
        made = self._made[key] = self._create("pypto.move", value, kind, point, location)
        return made

    def _create(
        self, name: str, value: ir.Value, kind: ir.Type, point: ir.InsertionPoint, location: ir.Location
    ) -> ir.Value:
        return ir.Operation.create(name, [kind], [value], loc=location, ip=point).result
