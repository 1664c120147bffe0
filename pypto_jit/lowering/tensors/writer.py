"""Emits tile operations and the index arithmetic around them; what is known at compile time is folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules import result_type
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.dtypes import BY_MLIR, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.errors import DTypeError
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space, Target

# An index: known now, or a value of type index.
Index = int | ir.Value
# The comparison of `arith.cmpi` that is signed, and less or equal.
_AT_MOST = 3


class TileWriter:
    """Writes into one function, before an operation of it and at its line.

    Args:
        emitter: of the function.
        target: the machine.
    """

    def __init__(self, emitter: Emitter, target: Target) -> None:
        self.emitter = emitter
        self.types: TypeTable = emitter.types
        self.target = target

    # Index arithmetic

    def value(self, index: Index) -> ir.Value:
        """An index as a value."""
        return self.emitter.index(index) if isinstance(index, int) else index

    def add(self, a: Index, b: Index) -> Index:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if isinstance(a, int) else a
        return self.emitter.arith("addi", self.value(a), self.value(b))

    def subtract(self, a: Index, b: Index) -> Index:
        """a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self.emitter.arith("subi", self.value(a), self.value(b))

    def multiply(self, a: Index, b: Index) -> Index:
        """a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        return a if isinstance(b, int) and b == 1 else self.emitter.arith("muli", self.value(a), self.value(b))

    def divide(self, a: Index, b: Index) -> Index:
        """a // b for a >= 0 and b > 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b == 1:
            return a
        return self.emitter.arith("floordivsi", self.value(a), self.value(b))

    def pieces(self, extent: Index, size: int) -> Index:
        """How many parts of a size make up a dimension, the last one maybe shorter."""
        return self.divide(self.add(extent, size - 1), size)

    def product(self, numbers: Iterable[Index]) -> Index:
        """The product of all."""
        result: Index = 1
        for number in numbers:
            result = self.multiply(result, number)
        return result

    def least(self, a: Index, b: Index) -> Index:
        """min(a, b)."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.emitter.arith("minsi", self.value(a), self.value(b))

    def greatest(self, a: Index, b: Index) -> Index:
        """max(a, b)."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.emitter.arith("maxsi", self.value(a), self.value(b))

    def part(self, offset: Index, size: int, extent: Index) -> Index:
        """How much of a part of a dimension there is, where the last one may be shorter."""
        if size == 1 or (isinstance(extent, int) and extent % size == 0):
            return size
        return self.least(size, self.subtract(extent, offset))

    def digits(self, number: Index, counts: Sequence[Index]) -> list[Index]:
        """The digits of a number, the most significant first, in a system with these bases."""
        if isinstance(number, int) and number == 0:
            # A base may turn out to be 0, and nothing is divided by that.
            return [0] * len(counts)
        result: list[Index] = []
        for position, count in reversed(list(enumerate(counts))):
            if position == 0:
                result.append(number)
                break
            one = isinstance(count, int) and count == 1
            rest = 0 if one and isinstance(number, int) else self.divide(number, count)
            result.append(0 if one else self.subtract(number, self.multiply(rest, count)))
            number = number if one else rest
        return result[::-1]

    # Loops

    @contextmanager
    def loop(
        self,
        lower: Index,
        upper: Index,
        step: Index,
        carried: Sequence[ir.Value] = (),
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> Iterator[Loop]:
        """Write the body of a loop; afterwards continue behind it."""
        bounds = [self.value(bound) for bound in (lower, upper, step)]
        operation = self.emitter.emit(
            "scf.for", [*bounds, *carried], [value.type for value in carried], attributes, regions=1
        )
        kinds = [self.types.index, *(value.type for value in carried)]
        location = self.emitter.location
        block = operation.regions[0].blocks.append(*kinds, arg_locs=[location] * len(kinds))
        loop = Loop(block.arguments[0], list(block.arguments)[1:], operation.results)
        with self.emitter.inside(block):
            yield loop
            self.emitter.emit("scf.yield", loop.yielded)

    def if_at_most(self, a: Index, b: Index, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Write what is done where one number is not above another, and what else."""
        boolean = ir.IntegerType.get_signless(1, self.types.context)
        attributes = {"predicate": ir.IntegerAttr.get(self.types.i64, _AT_MOST)}
        condition = self.emitter.value("arith.cmpi", (self.value(a), self.value(b)), boolean, attributes)
        operation = self.emitter.emit("scf.if", [condition], regions=2)
        for region, body in zip(operation.regions, (then, otherwise), strict=True):
            with self.emitter.inside(region.blocks.append()):
                body()
                self.emitter.emit("scf.yield")

    # Tiles

    def operator(self, name: str, *operands: ir.Value, **attributes: object) -> ir.Value:
        """The result of an operator of the table; attributes as its rule reads them."""
        row = BY_NAME[name]
        kinds = [self.types.of(value) or self._scalar(value) for value in operands]
        result = result_type(row, kinds, attributes, self.target)  # type: ignore[arg-type]
        assert isinstance(result, TileType)
        recorded = {a.name: ir.StringAttr.get(str(attributes.get(a.name, a.default))) for a in row.attributes}
        return self.emitter.value(row.operation, operands, result, recorded)

    def _scalar(self, value: ir.Value) -> DType:
        return BY_MLIR[str(value.type)]

    def tile(self, value: ir.Value) -> TileType:
        """The type of a tile."""
        found = self.types.tile(value)
        assert found is not None
        return found

    def load(
        self,
        tensor: ir.Value,
        offsets: Sequence[Index],
        extents: Sequence[Index],
        shape: tuple[int, int],
        valid: tuple[Index, Index],
        space: Space = Space.VEC,
    ) -> ir.Value:
        """The box of a tensor as a tile of two dimensions.

        Args:
            tensor: in global memory, of any rank.
            offsets, extents: of the box, one for each dimension of the tensor.
            shape, valid: of the tile, whose rows are all dimensions of the box but the last.
        """
        static = tuple(extent if isinstance(extent, int) else DYNAMIC for extent in valid)
        kind = TileType(shape, self.types.tensor(tensor).dtype, space, static)
        operands = [tensor, *(self.value(index) for index in (*offsets, *extents))]
        return self.emitter.value("pypto.load", operands, kind)

    def store(self, tile: ir.Value, tensor: ir.Value, offsets: Sequence[Index], extents: Sequence[Index]) -> None:
        """Write a tile to the box of a tensor."""
        box = [extent if isinstance(extent, int) else DYNAMIC for extent in extents]
        attributes: dict[str, ir.Attribute] = {}
        if len(box) != 2:
            attributes["box"] = ir.DenseI64ArrayAttr.get(box)
        self.emitter.emit("pypto.store", [tile, tensor, *(self.value(index) for index in offsets)], (), attributes)

    def limited(self, tile: ir.Value, extents: tuple[Index, Index]) -> ir.Value:
        """A tile of which only so much is valid."""
        kind = self.tile(tile)
        if extents == kind.valid:
            return tile
        valid = tuple(extent if isinstance(extent, int) else DYNAMIC for extent in extents)
        operands = [tile, *(self.value(extent) for extent in extents)]
        return self.emitter.value("pypto.set_validshape", operands, TileType(kind.shape, kind.dtype, Space.VEC, valid))

    def drop(self, tensor: ir.Value, axes: Sequence[int | None]) -> ir.Value:
        """The view of a tensor without the dimensions that run along no axis, which have extent 1."""
        kind = self.types.tensor(tensor)
        kept = [dim for dim, axis in enumerate(axes) if axis is not None]
        view = TensorType(tuple(kind.shape[dim] for dim in kept), kind.dtype, tuple(kind.strides[dim] for dim in kept))
        extents = [self.extent(tensor, dim) for dim in range(kind.rank)]
        numbers = [self.value(0)] * kind.rank + [self.value(extent) for extent in extents]
        attributes: dict[str, ir.Attribute] = {
            "kind": ir.StringAttr.get("slice"),
            "axes": ir.DenseI64ArrayAttr.get(kept),
        }
        return self.emitter.value("pypto.view", [tensor, *numbers], view, attributes)

    def extent(self, tensor: ir.Value, dim: int) -> Index:
        """The extent of a dimension of a tensor in memory."""
        static = self.types.tensor(tensor).shape[dim]
        if static != DYNAMIC:
            return static
        attributes: dict[str, ir.Attribute] = {"axis": ir.IntegerAttr.get(self.types.i64, dim)}
        return self.emitter.value("pypto.dim", [tensor], self.types.index, attributes)

    def part_of(self, tensor: ir.Value, kind: TensorType) -> ir.Value:
        """The first elements of a contiguous tensor as one of another type."""
        whole, count = self.types.tensor(tensor), prod(kind.shape)
        if whole == kind:
            return tensor
        if prod(whole.shape) != count:
            tensor = self._reshaped(tensor, TensorType((prod(whole.shape),), kind.dtype, (1,)))
            tensor = self._view(tensor, [0, count], TensorType((count,), kind.dtype, (1,)), "slice", [0])
        return self._reshaped(tensor, kind)

    def _reshaped(self, tensor: ir.Value, kind: TensorType) -> ir.Value:
        return tensor if self.types.tensor(tensor) == kind else self._view(tensor, [], kind, "reshape", [])

    def _view(
        self, tensor: ir.Value, numbers: Sequence[int], result: TensorType, kind: str, axes: Sequence[int]
    ) -> ir.Value:
        attributes: dict[str, ir.Attribute] = {
            "kind": ir.StringAttr.get(kind),
            "axes": ir.DenseI64ArrayAttr.get(list(axes)),
        }
        return self.emitter.value("pypto.view", [tensor, *map(self.value, numbers)], result, attributes)

    def one_element(self, tensor: ir.Value) -> ir.Value:
        """The view of a tensor without dimensions as one of one element."""
        view = TensorType((1,), self.types.tensor(tensor).dtype, (1,))
        attributes: dict[str, ir.Attribute] = {
            "kind": ir.StringAttr.get("reshape"),
            "axes": ir.DenseI64ArrayAttr.get([]),
        }
        return self.emitter.value("pypto.view", [tensor], view, attributes)

    def convert(self, tile: ir.Value, dtype: DType, mode: str = "rint") -> ir.Value:
        """A tile in another dtype, by as few of the target's conversions as there are.

        Raises:
            DTypeError: the target has no way.
        """
        source = self.tile(tile).dtype
        if dtype in (INT8, UINT8) and dtype != source and dtype not in self.target.casts[source]:
            tile = self._rounded(tile, dtype, mode) if source.is_float else self._low_bits(tile, dtype)
            mode = "rint"
        for step in conversions(self.tile(tile).dtype, dtype, self.target):
            tile = self.operator("cast", tile, dtype=step, mode=mode)
        return tile

    def _rounded(self, tile: ir.Value, dtype: DType, mode: str) -> ir.Value:
        """Floats as integers that another dtype has: those on the way to it must round nothing again."""
        low, high = dtype.limits
        tile = self.convert(tile, FP32)
        for name, bound in (("minimums", high), ("maximums", low)):
            tile = self.operator(name, tile, self.number(bound, FP32))
        return self.operator("cast", tile, dtype=INT32, mode=mode)

    def _low_bits(self, tile: ir.Value, dtype: DType) -> ir.Value:
        """Integers as those of a narrower dtype with the same low bits."""
        wide = self.tile(tile).dtype
        if wide.bits == dtype.bits:
            tile, wide = self.convert(tile, INT16), INT16
        if dtype == UINT8:
            high = self.operator("shls", self.operator("shrs", tile, self.number(8, wide)), self.number(8, wide))
            return self.operator("sub", tile, high)
        shift = self.number(wide.bits - dtype.bits, wide)
        return self.operator("shrs", self.operator("shls", tile, shift), shift)

    def as_number(self, index: Index) -> ir.Value:
        """An index as an INT32 scalar."""
        if isinstance(index, int):
            return self.number(index, INT32)
        return self.emitter.value("arith.index_cast", [index], self.types.scalar(INT32))

    def as_float(self, index: Index) -> ir.Value:
        """An index as an FP32 scalar, exact up to 2**24."""
        if isinstance(index, int):
            return self.number(index, FP32)
        return self.emitter.value("arith.sitofp", [self.as_number(index)], self.types.scalar(FP32))

    def number(self, value: float, dtype: DType) -> ir.Value:
        """A scalar constant."""
        kind = ir.Type.parse(dtype.signless)
        attribute = ir.FloatAttr.get(kind, float(value)) if dtype.is_float else ir.IntegerAttr.get(kind, int(value))
        return self.emitter.entry_value("arith.constant", (), kind, {"value": attribute})


class Loop:
    """A loop being written: its variable, what it carries, its results, and what its body is to yield."""

    def __init__(self, index: ir.Value, carried: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        self.index = index
        self.carried = list(carried)
        self.results = list(results)
        self.yielded: list[ir.Value] = list(carried)


def conversions(source: DType, goal: DType, target: Target) -> list[DType]:
    """The dtypes on the shortest way from one dtype to another; empty where they are the same.

    Raises:
        DTypeError: there is no way on the target.
    """
    ways: dict[DType, list[DType]] = {source: []}
    queue = [source]
    while queue:
        at = queue.pop(0)
        if at == goal:
            return ways[at]
        for after in sorted(target.casts.get(at, ()), key=lambda dtype: (-dtype.bits, dtype.name)):
            if after not in ways:
                ways[after] = [*ways[at], after]
                queue.append(after)
    raise DTypeError(f"{target.name} has no conversion from {source} to {goal}", found=source, expected=goal)
