"""Running what a table holds: on the calling thread in the order of submission, or on all threads by level.

Threads draw tickets: the number of a unit of work. Whoever draws a unit of a later phase waits until the units of all
earlier ones are done. So nobody waits for threads that did not come, and a thread that is late holds up nobody else.
"""

from __future__ import annotations

from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.tasks.layout import UNIT_SHIFT, Frame, Item, Phase, Table, Task

# Looks at how far the others are before a waiting thread offers its processor to somebody else, each time.
_PATIENCE = 2000
_SPREAD = 1_000_003  # a prime: steps of it reach every unit of a phase


def emit_execution(text: LlvmText, table: Table) -> None:
    """Write ``@pypto.flush``, ``run``, ``collect``, and what they need."""
    _run(text)
    _collect(text)
    _wait(text)
    _execute(text, table)
    _worker(text)
    _serial(text, table)
    _flush(text, table)


def _run(text: LlvmText) -> None:
    """Run one unit of a task, and note whether it failed."""
    text.raw("define internal void @pypto.run(ptr %frame, ptr %task, i64 %unit, i64 %units) {")
    text.raw("  %status = alloca i64, align 8")
    text.store("i64", 0, "%status")
    function = text.load("ptr", "%task", Task.RUN)
    text.raw(f"  call void {function}(ptr %task, i64 %unit, i64 %units, ptr %status)")
    status = text.load("i64", "%status")
    with text.only_if(text.value(f"icmp ne i64 {status}, 0")):
        # The least of them all: the first unit's.
        key = text.value(f"or i64 {text.value(f'shl i64 %unit, {UNIT_SHIFT}')}, {status}")
        text.value(f"atomicrmw umin ptr {text.address('%task', Task.STATUS)}, i64 {key} monotonic")
        text.raw(f"  store atomic i64 1, ptr {text.address('%frame', Frame.FAILED.at)} monotonic, align 8")
    text.raw("  ret void\n}\n")


def _collect(text: LlvmText) -> None:
    """Note in the frame that a task failed, unless an earlier one did."""
    text.raw("define internal void @pypto.collect(ptr %frame, ptr %task) {")
    status = text.load("i64", "%task", Task.STATUS)
    failed = text.value(f"icmp ne i64 {status}, -1")
    first = text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.STATUS.at)}, 0")
    with text.only_if(text.every([failed, first])):
        code = text.value(f"and i64 {status}, {(1 << UNIT_SHIFT) - 1}")
        text.store("i64", code, "%frame", Frame.STATUS.at)
    text.raw("  ret void\n}\n")


def _wait(text: LlvmText) -> None:
    """Return when so many units are done."""
    text.raw("define internal void @pypto.wait(ptr %frame, i64 %units) {")
    done = text.address("%frame", Frame.DONE.at)
    give_way = text.binding(Binding.YIELD, "ptr")
    polite = text.value(f"icmp ne ptr {give_way}, null")

    def unfinished(_: list[str]) -> str:
        now = text.value(f"load atomic i64, ptr {done} acquire, align 8")
        return text.value(f"icmp slt i64 {now}, %units")

    def look(values: list[str]) -> list[str]:
        long = text.value(f"icmp sgt i64 {values[0]}, {_PATIENCE}")
        with text.only_if(text.every([long, polite])):
            text.value(f"call i32 {give_way}()")
        return [text.value(f"add i64 {values[0]}, 1")]

    text.loop([("i64", "0")], unfinished, look)
    text.raw("  ret void\n}\n")


def _execute(text: LlvmText, table: Table) -> None:
    """Run one unit of an item."""
    text.raw("define internal void @pypto.execute(ptr %frame, ptr %item, i64 %unit) {")
    start = text.load("ptr", "%frame", Frame.TABLE.at)
    order = text.address(start, table.order_at)
    first = text.value(f"zext i32 {text.load('i32', '%item', Item.START)} to i64")
    tasks = text.value(f"zext i32 {text.load('i32', '%item', Item.TASKS)} to i64")
    units = text.load("i64", "%item", Item.UNITS)

    def one(values: list[str]) -> list[str]:
        slot = text.value(f"getelementptr i32, ptr {order}, i64 {text.value(f'add i64 {first}, {values[0]}')}")
        number = text.value(f"zext i32 {text.load('i32', slot)} to i64")
        task = text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {number}")
        text.raw(f"  call void @pypto.run(ptr %frame, ptr {task}, i64 %unit, i64 {units})")
        return [text.value(f"add i64 {values[0]}, 1")]

    text.loop([("i64", "0")], lambda values: text.value(f"icmp slt i64 {values[0]}, {tasks}"), one)
    text.raw("  ret void\n}\n")


def _worker(text: LlvmText) -> None:
    """What each thread does: draw tickets until there are none left."""
    text.raw("define internal ptr @pypto.find(ptr %item, i64 %unit) {")

    def beyond(values: list[str]) -> str:
        end = text.value(
            f"add i64 {text.load('i64', values[0], Item.FIRST)}, {text.load('i64', values[0], Item.UNITS)}"
        )
        return text.value(f"icmp sle i64 {end}, %unit")

    found = text.loop([("ptr", "%item")], beyond, lambda values: [text.address(values[0], Item.BYTES)])
    text.raw(f"  ret ptr {found[0]}\n}}\n")

    text.raw("define internal void @pypto.work(ptr %frame, ptr %items) {")
    units, shuffle = text.load("i64", "%frame", Frame.UNITS.at), text.load("i64", "%frame", Frame.SHUFFLE.at)
    shuffled = text.value(f"icmp ne i64 {shuffle}, 0")
    ticket, done = text.address("%frame", Frame.TICKET.at), text.address("%frame", Frame.DONE.at)

    def draw() -> str:
        return text.value(f"atomicrmw add ptr {ticket}, i64 1 monotonic")

    def one(values: list[str]) -> list[str]:
        number, item = values
        item = text.value(f"call ptr @pypto.find(ptr {item}, i64 {number})")
        phase = text.load("ptr", item, Item.PHASE)
        first = text.load("i64", phase, Phase.FIRST)
        text.raw(f"  call void @pypto.wait(ptr %frame, i64 {first})")

        def other() -> str:
            spread = text.value(f"mul i64 {number}, {_SPREAD}")
            place = text.value(f"urem i64 {text.value(f'add i64 {spread}, {shuffle}')}, {text.load('i64', phase, 8)}")
            return text.value(f"add i64 {first}, {place}")

        chosen = text.choose("i64", shuffled, other, lambda: number)
        start = text.value(f"select i1 {shuffled}, ptr {text.load('ptr', phase, Phase.ITEM)}, ptr {item}")
        taken = text.value(f"call ptr @pypto.find(ptr {start}, i64 {chosen})")
        unit = text.value(f"sub i64 {chosen}, {text.load('i64', taken, Item.FIRST)}")
        text.raw(f"  call void @pypto.execute(ptr %frame, ptr {taken}, i64 {unit})")
        text.value(f"atomicrmw add ptr {done}, i64 1 release")
        return [draw(), item]

    carried = [("i64", draw()), ("ptr", "%items")]
    text.loop(carried, lambda values: text.value(f"icmp slt i64 {values[0]}, {units}"), one)
    text.raw("  ret void\n}\n")


def _serial(text: LlvmText, table: Table) -> None:
    """Run the tasks in the order of submission, up to the first that fails."""
    text.raw("define internal void @pypto.serial(ptr %frame) {")
    start, count = text.load("ptr", "%frame", Frame.TABLE.at), text.load("i64", "%frame", Frame.COUNT.at)

    def more(values: list[str]) -> str:
        sound = text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.FAILED.at)}, 0")
        return text.every([text.value(f"icmp slt i64 {values[0]}, {count}"), sound])

    def one(values: list[str]) -> list[str]:
        task = text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {values[0]}")
        text.raw(f"  call void @pypto.run(ptr %frame, ptr {task}, i64 0, i64 1)")
        return [text.value(f"add i64 {values[0]}, 1")]

    text.loop([("i64", "0")], more, one)
    text.raw("  ret void\n}\n")


def _flush(text: LlvmText, table: Table) -> None:
    """Run what the table holds, note the first failure, and empty the table."""
    text.raw("define internal void @pypto.team(ptr %frame) {")
    items = text.address(text.load("ptr", "%frame", Frame.TABLE.at), table.items_at)
    text.raw(f"  call void @pypto.work(ptr %frame, ptr {items})")
    text.raw("  ret void\n}\n")

    text.raw("define internal void @pypto.flush(ptr %frame) {")
    count = text.load("i64", "%frame", Frame.COUNT.at)
    with text.only_if(text.value(f"icmp ne i64 {count}, 0")):
        _launch(text)
        failed = text.value(f"icmp ne i64 {text.load('i64', '%frame', Frame.FAILED.at)}, 0")
        with text.only_if(failed):
            start = text.load("ptr", "%frame", Frame.TABLE.at)

            def one(values: list[str]) -> list[str]:
                task = text.value(f"getelementptr [{table.record} x i8], ptr {start}, i64 {values[0]}")
                text.raw(f"  call void @pypto.collect(ptr %frame, ptr {task})")
                return [text.value(f"add i64 {values[0]}, 1")]

            text.loop([("i64", "0")], lambda values: text.value(f"icmp slt i64 {values[0]}, {count}"), one)
        for slot in (Frame.COUNT, Frame.ACCESSES, Frame.LINKED, Frame.DEPTH, Frame.FAILED):
            text.store("i64", 0, "%frame", slot.at)
    epoch = text.value(f"add i64 {text.load('i64', '%frame', Frame.EPOCH.at)}, 1")
    text.store("i64", epoch, "%frame", Frame.EPOCH.at)
    text.store("i64", text.load("i64", "%frame", Frame.NEXT_ID.at), "%frame", Frame.FIRST_ID.at)
    text.store("i64", 0, "%frame", Frame.BYTES.at)
    text.raw(f"  call void @pypto.free(ptr %frame, i64 {Frame.RELEASED.at})")
    text.raw("  ret void\n}\n")


def _launch(text: LlvmText) -> None:
    widest = text.value("call i64 @pypto.plan(ptr %frame)")
    planned, serial, after = text.fresh("b"), text.fresh("b"), text.fresh("b")
    text.branch(text.value(f"icmp sgt i64 {widest}, 0"), planned, serial)
    text.label(planned)
    text.store("i64", 0, "%frame", Frame.TICKET.at)
    text.store("i64", 0, "%frame", Frame.DONE.at)
    threads = text.least(widest, text.load("i64", "%frame", Frame.THREADS.at))
    function = text.binding(Binding.PARALLEL, "ptr")
    several = text.every([text.value(f"icmp sgt i64 {threads}, 1"), text.value(f"icmp ne ptr {function}, null")])
    team, alone = text.fresh("b"), text.fresh("b")
    text.branch(several, team, alone)
    text.label(team)
    size = text.value(f"trunc i64 {threads} to i32")
    text.raw(f"  call void {function}(ptr @pypto.team, ptr %frame, i32 {size}, i32 0)")
    text.jump(after)
    text.label(alone)
    text.raw("  call void @pypto.team(ptr %frame)")
    text.jump(after)
    text.label(serial)
    text.raw("  call void @pypto.serial(ptr %frame)")
    text.jump(after)
    text.label(after)
