"""Tasks: what their author writes, in every way a kernel can be run."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import AssemblyError, ControlFlowError, DTypeError, ShapeError, TraceError, UndefinedError
from tests.language.everywhere import check
from tests.tracing import excerpt, lines, spec

# The assembly of a kernel with tasks holds its kernels, not what calls them.
WAYS = ("compiled", "interpreted", "trace")


def _rows(count, columns=16):
    return torch.arange(count * columns, dtype=torch.float32).reshape(count, columns)


# Workloads


def test_a_graph_of_five_tasks():
    @pypto.jit
    def kernel(a, b, out):
        total = pl.create_tensor([64, 16], pl.FP32)
        one = pl.create_tensor([64, 16], pl.FP32)
        two = pl.create_tensor([64, 16], pl.FP32)
        product = pl.create_tensor([64, 16], pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="add"):
            pl.store(pl.load(a, [0, 0], [64, 16]) + pl.load(b, [0, 0], [64, 16]), [0, 0], total)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="one"):
            pl.store(pl.load(total, [0, 0], [64, 16]) + 1.0, [0, 0], one)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="two"):
            pl.store(pl.load(total, [0, 0], [64, 16]) + 2.0, [0, 0], two)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="mul"):
            pl.store(pl.load(one, [0, 0], [64, 16]) * pl.load(two, [0, 0], [64, 16]), [0, 0], product)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="sum"):
            pl.store(pl.load(product, [0, 0], [64, 16]) + pl.load(total, [0, 0], [64, 16]), [0, 0], out)

    a, b = _rows(64) / 64, _rows(64).flip(0) / 32
    check(kernel, a, b, torch.zeros(64, 16), ways=WAYS, out=(a + b + 1) * (a + b + 2) + (a + b))
    assembly = kernel.lower(a, b, torch.zeros(64, 16))["pto"]
    assert [f"@kernel_{name}(" in assembly for name in ("add", "one", "two", "mul", "sum")] == [True] * 5
    assert "@kernel(" not in assembly


@pytest.mark.parametrize("declared", [False, True], ids=["inferred", "declared"])
def test_a_task_follows_another_one(declared):
    @pypto.jit
    def kernel(x, out):
        scratch = pl.create_tensor([16, 16], pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP) as first:
            tile = pl.load(x, [0, 0], [16, 16])
            pl.store(tile + tile, [0, 0], scratch)
        with pl.at(level=pl.Level.CORE_GROUP, deps=[first] if declared else []):
            tile = pl.load(scratch, [0, 0], [16, 16])
            pl.store(tile + tile, [0, 0], out)

    check(kernel, _rows(16), torch.zeros(16, 16), ways=WAYS, out=_rows(16) * 4)


@pytest.mark.parametrize("gate", [0, 1])
def test_a_predicate_decides_when_the_kernel_runs(gate):
    @pypto.jit
    def kernel(gate, x, out):
        with pl.at(name_hint="copy"):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)
        with pl.spmd(4, predicate=(gate[0, 0] > 0)) as clobbered:
            pl.store(pl.full([4, 16], pl.FP32, -1.0), [pl.get_block_idx() * 4, 0], out)
        with pl.at(deps=[clobbered]):
            pl.store(pl.load(out, [0, 0], [1, 16]) * 2.0, [0, 0], out)

    expected = torch.full((16, 16), -1.0) if gate else _rows(16)
    expected[0] *= 2
    flag = torch.tensor([[gate]], dtype=torch.int32)
    check(kernel, flag, _rows(16), torch.zeros(16, 16), ways=WAYS, out=expected)


@pytest.mark.parametrize(("phases", "producers"), [(2, 1), (2, 4), (3, 3), (3, 8)])
def test_phases_wait_for_every_producer_of_the_one_before(phases, producers):
    @pypto.jit
    def kernel(x, out):
        stages = pl.create_tensor([phases + 1, producers, 16], pl.FP32)
        fence = pl.system.task_invalid()
        for k in pl.range(producers):
            with pl.at(name_hint="start"):
                pl.store(pl.load(x, [k, 0], [1, 16]), [0, 0], stages[0, k : k + 1])
        for phase in range(phases):
            ids = pl.array.create(producers, pl.TASK_ID)
            for k in pl.range(producers):
                with pl.at(name_hint=f"phase{phase}", deps=[fence]) as tid:
                    total = pl.load(stages, [phase, 0, 0], [1, producers, 16])
                    pl.store(pl.col_sum(pl.reshape(total, [producers, 16])) + 1.0, [0, 0], stages[phase + 1, k : k + 1])
                ids[k] = tid
            fence = pl.system.task_dummy(deps=[ids])
        with pl.at(name_hint="end", deps=[fence]):
            pl.store(pl.load(stages[phases], [0, 0], [producers, 16]), [0, 0], out)

    x = _rows(producers) / 256
    expected = x.double()
    for _ in range(phases):
        expected = (expected.sum(0) + 1).expand(producers, 16)
    check(kernel, x, torch.zeros(producers, 16), ways=WAYS, out=expected.float().contiguous())


@pytest.mark.parametrize("submits", [1, 3, 5])
def test_blocks_of_several_submissions(submits):
    @pypto.jit
    def kernel(x, out):
        for k in range(submits):
            with pl.spmd(4, name_hint="block", sync_start=True):
                row = k * 16 + pl.get_block_idx() * 4
                scale = pl.get_block_num() + pl.get_block_idx() + pl.get_subblock_idx()
                pl.store(pl.load(x, [row, 0], [4, 16]) * pl.cast(scale, pl.FP32), [row, 0], out)

    x = _rows(submits * 16)
    scale = torch.tensor([4.0, 5, 6, 7]).repeat_interleave(4).repeat(submits).reshape(-1, 1)
    check(kernel, x, torch.zeros_like(x), ways=WAYS, out=x * scale)


def test_the_number_of_blocks_is_known_when_the_kernel_runs():
    @pypto.jit
    def kernel(count, x, out):
        for block in pl.spmd(count[0]):
            pl.store(pl.load(x, [block * 2, 0], [2, 16]) + 1.0, [block * 2, 0], out)

    for count in (0, 1, 5):
        expected = torch.zeros(10, 16)
        expected[: 2 * count] = _rows(10)[: 2 * count] + 1
        check(kernel, torch.tensor([count]), _rows(10), torch.zeros(10, 16), ways=WAYS, out=expected)


def test_cube_and_vector_work_in_one_task():
    @pypto.jit
    def kernel(a, b, out):
        for block in pl.spmd(2, name_hint="mixed"):
            product = pl.load(a, [block * 16, 0], [16, 32]) @ pl.load(b, [0, 0], [32, 16])
            pl.store(product + 1.0, [block * 16, 0], out)

    a = torch.arange(32 * 32).reshape(32, 32) % 7 - 3.0
    b = torch.arange(32 * 16).reshape(32, 16) % 5 - 2.0
    check(kernel, a, b, torch.zeros(32, 16), ways=WAYS, out=a @ b + 1)
    assembly = kernel.lower(a, b, torch.zeros(32, 16))["pto"]
    assert "@kernel_mixed_0_cube(" in assembly
    assert "@kernel_mixed_1_vector(" in assembly


def test_submitted_functions():
    def scale(x, row, out):
        pl.store(pl.load(x, [row, 0], [8, 16]) * 2.0, [row, 0], out)
        return out

    def blocks(x, out):
        row = pl.get_block_idx() * 4
        pl.store(pl.load(x, [row, 0], [4, 16]) + pl.load(out, [row, 0], [4, 16]), [row, 0], out)

    @pypto.jit
    def kernel(x, out):
        first, out = pl.submit(scale, x, 0, out)
        second, out = pl.submit(scale, x, row=8, out=out, deps=[first])
        last = pl.spmd_submit(blocks, x, out, core_num=4, deps=[first, (second, [second])])
        pl.system.task_dummy(deps=last)
        return out

    check(kernel, _rows(16), torch.zeros(16, 16), ways=WAYS, out=_rows(16) * 3)


def test_task_ids_are_carried_around_loops_and_branches():
    @pypto.jit
    def kernel(x, out):
        last = pl.system.task_invalid()
        for k in pl.range(4):
            if k > 1:
                with pl.at(name_hint="add", deps=[last]) as tid:
                    pl.store(pl.load(x, [k * 4, 0], [4, 16]) + 1.0, [k * 4, 0], out)
                last = tid
            else:
                with pl.at(name_hint="copy", deps=[last]) as tid:
                    pl.store(pl.load(x, [k * 4, 0], [4, 16]), [k * 4, 0], out)
                last = tid

    expected = _rows(16)
    expected[8:] += 1
    check(kernel, _rows(16), torch.zeros(16, 16), ways=WAYS, out=expected)


def test_scopes_and_hints_change_nothing():
    @pypto.jit
    def kernel(x, out):
        with pl.scope(), pl.manual_scope(), pl.cluster(), pl.at(level=pl.Level.CHIP, role=pl.Role.Worker):
            hints = [pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=2)]
            with pl.at(
                level=pl.Level.AIV,
                optimizations=hints,
                no_dep_args=[x],
                dumps=[pl.dump_tag(x)],
                allow_early_resolve=True,
            ):
                pl.store(pl.load(pl.no_dep(x), [0, 0], [16, 16]) + 1.0, [0, 0], out)

    check(kernel, _rows(16), torch.zeros(16, 16), ways=WAYS, out=_rows(16) + 1)


# Work between tasks


def test_work_between_tasks_is_a_task():
    @pypto.jit
    def kernel(x, out):
        for k in pl.range(2):
            pl.store(pl.load(x, [k * 8, 0], [8, 16]) + 1.0, [k * 8, 0], out)
        with pl.at():
            pl.store(pl.load(out, [0, 0], [16, 16]) * 2.0, [0, 0], out)
        row = pl.load(out, [3, 0], [1, 16])
        pl.store(row, [0, 0], out)

    expected = (_rows(16) + 1) * 2
    expected[0] = expected[3]
    check(kernel, _rows(16), torch.zeros(16, 16), ways=WAYS, out=expected)


def test_the_host_reads_what_tasks_wrote():
    @pypto.jit
    def kernel(x, out):
        count = pl.create_tensor([1, 8], pl.FP32, init_value=3)
        with pl.at():
            pl.store(pl.load(count, [0, 0], [1, 8]) - 1.0, [0, 0], count)
        for k in pl.range(pl.cast(count[0, 5], pl.INDEX)):
            with pl.at():
                pl.store(pl.load(x, [k, 0], [1, 16]), [k, 0], out)

    expected = torch.zeros(4, 16)
    expected[:2] = _rows(4)[:2]
    check(kernel, _rows(4), torch.zeros(4, 16), ways=WAYS, out=expected)


# Created tensors


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(torch.float32, -1.5), (torch.float16, 2.0), (torch.int32, -7), (torch.uint8, 200), (torch.int8, -128)],
    ids=str,
)
def test_a_created_tensor_is_filled(dtype, value):
    kind = getattr(pl, {"float32": "FP32", "float16": "FP16"}.get(str(dtype)[6:], str(dtype)[6:].upper()))

    @pypto.jit
    def kernel(out):
        made = pl.create_tensor([3, 32], kind, init_value=value)
        pl.store(pl.load(made, [0, 0], [3, 32]), [0, 0], out)

    check(kernel, torch.zeros(3, 32, dtype=dtype), ways=WAYS, out=torch.full((3, 32), value, dtype=dtype))


def test_a_tensor_of_an_extent_that_is_known_when_the_kernel_runs():
    @pypto.jit
    def kernel(count, x, out):
        rows = pl.create_tensor([count[0], 16], pl.FP32)
        for k in pl.range(count[0]):
            with pl.at():
                pl.store(pl.load(x, [k, 0], [1, 16]), [k, 0], rows)
        for k in pl.range(rows.shape[0]):
            with pl.at():
                pl.store(pl.load(rows, [k, 0], [1, 16]) + 1.0, [k, 0], out)

    expected = torch.zeros(6, 16)
    expected[:5] = _rows(5) + 1
    check(kernel, torch.tensor([5]), _rows(6), torch.zeros(6, 16), ways=WAYS, out=expected)


# Errors


def test_tasks_do_not_nest():
    def kernel(x, out):
        with pl.at(name_hint="outer"), pl.at(name_hint="inner"):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

    with pytest.raises(TraceError) as raised:
        lines(kernel, spec(16, 16), spec(16, 16))
    line = kernel.__code__.co_firstlineno + 1
    message = str(raised.value)
    assert "task 'inner' begins inside of task 'outer'" in message
    assert f"the one that begins at {kernel.__code__.co_filename}:{line}" in message


def test_a_tile_of_a_task_is_gone_after_it():
    def kernel(x, out):
        with pl.at(name_hint="first"):
            tile = pl.load(x, [0, 0], [16, 16])
        with pl.at(name_hint="second"):
            pl.store(tile, [0, 0], out)

    with pytest.raises(UndefinedError) as raised:
        lines(kernel, spec(16, 16), spec(16, 16))
    message = str(raised.value)
    assert "reading an undefined tile: it was made inside the task 'first'" in message
    assert excerpt(kernel, 4, "pl.store(tile, [0, 0], out)") in message
    assert f"at {kernel.__code__.co_filename}:{kernel.__code__.co_firstlineno + 1}" in message


def test_a_task_uses_no_tile_from_outside():
    @pypto.jit
    def kernel(x, out):
        tile = pl.load(x, [0, 0], [16, 16])
        with pl.at(name_hint="late"):
            pl.store(tile, [0, 0], out)

    with pytest.raises(TraceError) as raised:
        kernel(_rows(16), torch.zeros(16, 16))
    message = str(raised.value)
    assert "task 'late' uses a tile that was made outside of it" in message
    assert "the tile from" in message
    assert "load or make it inside of the task" in message


def test_a_task_uses_no_array_from_outside():
    @pypto.jit
    def kernel(x, out):
        rows = pl.array.create(2, pl.INDEX)
        rows[1] = 3
        with pl.at(name_hint="late"):
            pl.store(pl.load(x, [rows[1], 0], [1, 16]), [0, 0], out)

    with pytest.raises(TraceError, match="task 'late' uses an array that was made outside of it"):
        kernel(_rows(16), torch.zeros(1, 16))


def test_a_loop_around_tasks_carries_no_tile():
    @pypto.jit
    def kernel(x, out):
        tile = pl.full([1, 16], pl.FP32, 0.0)
        for k in pl.range(4):
            tile = tile + 1.0
            with pl.at():
                pl.store(pl.load(x, [k, 0], [1, 16]), [k, 0], out)
        pl.store(tile, [0, 0], out)

    with pytest.raises(ControlFlowError, match="a loop or branch around tasks carries a tile"):
        kernel(_rows(4), torch.zeros(4, 16))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda x: pl.at(level="core"), TraceError, "pl.at takes a level"),
        (lambda x: pl.at(level=pl.Level.HOST, deps=[3]), TraceError, "makes no task"),
        (lambda x: pl.at(role="worker"), TraceError, "role of pl.at is a pl.Role"),
        (lambda x: pl.at(dependencies=[]), TraceError, "did you mean 'deps'"),
        (lambda x: pl.at(deps=["first"]), TraceError, "deps takes TaskIds"),
        (lambda x: pl.at(deps=[x]), TraceError, "deps takes TaskIds"),
        (lambda x: pl.at(predicate=3), DTypeError, "predicate of pl.at is a condition"),
        (lambda x: pl.at(name_hint=3), TraceError, "name_hint of pl.at is a string"),
        (lambda x: pl.at(optimizations=["fast"]), TraceError, "unknown entry of the optimizations"),
        (lambda x: pl.at(dumps=["x"]), TraceError, "dumps of pl.at takes tensors"),
        (lambda x: pl.spmd(0), ControlFlowError, "at least one block"),
        (lambda x: pl.spmd(2.5), DTypeError, "a number of blocks"),
        (lambda x: pl.spmd(2, cores=1), TraceError, "no argument 'cores'"),
        (lambda x: pl.scope("auto"), TraceError, "pl.scope takes a mode"),
        (lambda x: pl.submit(3), TraceError, "a function and its arguments"),
        (lambda x: pl.split("up"), TraceError, "pl.split takes a mode"),
        (lambda x: pl.cross_core_slot(0), TraceError, "at least 1"),
        (lambda x: pl.no_dep(3), TraceError, "pl.no_dep takes a tensor"),
        (lambda x: pl.create_tensor([-1, 4], pl.FP32), ShapeError, "negative"),
        (lambda x: pl.create_tensor([4, 4], float), DTypeError, "takes a dtype"),
        (lambda x: pl.create_tensor([4, 4], pl.INT8, init_value=200), DTypeError, "200 does not fit INT8"),
        (lambda x: pl.create_tensor([4, 4], pl.FP32, layout="NZ"), TraceError, "row-major"),
    ],
)
def test_what_is_wrong_is_said(wrong, error, message):
    def kernel(x, out):
        with wrong(x):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

    with pytest.raises(error, match=message):
        lines(kernel, spec(16, 16), spec(16, 16))


def test_a_task_creates_no_tensor():
    def kernel(x, out):
        with pl.at(name_hint="inner"):
            pl.create_tensor([4, 4], pl.FP32)

    with pytest.raises(TraceError, match="inside of task 'inner'"):
        lines(kernel, spec(16, 16), spec(16, 16))


def test_a_task_waits_for_none_that_begins_in_it():
    def kernel(x, out):
        with pl.at():
            pl.system.task_dummy()

    with pytest.raises(TraceError, match="task_dummy inside of the task"):
        lines(kernel, spec(16, 16), spec(16, 16))


def test_assembly_of_tasks_does_not_run_alone():
    @pypto.jit
    def kernel(x, out):
        with pl.at():
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

    assembly = kernel.lower(_rows(16), torch.zeros(16, 16))["pto"]
    with pytest.raises(AssemblyError, match="host code that the assembly does not hold"):
        pypto.compile(assembly)


def test_block_numbers_outside_of_tasks():
    @pypto.jit
    def kernel(x, out):
        row = pl.get_block_idx()
        pl.store(pl.load(x, [row, 0], [16, 16]) * pl.get_block_num(), [row, 0], out)

    check(kernel, _rows(16), torch.zeros(16, 16), out=_rows(16))


def test_each_kernel_has_a_file_of_its_own(tmp_path):
    @pypto.jit
    def kernel(a, b, out):
        with pl.at(name_hint="mixed"):
            pl.store(pl.load(a, [0, 0], [16, 16]) @ pl.load(b, [0, 0], [16, 16]) + 1.0, [0, 0], out)
        with pl.at(name_hint="double"):
            pl.store(pl.load(out, [0, 0], [16, 16]) * 2.0, [0, 0], out)

    a, b, out = _rows(16), torch.eye(16), torch.zeros(16, 16)
    folder = kernel.compile(a, b, out).save(tmp_path / "program")
    files = {file.stem: file.read_text() for file in (folder / "kernels").iterdir()}
    assert set(files) == {"kernel", "kernel_mixed", "kernel_double"}
    assert files["kernel_mixed"].count("func.func") == 2
    assert files["kernel_double"].count("func.func") == 1
    assert files["kernel_double"].startswith("module attributes")
    assert files["kernel_double"].endswith("  }" + files["kernel"].rpartition("  }")[2])
    pypto.CompiledProgram.load(folder)(a, b, out)
    torch.testing.assert_close(out, (a + 1) * 2)
