"""Arguments that share memory: whatever a nest interleaves, the result is that of one instruction after another."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from pypto_jit.dtypes import FP16, FP32
from tests.module_text import ModuleText, Value
from tests.native import Kernel, interpreted

TENSORS = 3


class Program:
    """A random kernel over three tensors of one shape: exact arithmetic only, so that results are equal bit for bit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = ModuleText()
        rows, columns = self.random.choice([1, 2, 3, 5, 8]), self.random.choice([8, 9, 16, 24, 33, 64, 300])
        self.tile = (rows, columns)
        self.shape = (rows + 3, columns + self.random.choice([0, 0, 5]))
        self.tensors = [self.text.tensor(self.shape, FP32) for _ in range(TENSORS)]
        self.tiles: list[Value] = []
        self.row_vectors: list[Value] = []
        self.column_vectors: list[Value] = []
        self.choices: list[Callable[[Value | None], None]] = [
            *[self.load] * 3,
            *[self.store] * 3,
            *[self.binary] * 4,
            *[self.unary] * 3,
            *[self.reduce_rows] * 2,
            self.reduce_columns,
            self.row_vector,
            *[self.expand] * 2,
            self.round,
        ]
        self.steps(None)
        if self.random.random() < 0.4:
            kept = len(self.tiles), len(self.row_vectors), len(self.column_vectors)
            with self.text.loop(3) as loop:
                self.steps(loop.index)
            del self.tiles[kept[0] :], self.row_vectors[kept[1] :], self.column_vectors[kept[2] :]
            self.steps(None)

    def steps(self, index: Value | None) -> None:
        self.load(index)
        for _ in range(self.random.randint(4, 16)):
            self.random.choice(self.choices)(index)
        self.store(index)

    def offsets(self, index: Value | None) -> list[Value | int]:
        column = 0 if self.shape[1] == self.tile[1] else self.random.choice([0, 0, 5])
        row: Value | int = self.random.choice([0, 0, 0, 1, 3])
        return [index if index is not None and self.random.random() < 0.5 else row, column]

    def load(self, index: Value | None) -> None:
        tensor = self.random.choice(self.tensors)
        self.tiles.append(self.text.load(tensor, self.offsets(index), self.tile))

    def store(self, index: Value | None) -> None:
        tensor = self.random.choice(self.tensors)
        self.text.store(self.random.choice(self.tiles[-3:]), tensor, self.offsets(index))

    def binary(self, index: Value | None) -> None:
        name = self.random.choice(["add", "sub", "maximum", "minimum"])
        operands = self.random.choice(self.tiles), self.random.choice(self.tiles[-3:])
        self.tiles.append(self.text.operator(name, *operands))

    def unary(self, index: Value | None) -> None:
        name = self.random.choice(["neg", "abs", "relu"])
        self.tiles.append(self.text.operator(name, self.random.choice(self.tiles[-4:])))

    def reduce_rows(self, index: Value | None) -> None:
        name = self.random.choice(["row_max", "row_min"])
        self.row_vectors.append(self.text.operator(name, self.random.choice(self.tiles)))

    def reduce_columns(self, index: Value | None) -> None:
        name = self.random.choice(["col_max", "col_min"])
        self.column_vectors.append(self.text.operator(name, self.random.choice(self.tiles)))

    def row_vector(self, index: Value | None) -> None:
        if self.row_vectors:
            self.row_vectors.append(self.text.operator("neg", self.random.choice(self.row_vectors)))

    def expand(self, index: Value | None) -> None:
        axis, vectors = self.random.choice([("row", self.row_vectors), ("col", self.column_vectors)])
        if vectors:
            name = f"{axis}_expand_{self.random.choice(['add', 'sub', 'max'])}"
            self.tiles.append(self.text.operator(name, self.random.choice(self.tiles), self.random.choice(vectors)))

    def round(self, index: Value | None) -> None:
        narrow = self.text.operator("cast", self.random.choice(self.tiles), dtype=FP16, mode="rint")
        self.tiles.append(self.text.operator("cast", narrow, dtype=FP32, mode="none"))

    def starts(self) -> list[int]:
        """Where the tensors lie in a common memory, in elements: apart, at close quarters, or anywhere."""
        size = self.shape[0] * self.shape[1]
        kind = self.random.randrange(3)
        if kind == 0:
            return [0, size, 2 * size]
        if kind == 1:
            return [self.random.choice([0, 0, self.shape[1], size, 7]) for _ in range(TENSORS)]
        return [self.random.randrange(size) for _ in range(TENSORS)]


@pytest.mark.parametrize("seed", range(30))
def test_aliasing_arguments(seed):
    program = Program(seed)
    kernel = Kernel(program.text)
    size = program.shape[0] * program.shape[1]
    memory = (np.random.default_rng(seed).integers(-(2**10), 2**10, size * 4) / 8).astype(np.float32)
    starts = program.starts()

    def tensors(values: np.ndarray) -> list[np.ndarray]:
        return [values[start : start + size].reshape(program.shape) for start in starts]

    mine, theirs = memory.copy(), memory.copy()
    assert kernel(*tensors(mine)) == 0
    interpreted(program.text, *tensors(theirs))
    np.testing.assert_array_equal(mine, theirs)
