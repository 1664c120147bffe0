"""Random kernels as data: which tensors, which operators on which tiles, which loop around them.

A `Program` is drawn by Hypothesis with the operator table's own rules deciding what may follow, and is then written as
a module of the ``pypto`` dialect.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy
from hypothesis import strategies as st

from pypto_jit.dialects.operators import BY_NAME, ROUND_MODES, ROWS, Operator
from pypto_jit.dialects.rules import result_type
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.dtypes import FP16, FP32, INT16, INT32, DType
from pypto_jit.errors import PyptoError
from pypto_jit.targets import ROW_ALIGNMENT, Space, Target
from tests.module_text import ModuleText, Value

ROWS_MAX, COLUMNS_MAX = 40, 70
ARITHMETIC = (FP32, FP16, INT32, INT16)
FLOAT_SCALARS = ("0.5", "-1.5", "2.0", "0.1", "-3.25")
INTEGER_SCALARS = ("0", "1", "-1", "3", "-7", "100")
APPROXIMATE = frozenset({"exp", "log", "rsqrt"})
SUMS = frozenset({"row_sum", "col_sum"})
PRODUCTS = frozenset({"row_prod", "col_prod"})
REDUCTIONS = frozenset({"row_reduction", "column_reduction", "row_index", "column_index"})
CHAIN = tuple(
    row
    for row in ROWS
    if row.rule in {"elementwise", "cast", *REDUCTIONS, "row_expand", "col_expand", "full"}
    or row.name in {"reshape", "transpose", "concat"}
)
KINDS = ("elementwise", "expansion", "reduction", "shape", "cast")
EXACT = tuple(row for row in CHAIN if row.name not in APPROXIMATE)


@dataclass(frozen=True)
class Step:
    """One operator on earlier tiles, which are given by their position."""

    operator: str
    operands: tuple[int, ...]
    result: TileType
    scalar: tuple[str, str] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Program:
    """A kernel.

    Attributes:
        inputs: type of the tile loaded from each input; its valid rows are `DYNAMIC` in a program of blocks.
        steps: what follows; tile ``len(inputs) + k`` is the result of step ``k``.
        stored: the tiles that go to outputs.
        rows: number of rows of every input, of which the loop takes blocks; 0 where there is no loop.
        carried: how many leading inputs are loaded before the loop and carried by it; its yields are ``stored``.
    """

    target: Target
    inputs: tuple[TileType, ...]
    steps: tuple[Step, ...]
    stored: tuple[int, ...]
    rows: int = 0
    carried: int = 0

    @property
    def tiles(self) -> list[TileType]:
        """Type of each tile, inputs first."""
        return [*self.inputs, *(step.result for step in self.steps)]

    @property
    def block(self) -> int:
        """Rows of one block of a program with a loop."""
        return self.inputs[-1].shape[0]

    def __repr__(self) -> str:
        return f"\n{self.module()}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def input_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each input tensor."""
        looped = [(self.rows, tile.shape[1]) if self.rows else tile.shape for tile in self.inputs]
        return [self.inputs[k].shape if k < self.carried else shape for k, shape in enumerate(looped)]

    def output_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each output tensor."""
        return [self._output_shape(self.tiles[k]) for k in self.stored]

    def _output_shape(self, tile: TileType) -> tuple[int, ...]:
        if not self.rows or self.carried:
            return tile.shape
        if tile.valid[0] == DYNAMIC:
            return (self.rows, tile.shape[1])
        if tile.valid[1] == DYNAMIC:
            return (tile.shape[0], self.rows)
        return (-(-self.rows // self.block), tile.shape[1])

    def module(self) -> ModuleText:
        """The kernel as a module: inputs, then outputs, are its parameters."""
        text = ModuleText(self.target)
        inputs = [text.tensor(s, t.dtype) for s, t in zip(self.input_shapes(), self.inputs, strict=True)]
        outputs = [text.tensor(s, self.tiles[k].dtype) for s, k in zip(self.output_shapes(), self.stored, strict=True)]
        if self.carried:
            self._carried(text, inputs, outputs)
        elif self.rows:
            self._blocks(text, inputs, outputs)
        else:
            tiles = [text.load(x, [0, 0], t.shape, t.valid) for x, t in zip(inputs, self.inputs, strict=True)]
            tiles = self._run(text, tiles)
            for out, k in zip(outputs, self.stored, strict=True):
                text.store(tiles[k], out, [0, 0])
        return text

    def _run(self, text: ModuleText, tiles: list[Value]) -> list[Value]:
        tiles = list(tiles)
        for step in self.steps:
            operands = [tiles[k] for k in step.operands]
            if step.scalar is not None:
                operands.append(text.constant(*step.scalar))
            tiles.append(text.operator(step.operator, *operands, **step.attributes))
        return tiles

    def _blocks(self, text: ModuleText, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        block = self.block
        with text.loop(self.rows, block, parallel=True) as loop:
            left = text.arith("subi", text.constant(self.rows), loop.index)
            valid = text.arith("minsi", text.constant(block), left)
            tiles = [
                text.load(x, [loop.index, 0], t.shape, [valid, t.valid[1]])
                for x, t in zip(inputs, self.inputs, strict=True)
            ]
            tiles = self._run(text, tiles)
            for out, k in zip(outputs, self.stored, strict=True):
                tile = self.tiles[k]
                if tile.valid[0] == DYNAMIC:
                    offsets: list[Value | int] = [loop.index, 0]
                elif tile.valid[1] == DYNAMIC:
                    offsets = [0, loop.index]
                else:
                    offsets = [text.arith("divsi", loop.index, text.constant(block)), 0]
                text.store(tiles[k], out, offsets)

    def _carried(self, text: ModuleText, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        initial = [
            text.load(inputs[k], [0, 0], self.inputs[k].shape, self.inputs[k].valid) for k in range(self.carried)
        ]
        # How many turns are in flight is no matter of the results.
        with text.loop(self.rows, self.block, carried=initial, stages=1 + self.rows % 4) as loop:
            tiles = [
                text.load(x, [loop.index, 0], t.shape, t.valid)
                for x, t in zip(inputs[self.carried :], self.inputs[self.carried :], strict=True)
            ]
            tiles = self._run(text, [*loop.carried, *tiles])
            loop.yields = [tiles[k] for k in self.stored]
        for out, tile in zip(outputs, loop.results, strict=True):
            text.store(tile, out, [0, 0])


def _choices(row: Operator, tiles: Sequence[TileType], target: Target) -> Iterator[tuple[tuple[int, ...], dict]]:
    """Operands and attributes that a row's rule may take."""
    if row.rule == "full":
        shape = tiles[0].shape
        for dtype in ARITHMETIC:
            yield (), {"shape": shape, "dtype": dtype, "space": Space.VEC}
        return
    arity = sum(operand.kind == "tile" for operand in row.operands)
    # What no rule takes is left out before the rules see it: their errors take long to write.
    for operands in itertools.product(range(len(tiles)), repeat=arity):
        first = tiles[operands[0]]
        if any(tiles[k].dtype != first.dtype for k in operands):
            continue
        if row.rule in ("row_expand", "col_expand") and 1 not in tiles[operands[1]].shape:
            continue
        if row.rule == "elementwise" and any(tiles[k].shape != first.shape for k in operands):
            continue
        if row.name == "cast":
            for dtype in target.casts.get(first.dtype, ()):
                yield operands, {"dtype": dtype}
        elif row.name == "reshape":
            rows, columns = first.shape
            for shape in {(columns, rows), (1, rows * columns), (rows * columns, 1)} - {first.shape}:
                if _without_gaps(first.shape, first.dtype) and _without_gaps(shape, first.dtype):
                    yield operands, {"shape": shape}
        else:
            yield operands, {}


def _without_gaps(shape: tuple[int, ...], dtype: DType) -> bool:
    """Whether rows need no padding: the machine reshapes only what lies without gaps."""
    return 1 in shape or shape[1] * dtype.bytes % ROW_ALIGNMENT == 0


def _valid_regions_agree(row: Operator, operands: Sequence[TileType]) -> bool:
    """Whether operands have equal valid regions whatever is dynamic; in one program all that is dynamic is equal."""
    if len(operands) < 2:
        return True
    left, right = (operand.valid for operand in operands)
    if row.rule == "elementwise":
        return left == right
    axis = 1 if row.rule == "col_expand" else 0
    return left[axis] == right[axis]


@cache
def _alike(row: Operator, target: Target) -> Operator:
    """The first row that takes what this row takes."""

    def takes(other: Operator) -> tuple:
        return other.rule, tuple(operand.kind for operand in other.operands), other.dtypes[target.name]

    return next(other for other in ROWS if takes(other) == takes(row))


def _legal(row: Operator, tiles: tuple[TileType, ...], target: Target, *, exact: bool) -> list[Step]:
    """What a row may do with the tiles at hand; with ``exact``, sums of floats are left out."""
    steps = _legal_alike(_alike(row, target), tiles, target)
    return [step for step in steps if not (exact and row.name in SUMS | PRODUCTS and step.result.dtype.is_float)]


@cache
def _legal_alike(row: Operator, tiles: tuple[TileType, ...], target: Target) -> list[Step]:
    steps = []
    for operands, attributes in _choices(row, tiles, target):
        types: list[Any] = [tiles[k] for k in operands]
        if any(operand.kind == "scalar" for operand in row.operands):
            types.append(types[0].dtype if types else attributes["dtype"])
        try:
            result = result_type(row, types, attributes, target)
        except PyptoError:
            continue
        assert isinstance(result, TileType)
        if not _valid_regions_agree(row, [tiles[k] for k in operands]):
            continue
        if result.shape[1] <= 4096 and result.shape[0] <= 4095:
            steps.append(Step(row.name, operands, result, attributes=attributes))
    return sorted(steps, key=repr)


def scalars(dtype: DType) -> st.SearchStrategy[tuple[str, str]]:
    """A scalar operand: its text, and its MLIR type."""
    values = FLOAT_SCALARS if dtype.is_float else INTEGER_SCALARS
    return st.tuples(st.sampled_from(values), st.just(dtype.signless))


@st.composite
def steps(draw: Any, tiles: list[TileType], target: Target, rows: Sequence[Operator], count: int) -> list[Step]:
    """A chain of up to ``count`` operators after the given tiles."""
    tiles, chain = list(tiles), []
    for _ in range(count):
        # First the kind of operator, so that the many elementwise rows do not crowd out the rest.
        legal: dict[str, list[str]] = {}
        for row in rows:
            if _legal(row, tuple(tiles), target, exact=rows is EXACT):
                legal.setdefault(_kind(row), []).append(row.name)
        kind = draw(st.sampled_from([name for name in KINDS if name in legal]))
        row = BY_NAME[draw(st.sampled_from(sorted(legal[kind])))]
        step = draw(st.sampled_from(_legal(row, tuple(tiles), target, exact=rows is EXACT)))
        scalar, attributes = None, dict(step.attributes)
        if any(operand.kind == "scalar" for operand in row.operands):
            scalar = draw(scalars(step.result.dtype))
        if row.name == "cast":
            attributes["mode"] = draw(st.sampled_from(ROUND_MODES))
        chain.append(Step(row.name, step.operands, step.result, scalar, attributes))
        tiles.append(step.result)
    return chain


def _kind(row: Operator) -> str:
    if row.rule in ("row_expand", "col_expand"):
        return "expansion"
    if row.rule in REDUCTIONS:
        return "reduction"
    return row.rule if row.rule in ("elementwise", "cast") else "shape"


@st.composite
def whole_programs(draw: Any, target: Target, rows: Sequence[Operator], length: int = 6) -> Program:
    """Inputs loaded whole or in part, a chain, and the last tiles stored."""
    extents = draw(st.integers(1, ROWS_MAX)), draw(st.integers(1, COLUMNS_MAX) | st.sampled_from([16, 32, 64]))
    valid = extents
    if draw(st.booleans()):
        valid = draw(st.integers(1, extents[0])), draw(st.integers(1, extents[1]))
    dtypes = draw(st.lists(st.sampled_from(ARITHMETIC), min_size=1, max_size=3))
    inputs = [TileType(extents, dtype, Space.VEC, valid) for dtype in dtypes]
    chain = draw(steps(inputs, target, rows, length))
    count = len(inputs) + len(chain)
    stored = draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True))
    return Program(target, tuple(inputs), tuple(chain), (*(k for k in stored if k != count - 1), count - 1))


@st.composite
def block_programs(draw: Any, target: Target, rows: Sequence[Operator], length: int = 5) -> Program:
    """A parallel loop over blocks of rows, the last of which is ragged, with a chain inside."""
    total, block = draw(st.integers(1, 3 * ROWS_MAX)), draw(st.integers(2, ROWS_MAX))
    columns = draw(st.integers(1, COLUMNS_MAX))
    dtypes = draw(st.lists(st.sampled_from(ARITHMETIC), min_size=1, max_size=3))
    inputs = [TileType((block, columns), dtype, Space.VEC, (DYNAMIC, columns)) for dtype in dtypes]
    chain = draw(steps(inputs, target, rows, length))
    tiles = [*inputs, *(step.result for step in chain)]
    # What is neither cut by the last block nor one row a block would be written by several iterations.
    longer = _longer_than_blocks(tiles, len(inputs), chain)
    storable = [k for k, tile in enumerate(tiles) if (DYNAMIC in tile.valid or tile.shape[0] == 1) and k not in longer]
    return Program(target, tuple(inputs), tuple(chain), tuple(storable[-2:]), rows=total)


def _longer_than_blocks(tiles: Sequence[TileType], inputs: int, chain: Sequence[Step]) -> set[int]:
    """The tiles whose unknown extent is not that of a block, but of what has been put beside one."""
    found: set[int] = set()
    for k, step in enumerate(chain, inputs):
        beside = step.operator == "concat" and tiles[k].valid[1] == DYNAMIC
        if DYNAMIC in tiles[k].valid and (beside or found.intersection(step.operands)):
            found.add(k)
    return found


@st.composite
def carried_programs(draw: Any, target: Target, rows: Sequence[Operator], length: int = 4) -> Program:
    """A loop that carries tiles, with a chain inside; what it yields may be what it carries, in another order."""
    block, columns = draw(st.integers(1, 16)), draw(st.integers(1, COLUMNS_MAX))
    dtype = draw(st.sampled_from(ARITHMETIC))
    count, carried = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shape = (block, columns)
    tile = TileType(shape, dtype, Space.VEC, shape)
    inputs = (tile,) * (carried + 1)
    chain = draw(steps(list(inputs), target, rows, length))
    tiles = [*inputs, *(step.result for step in chain)]
    same = [k for k, other in enumerate(tiles) if other == tile]
    stored = tuple(draw(st.sampled_from(same)) for _ in range(carried))
    return Program(target, inputs, tuple(chain), stored, rows=count * block, carried=carried)


def array(shape: tuple[int, ...], dtype: DType, seed: int, *, edges: bool = False) -> numpy.ndarray:
    """Input data: moderate values, or with ``edges`` infinities, NaN, denormals, zeros and extremes among them."""
    generator = numpy.random.default_rng(seed)
    if not dtype.is_float:
        limits = numpy.iinfo(dtype.numpy)
        values = generator.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        small = generator.integers(max(limits.min, -9), 9, shape).astype(dtype.numpy)
        values = numpy.where(generator.random(shape) < 0.5, small, values)
        extremes = numpy.array([limits.min, limits.max, 0, 1], dtype.numpy)
    else:
        values = (generator.standard_normal(shape) * 4).astype(dtype.numpy)
        extremes = numpy.array(
            [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1e-40, -6e-8, 3e38, 65504.0, 1e-30], numpy.float64
        ).astype(numpy.float32)
        with numpy.errstate(over="ignore"):
            extremes = extremes.astype(dtype.numpy)
    if not edges:
        return values
    return numpy.where(generator.random(shape) < 0.2, generator.choice(extremes, shape), values).astype(dtype.numpy)
