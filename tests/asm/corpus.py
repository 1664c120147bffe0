"""One minimal kernel per row of the operator table, dtype and target: load, the instruction, store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pypto_jit.dialects.operators import ROWS, Operator
from pypto_jit.dialects.rules import matmul_dtype
from pypto_jit.dtypes import ALL, BF16, FP16, FP32, INT32, UINT8, DType
from pypto_jit.targets import BY_NAME, COLUMN_VECTOR, NZ, ROW_MAJOR, Layout, Space
from tests.asm.planned import Planned

ROWS_, COLUMNS = 32, 64


@dataclass(frozen=True)
class Case:
    """A kernel of one instruction, and whether the table says that the target has it."""

    row: str
    dtype: str
    target: str
    supported: bool
    text: str

    @property
    def name(self) -> str:
        return f"{self.target}-{self.row}-{self.dtype}"


class Kernel(Planned):
    """A planned kernel whose tiles are loaded from, and stored to, tensors of their own shape."""

    def loaded(
        self, dtype: DType, shape: tuple[int, int], space: Space = Space.VEC, layout: Layout | None = None
    ) -> str:
        tile = self.tile(space, dtype, shape, layout=layout)
        self.generic("tload", [self.global_part(dtype, shape), tile])
        return tile

    def global_part(self, dtype: DType, shape: tuple[int, int]) -> str:
        # A one-column tensor is stored column by column.
        view = self.view(self.pointer(f"x{len(self.arguments)}", dtype), dtype, shape, "dn" if shape[1] == 1 else "nd")
        zero = self.constant(0)
        return self.part(view, dtype, [zero, zero], [self.constant(e) for e in shape], shape)

    def store(self, tile: str, dtype: DType, shape: tuple[int, int]) -> None:
        self.generic("tstore", [tile, self.global_part(dtype, shape)])

    def run(self, operation: str, operands: list[str], dtype: DType, shape: tuple[int, int], **known) -> None:
        attributes = known.pop("attributes", "")
        result = self.tile(Space.VEC, dtype, shape, **known)
        self.generic(operation, [*operands, result], None, attributes)
        self.store(result, dtype, shape)

    def moved(self, dtype: DType, shape: tuple[int, int], space: Space) -> str:
        tile = self.tile(space, dtype, shape)
        self.generic("tmov", [self.loaded(dtype, shape, Space.MAT), tile])
        return tile


def _value(dtype: DType) -> str:
    return "2.0" if dtype.is_float else "2"


def _elementwise(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    kinds = {operand.name: operand.kind for operand in row.operands}
    operands = []
    for name in row.instruction.inputs:
        if name == "tmp":
            operands.append(kernel.tile(Space.VEC, dtype, (ROWS_, COLUMNS)))
        elif kinds[name] == "scalar":
            operands.append(kernel.constant(_value(dtype), dtype.signless))
        else:
            operands.append(kernel.loaded(dtype, (ROWS_, COLUMNS)))
    kernel.run(row.instruction.operation, operands, dtype, (ROWS_, COLUMNS))


def _full(kernel: Kernel, row: Operator, dtype: DType) -> None:
    kernel.run("texpands", [kernel.constant(_value(dtype), dtype.signless)], dtype, (ROWS_, COLUMNS))


def _ci(kernel: Kernel, row: Operator, dtype: DType) -> None:
    scratch = kernel.tile(Space.VEC, FP32, (1, 448 if dtype.bytes == 2 else 192))
    kernel.run("tci", [kernel.constant(_value(dtype), dtype.signless), scratch], dtype, (1, COLUMNS))


def _row_reduction(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    source = kernel.loaded(dtype, (ROWS_, COLUMNS))
    scratch = kernel.tile(Space.VEC, dtype, (ROWS_, COLUMNS))
    kernel.run(row.instruction.operation, [source, scratch], dtype, (ROWS_, 1), layout=COLUMN_VECTOR)


def _column_reduction(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    kernel.run(row.instruction.operation, [kernel.loaded(dtype, (ROWS_, COLUMNS))], dtype, (1, COLUMNS))


def _row_index(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    source, scratch = kernel.loaded(dtype, (ROWS_, COLUMNS)), kernel.tile(Space.VEC, dtype, (ROWS_, COLUMNS))
    kernel.run(row.instruction.operation, [source, scratch], INT32, (ROWS_, 1), layout=COLUMN_VECTOR)


def _column_index(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    source, scratch = kernel.loaded(dtype, (ROWS_, COLUMNS)), kernel.tile(Space.VEC, dtype, (ROWS_, COLUMNS))
    kernel.run(row.instruction.operation, [source, scratch], INT32, (1, COLUMNS))


def _expand(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    by_row = row.rule == "row_expand"
    shape, layout = ((ROWS_, 1), COLUMN_VECTOR) if by_row else ((1, COLUMNS), ROW_MAJOR)
    operands = [
        kernel.loaded(dtype, shape, layout=layout) if name == "vector" else kernel.loaded(dtype, (ROWS_, COLUMNS))
        for name in row.instruction.inputs
    ]
    kernel.run(row.instruction.operation, operands, dtype, (ROWS_, COLUMNS))


def _transpose(kernel: Kernel, row: Operator, dtype: DType) -> None:
    source = kernel.loaded(dtype, (ROWS_, COLUMNS))
    scratch = kernel.tile(Space.VEC, dtype, (ROWS_, COLUMNS))
    kernel.run("ttrans", [source, scratch], dtype, (COLUMNS, ROWS_))


def _concat(kernel: Kernel, row: Operator, dtype: DType) -> None:
    parts = [kernel.loaded(dtype, (ROWS_, COLUMNS)) for _ in range(2)]
    kernel.run("tconcat", parts, dtype, (ROWS_, 2 * COLUMNS))


def _load(kernel: Kernel, row: Operator, dtype: DType) -> None:
    kernel.store(kernel.loaded(dtype, (ROWS_, COLUMNS)), dtype, (ROWS_, COLUMNS))


def _move(kernel: Kernel, row: Operator, dtype: DType) -> None:
    kernel.run("tmov", [kernel.loaded(dtype, (ROWS_, COLUMNS))], dtype, (ROWS_, COLUMNS))


def _matmul(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    accumulator = matmul_dtype(dtype)
    shape = (ROWS_, ROWS_)
    result = kernel.tile(Space.ACC, accumulator, shape)
    operands = {
        "lhs": kernel.moved(dtype, (ROWS_, COLUMNS), Space.LEFT),
        "rhs": kernel.moved(dtype, (COLUMNS, ROWS_), Space.RIGHT),
    }
    if "acc" in row.instruction.inputs:
        kernel.generic("tmatmul", [operands["lhs"], operands["rhs"], result])
        operands["acc"] = result
    if "bias" in row.instruction.inputs:
        plain = kernel.loaded(accumulator, (1, ROWS_), Space.MAT, ROW_MAJOR)
        operands["bias"] = kernel.tile(Space.BIAS, accumulator, (1, ROWS_))
        kernel.generic("tmov", [plain, operands["bias"]])
    kernel.generic(row.instruction.operation, [*(operands[name] for name in row.instruction.inputs), result])
    kernel.store(result, accumulator, shape)


def _mask(kernel: Kernel) -> str:
    # A row of 64 bits is one unit of memory; where the target wants it, it is as wide as the tile.
    columns = COLUMNS if kernel.machine.wide_masks else 32
    return kernel.tile(Space.VEC, UINT8, (ROWS_, columns), valid=(ROWS_, 32))


def _compare(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    operands = [
        kernel.loaded(dtype, (ROWS_, COLUMNS))
        if operand.kind == "tile"
        else kernel.constant(_value(dtype), dtype.signless)
        for operand in row.operands
    ]
    mask = _mask(kernel)
    kernel.generic(row.instruction.operation, [*operands, mask], None, 'mode = "eq"')
    kernel.store(mask, UINT8, (ROWS_, 32))


def _select(kernel: Kernel, row: Operator, dtype: DType) -> None:
    assert row.instruction is not None
    mask = _mask(kernel)
    kernel.generic("tload", [kernel.global_part(UINT8, (ROWS_, 32)), mask])
    scratch = kernel.tile(Space.VEC, FP32, (1, 8)) if row.name == "sel" else kernel.tile(Space.VEC, dtype, (1, COLUMNS))
    given = {"mask": mask, "tmp": scratch}
    for operand in row.operands[1:]:
        if operand.kind == "tile":
            given[operand.name] = kernel.loaded(dtype, (ROWS_, COLUMNS))
        else:
            given[operand.name] = kernel.constant(_value(dtype), dtype.signless)
    kernel.run(row.instruction.operation, [given[name] for name in row.instruction.inputs], dtype, (ROWS_, COLUMNS))


_KERNELS = {
    "compare": _compare,
    "select": _select,
    "elementwise": _elementwise,
    "full": _full,
    "ci": _ci,
    "row_reduction": _row_reduction,
    "column_reduction": _column_reduction,
    "row_index": _row_index,
    "column_index": _column_index,
    "row_expand": _expand,
    "col_expand": _expand,
    "transpose": _transpose,
    "concat": _concat,
    "load": _load,
    "move": _move,
    "matmul": _matmul,
    "matmul_acc": _matmul,
    "matmul_bias": _matmul,
}


def row_cases() -> Iterator[Case]:
    """Every row that is one instruction, with every dtype, on every target."""
    for target in BY_NAME:
        for row in ROWS:
            if row.rule not in _KERNELS:
                continue
            for dtype in ALL:
                kernel = Kernel(
                    target, f"{row.name}_{dtype.mlir}", "cube" if row.rule.startswith("matmul") else "vector"
                )
                _KERNELS[row.rule](kernel, row, dtype)
                # The first operand of matmul_acc, which its row lists, is the accumulator.
                listed = matmul_dtype(dtype) if row.name == "matmul_acc" else dtype
                supported = listed in row.dtypes[target]
                if row.name == "matmul_acc":
                    supported = dtype in next(r for r in ROWS if r.name == "matmul").dtypes[target]
                yield Case(row.name, dtype.name, target, supported, kernel.text())


def cast_cases() -> Iterator[Case]:
    """Every pair of dtypes, and every rounding mode once."""
    row = next(r for r in ROWS if r.name == "cast")
    for target, machine in BY_NAME.items():
        for source in ALL:
            for result in ALL:
                if source == result:
                    continue
                modes = row.attributes[0].choices if (source, result) == (FP32, FP16) else ("rint",)
                for mode in modes:
                    kernel = Kernel(target, f"cast_{source.mlir}_{result.mlir}_{mode}")
                    operands = [kernel.loaded(source, (ROWS_, COLUMNS))]
                    kernel.run("tcvt", operands, result, (ROWS_, COLUMNS), attributes=f'mode = "{mode}"')
                    name = f"{source.name}-{result.name}-{mode}"
                    yield Case("cast", name, target, result in machine.casts.get(source, ()), kernel.text())


def store_cases() -> Iterator[Case]:
    """What a store may do with an accumulator, and how it lies in L1 on the way to the next product."""
    for target in BY_NAME:
        for result in (FP32, FP16, BF16):
            kernel = Kernel(target, f"store_{result.mlir}", "cube")
            accumulator = kernel.tile(Space.ACC, FP32, (ROWS_, ROWS_))
            left = kernel.moved(FP16, (ROWS_, COLUMNS), Space.LEFT)
            right = kernel.moved(FP16, (COLUMNS, ROWS_), Space.RIGHT)
            kernel.generic("tmatmul", [left, right, accumulator])
            kernel.store(accumulator, result, (ROWS_, ROWS_))
            yield Case("store", f"FP32-{result.name}", target, True, kernel.text())
        for result in (FP16, FP32):
            kernel = Kernel(target, f"acc_to_mat_{result.mlir}", "cube")
            accumulator = kernel.tile(Space.ACC, FP32, (ROWS_, ROWS_))
            left = kernel.moved(FP16, (ROWS_, COLUMNS), Space.LEFT)
            right = kernel.moved(FP16, (COLUMNS, ROWS_), Space.RIGHT)
            kernel.generic("tmatmul", [left, right, accumulator])
            kept = kernel.tile(Space.MAT, result, (ROWS_, ROWS_), layout=NZ)
            kernel.generic("tmov", [accumulator, kept])
            again = kernel.tile(Space.LEFT, result, (ROWS_, ROWS_))
            kernel.generic("tmov", [kept, again])
            other = kernel.moved(result, (ROWS_, ROWS_), Space.RIGHT)
            second = kernel.tile(Space.ACC, FP32, (ROWS_, ROWS_))
            kernel.generic("tmatmul", [again, other, second])
            kernel.store(second, FP32, (ROWS_, ROWS_))
            yield Case("move", f"ACC-MAT-{result.name}", target, True, kernel.text())


def all_cases() -> list[Case]:
    """The whole corpus."""
    return [*row_cases(), *cast_cases(), *store_cases()]
