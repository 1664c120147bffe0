"""How the tasks of a table are dealt to threads: as units of work, those of one level at once.

A large task is dealt by its blocks, small ones several at a time, so that each unit is worth its overhead and there are
a few for each thread. Levels of little work that follow each other are one unit: threads would only wait for each
other.
"""

from __future__ import annotations

from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.tasks.layout import Frame, Item, Phase, Table, Task

# Element operations of a level that is worth more than one thread, and of a unit at least.
SERIAL_WORK = 32 * 1024
_UNIT_WORK = 8 * 1024
_UNITS_PER_THREAD = 4


def emit_planning(text: LlvmText, table: Table) -> None:
    """Write ``@pypto.plan``: deals the tasks; the most units that may run at once, zero where nothing is worth it."""
    _order(text, table)
    _add(text)
    _open(text)
    _measure(text, table)
    _deal(text, table)
    _plan(text, table)


def _order(text: LlvmText, table: Table) -> None:
    """Sort the tasks by level, those of one level in the order of submission."""
    text.raw("define internal void @pypto.order(ptr %frame) {")
    start = text.load("ptr", "%frame", Frame.TABLE.at)
    count, depth = text.load("i64", "%frame", Frame.COUNT.at), text.load("i64", "%frame", Frame.DEPTH.at)
    order, levels = text.address(start, table.order_at), text.address(start, table.levels_at)
    size = text.value(f"shl i64 {text.value(f'add i64 {depth}, 2')}, 2")
    text.raw(f"  call void @llvm.memset.p0.i64(ptr {levels}, i8 0, i64 {size}, i1 false)")

    def place(number: str, after: int) -> str:
        task = text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {number}")
        level = text.value(f"zext i32 {text.load('i32', task, Task.LEVEL)} to i64")
        return text.value(f"getelementptr i32, ptr {text.address(levels, 4 * after)}, i64 {level}")

    def tally(values: list[str]) -> list[str]:
        where = place(values[0], 2)
        text.store("i32", text.value(f"add i32 {text.load('i32', where)}, 1"), where)
        return [text.value(f"add i64 {values[0]}, 1")]

    def sum_up(values: list[str]) -> list[str]:
        number, before = values
        where = text.value(f"getelementptr i32, ptr {levels}, i64 {number}")
        total = text.value(f"add i32 {text.load('i32', where)}, {before}")
        text.store("i32", total, where)
        return [text.value(f"add i64 {number}, 1"), total]

    def put(values: list[str]) -> list[str]:
        where = place(values[0], 1)
        position = text.load("i32", where)
        text.store("i32", text.value(f"add i32 {position}, 1"), where)
        slot = text.value(f"getelementptr i32, ptr {order}, i64 {text.value(f'zext i32 {position} to i64')}")
        text.store("i32", text.value(f"trunc i64 {values[0]} to i32"), slot)
        return [text.value(f"add i64 {values[0]}, 1")]

    def more(values: list[str]) -> str:
        return text.value(f"icmp slt i64 {values[0]}, {count}")

    text.loop([("i64", "0")], more, tally)
    last = text.value(f"add i64 {depth}, 1")
    text.loop([("i64", "2"), ("i32", "0")], lambda values: text.value(f"icmp sle i64 {values[0]}, {last}"), sum_up)
    text.loop([("i64", "0")], more, put)
    text.raw("  ret void\n}\n")


def _add(text: LlvmText) -> None:
    """Append an item to the phase at hand."""
    text.raw("define internal void @pypto.add(ptr %frame, i64 %start, i64 %tasks, i64 %units) {")
    item, first = text.load("ptr", "%frame", Frame.ITEM.at), text.load("i64", "%frame", Frame.UNITS.at)
    text.store("i64", first, item, Item.FIRST)
    text.store("i64", "%units", item, Item.UNITS)
    text.store("i32", text.value("trunc i64 %start to i32"), item, Item.START)
    text.store("i32", text.value("trunc i64 %tasks to i32"), item, Item.TASKS)
    phase = text.load("ptr", "%frame", Frame.PHASE.at)
    text.store("ptr", phase, item, Item.PHASE)
    total = text.value(f"add i64 {first}, %units")
    text.store("i64", total, "%frame", Frame.UNITS.at)
    text.store("i64", text.value(f"sub i64 {total}, {text.load('i64', phase, Phase.FIRST)}"), phase, Phase.UNITS)
    text.store("ptr", text.address(item, Item.BYTES), "%frame", Frame.ITEM.at)
    text.raw("  ret void\n}\n")


def _open(text: LlvmText) -> None:
    """Start another phase."""
    text.raw("define internal void @pypto.open(ptr %frame) {")
    phase = text.address(text.load("ptr", "%frame", Frame.PHASE.at), Phase.BYTES)
    text.store("ptr", phase, "%frame", Frame.PHASE.at)
    text.store("i64", text.load("i64", "%frame", Frame.UNITS.at), phase, Phase.FIRST)
    text.store("ptr", text.load("ptr", "%frame", Frame.ITEM.at), phase, Phase.ITEM)
    text.raw("  ret void\n}\n")


def _task_at(text: LlvmText, table: Table, start: str, position: str) -> str:
    slot = text.value(f"getelementptr i32, ptr {text.address(start, table.order_at)}, i64 {position}")
    number = text.value(f"zext i32 {text.load('i32', slot)} to i64")
    return text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {number}")


def _measure(text: LlvmText, table: Table) -> None:
    """The work of some tasks that follow each other in the order; zero where they are one block in all."""
    text.raw("define internal i64 @pypto.measure(ptr %table, i64 %start, i64 %end) {")

    def one(values: list[str]) -> list[str]:
        position, work, blocks = values
        task = _task_at(text, table, "%table", position)
        work = text.value(f"add i64 {work}, {text.load('i64', task, Task.WORK)}")
        blocks = text.value(f"add i64 {blocks}, {text.load('i64', task, Task.BLOCKS)}")
        return [text.value(f"add i64 {position}, 1"), work, blocks]

    carried = [("i64", "%start"), ("i64", "0"), ("i64", "0")]
    results = text.loop(carried, lambda values: text.value(f"icmp slt i64 {values[0]}, %end"), one)
    several = text.value(f"icmp sgt i64 {results[2]}, 1")
    text.raw(f"  ret i64 {text.value(f'select i1 {several}, i64 {results[1]}, i64 0')}\n}}\n")


def _deal(text: LlvmText, table: Table) -> None:
    """Make units of the tasks of one level."""
    text.raw("define internal void @pypto.deal(ptr %frame, ptr %table, i64 %start, i64 %end, i64 %work) {")
    shuffled = text.value(f"icmp ne i64 {text.load('i64', '%frame', Frame.SHUFFLE.at)}, 0")
    most = text.value(f"mul i64 {text.load('i64', '%frame', Frame.THREADS.at)}, {_UNITS_PER_THREAD}")
    goal = text.greatest(text.value(f"sdiv i64 %work, {most}"), str(_UNIT_WORK))
    double = text.value(f"shl i64 {goal}, 1")

    def add(start: str, end: str, units: str) -> None:
        tasks = text.value(f"sub i64 {end}, {start}")
        with text.only_if(text.value(f"icmp sgt i64 {tasks}, 0")):
            text.raw(f"  call void @pypto.add(ptr %frame, i64 {start}, i64 {tasks}, i64 {units})")

    def one(values: list[str]) -> list[str]:
        position, first, gathered = values
        following = text.value(f"add i64 {position}, 1")
        task = _task_at(text, table, "%table", position)
        work, blocks = text.load("i64", task, Task.WORK), text.load("i64", task, Task.BLOCKS)
        large = text.value(f"icmp sge i64 {work}, {double}")
        alone = text.any([shuffled, text.every([large, text.value(f"icmp sgt i64 {blocks}, 1")])])
        total = text.value(f"add i64 {gathered}, {work}")
        enough = text.value(f"icmp sge i64 {total}, {goal}")
        with text.only_if(alone):
            add(first, position, "1")
            units = text.least(text.least(blocks, text.value(f"sdiv i64 {work}, {goal}")), most)
            units = text.greatest(text.value(f"select i1 {shuffled}, i64 {blocks}, i64 {units}"), "1")
            add(position, following, units)
        with text.only_if(text.every([enough, text.value(f"xor i1 {alone}, true")])):
            add(first, following, "1")
        closed = text.any([alone, enough])
        first = text.value(f"select i1 {closed}, i64 {following}, i64 {first}")
        return [following, first, text.value(f"select i1 {closed}, i64 0, i64 {total}")]

    carried = [("i64", "%start"), ("i64", "%start"), ("i64", "0")]
    results = text.loop(carried, lambda values: text.value(f"icmp slt i64 {values[0]}, %end"), one)
    add(results[1], "%end", "1")
    text.raw("  ret void\n}\n")


def _plan(text: LlvmText, table: Table) -> None:
    text.raw("define internal i64 @pypto.plan(ptr %frame) {")
    text.raw("  call void @pypto.order(ptr %frame)")
    start, depth = text.load("ptr", "%frame", Frame.TABLE.at), text.load("i64", "%frame", Frame.DEPTH.at)
    levels = text.address(start, table.levels_at)
    shuffled = text.value(f"icmp ne i64 {text.load('i64', '%frame', Frame.SHUFFLE.at)}, 0")
    text.store("i64", 0, "%frame", Frame.UNITS.at)
    text.store("ptr", text.address(start, table.items_at), "%frame", Frame.ITEM.at)
    text.store("ptr", text.address(start, table.phases_at - Phase.BYTES), "%frame", Frame.PHASE.at)
    text.store("ptr", "null", "%frame", Frame.OPEN.at)

    def bound(number: str) -> str:
        place = text.value(f"getelementptr i32, ptr {levels}, i64 {number}")
        return text.value(f"zext i32 {text.load('i32', place)} to i64")

    def one(values: list[str]) -> list[str]:
        level, widest = values
        following = text.value(f"add i64 {level}, 1")
        first, end = bound(level), bound(following)
        work = text.value(f"call i64 @pypto.measure(ptr {start}, i64 {first}, i64 {end})")
        spread = text.any([shuffled, text.value(f"icmp sge i64 {work}, {SERIAL_WORK}")])

        def apart() -> str:
            text.store("ptr", "null", "%frame", Frame.OPEN.at)
            text.raw("  call void @pypto.open(ptr %frame)")
            text.raw(f"  call void @pypto.deal(ptr %frame, ptr {start}, i64 {first}, i64 {end}, i64 {work})")
            return text.load("i64", text.load("ptr", "%frame", Frame.PHASE.at), Phase.UNITS)

        def together() -> str:
            with text.only_if(text.value(f"icmp eq ptr {text.load('ptr', '%frame', Frame.OPEN.at)}, null")):
                text.store("ptr", text.load("ptr", "%frame", Frame.ITEM.at), "%frame", Frame.OPEN.at)
                text.raw("  call void @pypto.open(ptr %frame)")
                text.raw(f"  call void @pypto.add(ptr %frame, i64 {first}, i64 0, i64 1)")
            item = text.load("ptr", "%frame", Frame.OPEN.at)
            tasks = text.value(f"trunc i64 {text.value(f'sub i64 {end}, {first}')} to i32")
            text.store("i32", text.value(f"add i32 {text.load('i32', item, Item.TASKS)}, {tasks}"), item, Item.TASKS)
            return "0"

        units = text.choose("i64", spread, apart, together)
        return [following, text.greatest(widest, units)]

    carried = [("i64", "0"), ("i64", "0")]
    results = text.loop(carried, lambda values: text.value(f"icmp slt i64 {values[0]}, {depth}"), one)
    text.raw(f"  ret i64 {results[1]}\n}}\n")
