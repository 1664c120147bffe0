"""Functions of several tasks, and launches of blocks."""

from __future__ import annotations

from examples import mixed, spmd, tasks
from examples.catalog.example import F16, F32, Example, normal

EXAMPLES: tuple[Example, ...] = (
    Example(
        "product + bias in two tasks",
        mixed.staged,
        lambda g: (*normal((128, 256), (256, 128), dtype=F16)(g), *normal((128, 128))(g)),
        lambda a, b, bias: a @ b + bias,
        ((128, 128), F32),
        1e-3,
    ),
    Example(
        "five tasks",
        tasks.vector_graph,
        normal((128, 128), (128, 128)),
        lambda a, b: (a + b + 1) * (a + b + 2) + (a + b),
        ((128, 128), F32),
        1e-5,
    ),
    Example(
        "three phases of tasks",
        tasks.phases,
        normal((16, 64)),
        lambda x: x.sum(0) + 2 * (x + x.roll(-1, 0)),
        ((16, 64), F32),
        1e-4,
    ),
    Example(
        "three launches of blocks",
        spmd.polynomial,
        normal((256, 64)),
        lambda x: ((x + 1) * x + 1) * x + 1,
        ((256, 64), F32),
        1e-4,
    ),
)
