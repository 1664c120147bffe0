"""Recording tasks: numbers that later tasks may name, records, and the levels that they run at.

A task of level l runs after all tasks of lower levels. Where several kernels run one after the other for one task, each
has a record, one level after the other. Where a call is not worth a table, each task is run when it is submitted.
"""

from __future__ import annotations

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.tasks.layout import LINE, Frame, Table, Task
from pypto_jit.lowering.cpu.tasks.memory import fail

# Tensors allocated for recorded tasks take no more than about this before the tasks are run.
_MOST_BYTES = 256 << 20
KERNELS = "@pypto.kernels"
KERNEL_BYTES = 16  # the function that runs a kernel, and element operations of a block


def emit_submission(text: LlvmText, table: Table) -> None:
    """Write ``@pypto.submit``, ``depend``, ``record``, ``ready`` and ``commit``."""
    _submit(text, table)
    _depend(text, table)
    _record(text, table)
    _ready(text)
    _commit(text, table)


def _deferred(text: LlvmText) -> str:
    return text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.IMMEDIATE.at)}, 0")


def _submit(text: LlvmText, table: Table) -> None:
    """The number of a new task; runs what the table holds where it has no room for one more."""
    text.raw("define internal i64 @pypto.submit(ptr %frame) {")
    with text.only_if(_deferred(text)):
        text.raw("  call void @pypto.room(ptr %frame)")
    number = text.load("i64", "%frame", Frame.NEXT_ID.at)
    text.store("i64", text.value(f"add i64 {number}, 1"), "%frame", Frame.NEXT_ID.at)
    text.raw(f"  ret i64 {number}\n}}\n")

    text.raw("define internal void @pypto.room(ptr %frame) {")
    missing = text.value(f"icmp eq ptr {text.load('ptr', '%frame', Frame.TABLE.at)}, null")
    with text.only_if(missing):
        made = text.value(f"call ptr {text.binding(Binding.ALLOCATE, 'ptr')}(i64 {LINE}, i64 {table.size})")
        text.store("ptr", made, "%frame", Frame.TABLE.at)
    there = text.load("ptr", "%frame", Frame.TABLE.at)
    text.require(text.value(f"icmp ne ptr {there}, null"), "lost")
    used = text.value(
        f"sub i64 {text.load('i64', '%frame', Frame.NEXT_ID.at)}, {text.load('i64', '%frame', Frame.FIRST_ID.at)}"
    )
    limits = [
        (text.load("i64", "%frame", Frame.COUNT.at), table.tasks - table.pieces),
        (text.load("i64", "%frame", Frame.ACCESSES.at), table.access_count - table.accesses),
        (used, table.id_count - 1),
        (text.load("i64", "%frame", Frame.BYTES.at), _MOST_BYTES),
    ]
    full = text.any([text.value(f"icmp sgt i64 {value}, {limit}") for value, limit in limits])
    with text.only_if(full):
        text.raw("  call void @pypto.flush(ptr %frame)")
    place = _level_of(text, table, text.load("i64", "%frame", Frame.NEXT_ID.at))
    text.store("i32", 0, place)
    text.raw("  ret void")
    text.label("lost")
    fail(text, -abi.OUT_OF_MEMORY)
    text.store("i64", 1, "%frame", Frame.IMMEDIATE.at)
    text.raw("  ret void\n}\n")


def _level_of(text: LlvmText, table: Table, number: str) -> str:
    """Where the table keeps the first level after a task."""
    place = text.value(f"sub i64 {number}, {text.load('i64', '%frame', Frame.FIRST_ID.at)}")
    ids = text.address(text.load("ptr", "%frame", Frame.TABLE.at), table.ids_at)
    return text.value(f"getelementptr i32, ptr {ids}, i64 {place}")


def _raise_level(text: LlvmText, place: str, level: str) -> None:
    before = text.load("i32", place)
    higher = text.value(f"icmp ugt i32 {level}, {before}")
    text.store("i32", text.value(f"select i1 {higher}, i32 {level}, i32 {before}"), place)


def _depend(text: LlvmText, table: Table) -> None:
    """Have a task wait for another one; a number that is none of the table's is that of a task that has run."""
    text.raw("define internal void @pypto.depend(ptr %frame, i64 %number, i64 %other) {")
    later = text.value(f"icmp sge i64 %other, {text.load('i64', '%frame', Frame.FIRST_ID.at)}")
    earlier = text.value("icmp slt i64 %other, %number")
    with text.only_if(text.every([_deferred(text), later, earlier])):
        level = text.load("i32", _level_of(text, table, "%other"))
        _raise_level(text, _level_of(text, table, "%number"), level)
    text.raw("  ret void\n}\n")


def _record(text: LlvmText, table: Table) -> None:
    """A new record, to be given its arguments."""
    text.raw("define internal ptr @pypto.record(ptr %frame, i64 %kernel, i64 %blocks) {")

    def in_table() -> str:
        count = text.load("i64", "%frame", Frame.COUNT.at)
        text.store("i64", text.value(f"add i64 {count}, 1"), "%frame", Frame.COUNT.at)
        start = text.load("ptr", "%frame", Frame.TABLE.at)
        return text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {count}")

    task = text.choose("ptr", _deferred(text), in_table, lambda: text.address("%frame", Frame.RECORD.at))
    kernel = text.value(f"getelementptr [{KERNEL_BYTES} x i8], ptr {KERNELS}, i64 %kernel")
    blocks = text.greatest("%blocks", "0")
    text.store("ptr", text.load("ptr", kernel), task, Task.RUN)
    text.store("i64", blocks, task, Task.BLOCKS)
    text.store("i64", text.value(f"mul i64 {text.load('i64', kernel, 8)}, {blocks}"), task, Task.WORK)
    text.store("i64", -1, task, Task.STATUS)
    text.raw(f"  ret ptr {task}\n}}\n")


def _ready(text: LlvmText) -> None:
    """Say that a record has its arguments: the task runs, where it is not only recorded."""
    text.raw("define internal void @pypto.ready(ptr %frame, ptr %task) {")
    sound = text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.STATUS.at)}, 0")
    now = text.value(f"xor i1 {_deferred(text)}, true")
    with text.only_if(text.every([sound, now])):
        text.raw("  call void @pypto.run(ptr %frame, ptr %task, i64 0, i64 1)")
        text.raw("  call void @pypto.collect(ptr %frame, ptr %task)")
    text.raw("  ret void\n}\n")


def _commit(text: LlvmText, table: Table) -> None:
    """Give the last records their levels, the first of them at least ``%level``, and make the task's accesses known."""
    text.raw("define internal void @pypto.commit(ptr %frame, i64 %number, i64 %pieces, i64 %level) {")
    own = _level_of(text, table, "%number")
    _raise_level(text, own, text.value("trunc i64 %level to i32"))
    first = text.load("i32", own)
    tasks = text.load("ptr", "%frame", Frame.TABLE.at)
    count = text.load("i64", "%frame", Frame.COUNT.at)
    start = text.value(f"sub i64 {count}, %pieces")

    def one(values: list[str]) -> list[str]:
        number, level = values
        task = text.value(f"getelementptr [{table.record} x i8], ptr {tasks}, i64 {number}")
        text.store("i32", level, task, Task.LEVEL)
        return [text.value(f"add i64 {number}, 1"), text.value(f"add i32 {level}, 1")]

    results = text.loop(
        [("i64", start), ("i32", first)], lambda values: text.value(f"icmp slt i64 {values[0]}, {count}"), one
    )
    text.store("i32", results[1], own)
    finish = text.value(f"zext i32 {results[1]} to i64")
    depth = text.greatest(finish, text.load("i64", "%frame", Frame.DEPTH.at))
    text.store("i64", depth, "%frame", Frame.DEPTH.at)
    text.raw(f"  call void @pypto.link(ptr %frame, i64 {finish})")
    text.raw("  ret void\n}\n")
