"""The scheduler under host functions written in LLVM IR: any order it may choose gives what the program order gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import pytest
import torch

from pypto_jit import abi
from pypto_jit.dtypes import INT32
from pypto_jit.lowering.cpu.entry import EntryTensor, Host, Operand
from pypto_jit.lowering.cpu.runner import Part
from pypto_jit.lowering.cpu.tasks.layout import ADD, READ, WRITE, Frame, Table, Task
from pypto_jit.lowering.cpu.tasks.scheduler import TaskKernel
from tests.entries import build, dense

# target[i] = 3 * target[i] + source[i] + 1 for rows of elements, dealt row by row.
MIX = """
define void @mix(i64 %source, i64 %target, i64 %rows, i64 %width, i64 %pitch, i64 %unit, i64 %units, ptr %arena,
                 ptr %status) {
entry:
  br label %row.head
row.head:
  %row = phi i64 [ %unit, %entry ], [ %row.next, %row.end ]
  %more = icmp slt i64 %row, %rows
  br i1 %more, label %row.body, label %exit
row.body:
  %offset = mul i64 %row, %pitch
  %s = add i64 %source, %offset
  %t = add i64 %target, %offset
  %from = inttoptr i64 %s to ptr
  %to = inttoptr i64 %t to ptr
  br label %head
head:
  %k = phi i64 [ 0, %row.body ], [ %k.next, %body ]
  %inside = icmp slt i64 %k, %width
  br i1 %inside, label %body, label %row.end
body:
  %a.at = getelementptr i32, ptr %from, i64 %k
  %b.at = getelementptr i32, ptr %to, i64 %k
  %a = load i32, ptr %a.at
  %b = load i32, ptr %b.at
  %thrice = mul i32 %b, 3
  %sum = add i32 %thrice, %a
  %value = add i32 %sum, 1
  store i32 %value, ptr %b.at
  %k.next = add i64 %k, 1
  br label %head
row.end:
  %row.next = add i64 %row, %units
  br label %row.head
exit:
  ret void
}
define void @count(i64 %target, i64 %unit, i64 %units, ptr %arena, ptr %status) {
  %at = inttoptr i64 %target to ptr
  %old = atomicrmw add ptr %at, i32 1 monotonic
  ret void
}
define void @fail(i64 %code, i64 %unit, i64 %units, ptr %arena, ptr %status) {
  store i64 %code, ptr %status
  ret void
}
"""
KERNELS = tuple(
    TaskKernel((Part(name, tuple(("i64", Task.ARGUMENTS + 8 * k) for k in range(count))),), 0, 100)
    for name, count in (("mix", 5), ("count", 1), ("fail", 1))
)
HEIGHT, WIDTH = 16, 32
PITCH = 4 * WIDTH


@dataclass(frozen=True)
class Box:
    """Rows and columns of the tensor of 16 x 32 integers."""

    row: int
    column: int
    rows: int
    columns: int

    @property
    def low(self) -> int:
        return self.row * PITCH + 4 * self.column

    @property
    def high(self) -> int:
        return (self.row + self.rows - 1) * PITCH + 4 * (self.column + self.columns)


@dataclass(frozen=True)
class Step:
    """A task: a kernel, its arguments (None: the tensor's address is added), its accesses, and what it waits for."""

    kernel: int
    arguments: tuple[tuple[bool, int], ...]
    accesses: tuple[tuple[Box, int], ...]
    blocks: int = 1
    waits: tuple[int, ...] = ()
    pieces: int = 1


def host(steps: Sequence[Step], end: str = "") -> str:
    """A host function that submits the steps; what is at the end may use ``%data`` and ``%frame``."""
    lines = [
        "define void @host(i64 %data, ptr %frame) {",
        "  %root = alloca [320 x i8], align 64",
        "  store i64 0, ptr %root",
        "  %root.low = getelementptr i8, ptr %root, i64 8",
        "  store i64 %data, ptr %root.low",
        f"  %end = add i64 %data, {HEIGHT * PITCH}",
        "  %root.high = getelementptr i8, ptr %root, i64 16",
        "  store i64 %end, ptr %root.high",
        "  %immediate.at = getelementptr i8, ptr %frame, i64 24",
    ]
    for k, step in enumerate(steps):
        lines.append(f"  %id{k} = call i64 @pypto.submit(ptr %frame)")
        lines += [f"  call void @pypto.depend(ptr %frame, i64 %id{k}, i64 %id{other})" for other in step.waits]
        for piece in range(step.pieces):
            name = f"%task{k}.{piece}"
            lines.append(f"  {name} = call ptr @pypto.record(ptr %frame, i64 {step.kernel}, i64 {step.blocks})")
            for n, (based, number) in enumerate(step.arguments):
                lines.append(f"  {name}.{n} = add i64 {'%data' if based else 0}, {number}")
                lines.append(f"  {name}.{n}.at = getelementptr i8, ptr {name}, i64 {Task.ARGUMENTS + 8 * n}")
                lines.append(f"  store i64 {name}.{n}, ptr {name}.{n}.at")
            lines.append(f"  call void @pypto.ready(ptr %frame, ptr {name})")
        lines.append(f"  %now{k} = load i64, ptr %immediate.at")
        lines.append(f"  %defer{k} = icmp eq i64 %now{k}, 0")
        lines.append(f"  br i1 %defer{k}, label %record{k}, label %next{k}")
        lines.append(f"record{k}:")
        level = "0"
        for n, (box, kind) in enumerate(step.accesses):
            lines.append(f"  %low{k}.{n} = add i64 %data, {box.low}")
            lines.append(f"  %high{k}.{n} = add i64 %data, {box.high}")
            places = f"i64 %low{k}.{n}, i64 %high{k}.{n}, i64 {PITCH}, i64 {4 * box.columns}, i64 {kind}"
            lines.append(f"  %level{k}.{n} = call i64 @pypto.access(ptr %frame, ptr %root, {places})")
            lines.append(f"  %later{k}.{n} = icmp sgt i64 %level{k}.{n}, {level}")
            lines.append(f"  %top{k}.{n} = select i1 %later{k}.{n}, i64 %level{k}.{n}, i64 {level}")
            level = f"%top{k}.{n}"
        lines.append(f"  call void @pypto.commit(ptr %frame, i64 %id{k}, i64 {step.pieces}, i64 {level})")
        lines += [f"  br label %next{k}", f"next{k}:"]
    return "\n".join([*lines, end, "  ret void", "}", ""])


def program(steps: Sequence[Step], window: int = 64, end: str = ""):
    table = Table(window, slots=5, accesses=2, pieces=2)
    function = Host("host", (Operand("data", 0),), KERNELS, table)
    tensor = EntryTensor(dense(HEIGHT, WIDTH, dtype=INT32), written=True)
    return build(MIX + host(steps, end), [tensor], [], host=function)


def random_box(draw: random.Random, rows: int, columns: int) -> Box:
    return Box(draw.randint(0, HEIGHT - rows), draw.randint(0, WIDTH - columns), rows, columns)


def random_steps(draw: random.Random, count: int) -> list[Step]:
    steps: list[Step] = []
    for k in range(count):
        waits = tuple(draw.sample(range(k), min(k, draw.choice([0, 0, 0, 1, 3]))))
        if draw.random() < 0.2:
            box = Box(draw.randint(0, 3), draw.randint(0, 3), 1, 1)
            steps.append(Step(1, ((True, box.low),), ((box, ADD),), waits=waits))
            continue
        rows, columns = draw.choice([(1, 1), (1, 8), (4, 8), (8, 4), (2, WIDTH), (HEIGHT, 2), (HEIGHT, WIDTH)])
        source, target = random_box(draw, rows, columns), random_box(draw, rows, columns)
        if source != target and overlap(source, target):
            source = target
        arguments = ((True, source.low), (True, target.low), (False, rows), (False, columns), (False, PITCH))
        pieces = draw.choice([1, 1, 1, 2])
        blocks = rows if draw.random() < 0.7 else 1
        steps.append(Step(0, arguments, ((source, READ), (target, WRITE)), blocks, waits, pieces))
    return steps


def overlap(a: Box, b: Box) -> bool:
    rows = a.row < b.row + b.rows and b.row < a.row + a.rows
    return rows and a.column < b.column + b.columns and b.column < a.column + a.columns


def expected(steps: Sequence[Step], start: numpy.ndarray) -> numpy.ndarray:
    """In program order, by NumPy."""
    values = start.copy()

    def view(box: Box) -> numpy.ndarray:
        return values[box.row : box.row + box.rows, box.column : box.column + box.columns]

    for step in steps:
        if step.kernel == 1:
            view(step.accesses[0][0])[:] += 1
            continue
        source, target = (view(box) for box, _ in step.accesses)
        for _ in range(step.pieces):
            target[:] = target * 3 + source + 1
    return values


@pytest.mark.parametrize("seed", range(6))
def test_any_order_gives_what_the_program_order_gives(seed):
    draw = random.Random(seed)
    steps = random_steps(draw, 150)
    # The table is run several times, or holds all of them.
    entry = program(steps, window=draw.choice([7, 64, 400]))
    start = numpy.arange(HEIGHT * WIDTH, dtype=numpy.int32).reshape(HEIGHT, WIDTH)
    goal = expected(steps, start)
    for threads in (1, 2, 3, 7):
        for shuffle in (0, 1, 12345, 987654321):
            data = torch.from_numpy(start.copy())
            assert entry(data, threads, shuffle << abi.SHUFFLE) is None
            assert numpy.array_equal(data.numpy(), goal), (threads, shuffle)


@pytest.mark.parametrize(("threads", "shuffle"), [(1, 0), (2, 0), (3, 5), (7, 77)])
def test_the_first_failure_in_program_order_is_the_one_reported(threads, shuffle):
    box = Box(0, 0, HEIGHT, WIDTH)
    steps = [
        Step(1, ((True, 0),), ((Box(0, 0, 1, 1), ADD),)),
        Step(2, ((False, 30),), ((box, READ),)),
        Step(2, ((False, 4),), ()),
        Step(2, ((False, 50),), ((box, READ),)),
    ]
    data = torch.zeros(HEIGHT, WIDTH, dtype=torch.int32)
    assert program(steps)(data, threads, shuffle << abi.SHUFFLE) == -30


# Leaves the number of levels, plus 1000, in the last element, and runs nothing.
DEPTH = f"""
  %depth.at = getelementptr i8, ptr %frame, i64 {Frame.DEPTH.at}
  %depth = load i64, ptr %depth.at
  %sum = add i64 %depth, 1000
  %word = trunc i64 %sum to i32
  %last.at = add i64 %data, {HEIGHT * PITCH - 4}
  %last = inttoptr i64 %last.at to ptr
  store i32 %word, ptr %last
  %count.at = getelementptr i8, ptr %frame, i64 {Frame.COUNT.at}
  store i64 0, ptr %count.at
"""


def touching(*accesses: tuple[Box, int], waits: tuple[int, ...] = ()) -> Step:
    """A task that does nothing but say what it touches."""
    return Step(1, ((True, 0),), accesses, waits=waits)


ALL = Box(0, 0, HEIGHT, WIDTH)
BANDS = [Box(row, 0, 2, WIDTH) for row in range(0, HEIGHT, 2)]
STRIPS = [Box(0, column, HEIGHT, 4) for column in range(0, WIDTH, 4)]
TILES = [Box(row, column, 4, 8) for row in range(0, HEIGHT, 4) for column in range(0, WIDTH, 8)]


@pytest.mark.parametrize(
    ("steps", "levels"),
    [
        pytest.param([touching((box, WRITE)) for box in BANDS], 1, id="bands"),
        pytest.param([touching((box, WRITE)) for box in STRIPS], 1, id="strips"),
        pytest.param([touching((box, WRITE)) for box in TILES], 1, id="tiles"),
        pytest.param([touching((box, WRITE)) for box in [*TILES, *TILES, *TILES]], 3, id="tiles three times"),
        pytest.param([touching((box, WRITE)) for box in [*BANDS, *STRIPS, *BANDS]], 3, id="bands and strips"),
        pytest.param([touching((ALL, READ))] * 20, 1, id="reads"),
        pytest.param([touching((ALL, ADD))] * 20, 1, id="additions"),
        pytest.param([touching((ALL, WRITE))] * 20, 20, id="writes"),
        pytest.param([touching((ALL, ADD))] * 9 + [touching((TILES[3], READ))] * 9, 2, id="reads after additions"),
        pytest.param([touching((TILES[3], READ))] * 9 + [touching((ALL, WRITE))], 2, id="write after reads"),
        pytest.param([touching((box, WRITE)) for box in TILES] + [touching((ALL, READ))] * 5, 2, id="read of tiles"),
        pytest.param(
            [
                touching((TILES[0], WRITE)),
                *[touching((ALL, READ))] * 3,
                touching((TILES[0], WRITE)),
                touching((ALL, READ)),
            ],
            4,
            id="a write between equal reads",
        ),
        pytest.param([touching(), touching(), touching(waits=(0, 1)), touching(waits=(2,))], 3, id="declared"),
    ],
)
def test_only_tasks_that_touch_the_same_bytes_wait_for_each_other(steps, levels):
    data = torch.zeros(HEIGHT, WIDTH, dtype=torch.int32)
    assert program(steps, window=200, end=DEPTH)(data, 2) is None
    assert data[-1, -1] == 1000 + levels
