"""What a task must wait for, found from the memory that it and earlier tasks access.

A task comes after those that wrote what it accesses and those that accessed what it writes. Additions to memory do not
wait for each other. Each piece of memory keeps lists of the accesses to it in the table at hand, one for each 64th
part, and one of the accesses to several parts. An access that a later write covers is taken from the lists: whatever
would have to wait for it has to wait for the write.

Two accesses of one row pitch meet only where their columns do; others are taken to meet where their ranges of addresses
do.
"""

from __future__ import annotations

from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.tasks.layout import OVER, READ, WRITE, Access, Frame, Root, Table

# An access of at most so many parts is in the list of each.
_NARROW = 4


def emit_dependencies(text: LlvmText, table: Table) -> None:
    """Write ``@pypto.access`` and ``@pypto.link``, and what they need."""
    _renew(text)
    _parts(text)
    _scan(text)
    _access(text, table)
    _link(text, table)


def _renew(text: LlvmText) -> None:
    """Empty the lists of a piece of memory."""
    text.raw("define internal void @pypto.renew(ptr %root, i64 %epoch) {")
    text.store("i64", "%epoch", "%root", Root.EPOCH)
    extent = text.value(f"sub i64 {text.load('i64', '%root', Root.HIGH)}, {text.load('i64', '%root', Root.LOW)}")
    last = text.greatest(text.value(f"sub i64 {extent}, 1"), "0")
    bits = text.value(f"sub i64 64, {text.value(f'call i64 @llvm.ctlz.i64(i64 {last}, i1 false)')}")
    shift = text.greatest(text.value(f"sub i64 {bits}, {Root.PARTS.bit_length() - 1}"), "0")
    text.store("i64", shift, "%root", Root.SHIFT)
    heads = text.address("%root", Root.HEADS)
    text.raw(f"  call void @llvm.memset.p0.i64(ptr {heads}, i8 0, i64 {Root.BYTES - Root.HEADS}, i1 false)")
    text.raw("  ret void\n}\n")


def _parts(text: LlvmText) -> None:
    """The first and the last list that an access is in, as one word: the last in the upper half."""
    text.raw("define internal i64 @pypto.parts(ptr %root, i64 %low, i64 %high) {")
    start, shift = text.load("i64", "%root", Root.LOW), text.load("i64", "%root", Root.SHIFT)
    numbers = []
    for byte in ("%low", text.value("sub i64 %high, 1")):
        part = text.value(f"ashr i64 {text.value(f'sub i64 {byte}, {start}')}, {shift}")
        numbers.append(text.least(text.greatest(part, "0"), str(Root.PARTS - 1)))
    span = text.value(f"sub i64 {numbers[1]}, {numbers[0]}")
    narrow = text.value(f"icmp slt i64 {span}, {_NARROW}")
    first = text.value(f"select i1 {narrow}, i64 {numbers[0]}, i64 {Root.PARTS}")
    last = text.value(f"select i1 {narrow}, i64 {numbers[1]}, i64 {Root.PARTS}")
    upper = text.value(f"shl i64 {last}, 32")
    text.raw(f"  ret i64 {text.value(f'or i64 {first}, {upper}')}\n}}\n")


def _first_last(text: LlvmText, root: str, low: str, high: str) -> tuple[str, str]:
    both = text.value(f"call i64 @pypto.parts(ptr {root}, i64 {low}, i64 {high})")
    return text.value(f"and i64 {both}, {2**32 - 1}"), text.value(f"lshr i64 {both}, 32")


def _link_of(text: LlvmText, access: str, part: str) -> str:
    """Where an access keeps the next one in a list."""
    place = text.value(f"and i64 {part}, {_NARROW - 1}")
    return text.value(f"getelementptr i32, ptr {text.address(access, Access.NEXT)}, i64 {place}")


def _at(text: LlvmText, accesses: str, number: str) -> str:
    """The address of an access, from its number plus one, of 32 bits."""
    offset = text.value(f"shl i64 {text.value(f'zext i32 {number} to i64')}, {Access.BYTES.bit_length() - 1}")
    return text.address(text.address(accesses, offset), -Access.BYTES)


def _scan(text: LlvmText) -> None:
    """The level after everything in one list that a new access must come after; drops what it covers."""
    text.raw("define internal i64 @pypto.scan(ptr %access, ptr %root, i64 %part, ptr %accesses, i64 %level) {")
    names = ("LOW", "HIGH", "PITCH", "COLUMN", "WIDTH")
    own = {name: text.load("i64", "%access", getattr(Access, name)) for name in names}
    own["END"] = text.value(f"add i64 {own['COLUMN']}, {own['WIDTH']}")
    kind = text.load("i32", "%access", Access.KIND)
    writes = text.value(f"icmp eq i32 {kind}, {WRITE}")
    solid = text.value(f"icmp eq i64 {own['PITCH']}, 0")
    head = text.value(f"getelementptr i32, ptr {text.address('%root', Root.HEADS)}, i64 %part")

    def one(values: list[str]) -> list[str]:
        place, number, level = values
        other = _at(text, "%accesses", number)
        theirs = {name: text.load("i64", other, getattr(Access, name)) for name in names}
        theirs["END"] = text.value(f"add i64 {theirs['COLUMN']}, {theirs['WIDTH']}")
        other_kind = text.load("i32", other, Access.KIND)
        alive = text.value(f"icmp ne i32 {other_kind}, {OVER}")
        alike = text.value(f"icmp eq i32 {kind}, {other_kind}")
        same_pitch = text.value(f"icmp eq i64 {own['PITCH']}, {theirs['PITCH']}")
        level = _later(text, level, other, _meet(text, own, theirs, same_pitch, solid), alive, alike, writes)
        same = [text.value(f"icmp eq i64 {own[name]}, {theirs[name]}") for name in ("LOW", "HIGH", "WIDTH")]
        joins = text.every([text.value(f"xor i1 {writes}, true"), alike, same_pitch, *same])
        with text.only_if(joins):
            text.store("i32", number, "%access", Access.SAME)
        covered = text.every([alive, writes, _covers(text, own, theirs, same_pitch, solid)])
        gone = text.value(f"or i1 {covered}, {text.value(f'xor i1 {alive}, true')}")
        link = _link_of(text, other, "%part")
        following = text.load("i32", link)
        with text.only_if(gone):
            text.store("i32", OVER, other, Access.KIND)
            text.store("i32", following, place)
        return [text.value(f"select i1 {gone}, ptr {place}, ptr {link}"), following, level]

    start = text.load("i32", head)
    carried = [("ptr", head), ("i32", start), ("i64", "%level")]
    results = text.loop(carried, lambda values: text.value(f"icmp ne i32 {values[1]}, 0"), one)
    text.raw(f"  ret i64 {results[2]}\n}}\n")


def _meet(text: LlvmText, own: dict[str, str], theirs: dict[str, str], same_pitch: str, solid: str) -> str:
    before = text.value(f"icmp ult i64 {own['LOW']}, {theirs['HIGH']}")
    after = text.value(f"icmp ult i64 {theirs['LOW']}, {own['HIGH']}")
    left = text.value(f"icmp ule i64 {own['END']}, {theirs['COLUMN']}")
    right = text.value(f"icmp ule i64 {theirs['END']}, {own['COLUMN']}")
    apart = text.every([same_pitch, text.value(f"xor i1 {solid}, true"), text.any([left, right])])
    return text.every([before, after, text.value(f"xor i1 {apart}, true")])


def _covers(text: LlvmText, own: dict[str, str], theirs: dict[str, str], same_pitch: str, solid: str) -> str:
    low = text.value(f"icmp ule i64 {own['LOW']}, {theirs['LOW']}")
    high = text.value(f"icmp ule i64 {theirs['HIGH']}, {own['HIGH']}")
    left = text.value(f"icmp ule i64 {own['COLUMN']}, {theirs['COLUMN']}")
    right = text.value(f"icmp ule i64 {theirs['END']}, {own['END']}")
    return text.every([low, high, text.any([solid, text.every([same_pitch, left, right])])])


def _later(text: LlvmText, level: str, other: str, meet: str, alive: str, alike: str, writes: str) -> str:
    conflict = text.any([text.value(f"xor i1 {alike}, true"), writes])
    waits = text.every([alive, meet, conflict])
    finish = text.value(f"zext i32 {text.load('i32', other, Access.FINISH)} to i64")
    return text.value(f"select i1 {waits}, i64 {text.greatest(level, finish)}, i64 {level}")


def _access(text: LlvmText, table: Table) -> None:
    """Record an access of the task that is being submitted; the level after all that it must come after."""
    arguments = "ptr %frame, ptr %root, i64 %low, i64 %high, i64 %pitch, i64 %width, i64 %kind"
    text.raw(f"define internal i64 @pypto.access({arguments}) {{")
    text.require(text.value("icmp ult i64 %low, %high"), "nothing")
    epoch = text.load("i64", "%frame", Frame.EPOCH.at)
    with text.only_if(text.value(f"icmp ne i64 {epoch}, {text.load('i64', '%root', Root.EPOCH)}")):
        text.raw(f"  call void @pypto.renew(ptr %root, i64 {epoch})")
    accesses = text.address(text.load("ptr", "%frame", Frame.TABLE.at), table.accesses_at)
    count = text.load("i64", "%frame", Frame.ACCESSES.at)
    text.store("i64", text.value(f"add i64 {count}, 1"), "%frame", Frame.ACCESSES.at)
    access = text.value(f"getelementptr [{Access.BYTES} x i8], ptr {accesses}, i64 {count}")
    _describe(text, access)
    again, search = text.fresh("b"), text.fresh("b")
    text.branch(_is_known(text, access, accesses), again, search)
    text.label(again)
    text.store("i32", text.load("i32", "%root", Root.READ), access, Access.SAME)
    level = text.load("i32", "%root", Root.READ_LEVEL)
    text.raw(f"  ret i64 {text.value(f'zext i32 {level} to i64')}")
    text.label(search)
    first, last = _first_last(text, "%root", "%low", "%high")
    wide = text.value(f"icmp eq i64 {first}, {Root.PARTS}")
    first = text.value(f"select i1 {wide}, i64 0, i64 {first}")
    last = text.value(f"select i1 {wide}, i64 {Root.PARTS - 1}, i64 {last}")

    def scan(part: str, level: str) -> str:
        return text.value(f"call i64 @pypto.scan(ptr {access}, ptr %root, i64 {part}, ptr {accesses}, i64 {level})")

    results = text.loop(
        [("i64", first), ("i64", "0")],
        lambda values: text.value(f"icmp sle i64 {values[0]}, {last}"),
        lambda values: [text.value(f"add i64 {values[0]}, 1"), scan(*values)],
    )
    level = scan(str(Root.PARTS), results[1])
    with text.only_if(text.value(f"icmp eq i64 %kind, {READ}")):
        same = text.load("i32", access, Access.SAME)
        own = text.value(f"trunc i64 {text.value(f'add i64 {count}, 1')} to i32")
        alone = text.value(f"icmp eq i32 {same}, 0")
        text.store("i32", text.value(f"select i1 {alone}, i32 {own}, i32 {same}"), "%root", Root.READ)
        text.store("i32", text.load("i32", "%root", Root.VERSION), "%root", Root.READ_VERSION)
        text.store("i32", text.value(f"trunc i64 {level} to i32"), "%root", Root.READ_LEVEL)
    text.raw(f"  ret i64 {level}")
    text.label("nothing")
    text.raw("  ret i64 0\n}\n")


def _is_known(text: LlvmText, access: str, accesses: str) -> str:
    """Whether a new access reads what the last read did, and nothing was written since then."""
    number = text.load("i32", "%root", Root.READ)
    current = text.value(
        f"icmp eq i32 {text.load('i32', '%root', Root.VERSION)}, {text.load('i32', '%root', Root.READ_VERSION)}"
    )
    reads = text.value(f"icmp eq i64 %kind, {READ}")
    there = text.every([text.value(f"icmp ne i32 {number}, 0"), current, reads])

    def compare() -> str:
        last = _at(text, accesses, number)
        same = []
        for place in (Access.LOW, Access.HIGH, Access.PITCH, Access.WIDTH):
            own, other = text.load("i64", access, place), text.load("i64", last, place)
            same.append(text.value(f"icmp eq i64 {own}, {other}"))
        return text.every(same)

    return text.choose("i1", there, compare, lambda: "false")


def _describe(text: LlvmText, access: str) -> None:
    """Fill in a new access. Columns that reach beyond a row are no columns."""
    pitched = text.value("icmp sgt i64 %pitch, 0")
    offset = text.value(f"sub i64 %low, {text.load('i64', '%root', Root.LOW)}")
    column = text.choose("i64", pitched, lambda: text.value(f"urem i64 {offset}, %pitch"), lambda: "0")
    end = text.value(f"add i64 {column}, %width")
    fits = text.every([pitched, text.value(f"icmp ule i64 {end}, %pitch")])
    for place, value in ((Access.PITCH, "%pitch"), (Access.COLUMN, column), (Access.WIDTH, "%width")):
        text.store("i64", text.value(f"select i1 {fits}, i64 {value}, i64 0"), access, place)
    text.store("i64", "%low", access, Access.LOW)
    text.store("i64", "%high", access, Access.HIGH)
    text.store("i32", text.value("trunc i64 %kind to i32"), access, Access.KIND)
    text.store("ptr", "%root", access, Access.ROOT)
    text.store("i32", 0, access, Access.SAME)


def _link(text: LlvmText, table: Table) -> None:
    """Put the accesses of the task that is being submitted into the lists, now that its last level is known."""
    text.raw("define internal void @pypto.link(ptr %frame, i64 %finish) {")
    accesses = text.address(text.load("ptr", "%frame", Frame.TABLE.at), table.accesses_at)
    count = text.load("i64", "%frame", Frame.ACCESSES.at)
    finish = text.value("trunc i64 %finish to i32")

    def one(values: list[str]) -> list[str]:
        (number,) = values
        following = text.value(f"add i64 {number}, 1")
        access = text.value(f"getelementptr [{Access.BYTES} x i8], ptr {accesses}, i64 {number}")
        same = text.load("i32", access, Access.SAME)
        known = text.value(f"icmp ne i32 {same}, 0")
        join, enter, after = text.fresh("b"), text.fresh("b"), text.fresh("b")
        text.branch(known, join, enter)
        text.label(join)
        other = _at(text, accesses, same)
        before = text.load("i32", other, Access.FINISH)
        later = text.value(f"icmp ugt i32 {finish}, {before}")
        text.store("i32", text.value(f"select i1 {later}, i32 {finish}, i32 {before}"), other, Access.FINISH)
        text.jump(after)
        text.label(enter)
        text.store("i32", finish, access, Access.FINISH)
        root = text.load("ptr", access, Access.ROOT)
        writes = text.value(f"icmp ne i32 {text.load('i32', access, Access.KIND)}, {READ}")
        version = text.load("i32", root, Root.VERSION)
        text.store(
            "i32", text.value(f"add i32 {version}, {text.value(f'zext i1 {writes} to i32')}"), root, Root.VERSION
        )
        low, high = text.load("i64", access, Access.LOW), text.load("i64", access, Access.HIGH)
        first, last = _first_last(text, root, low, high)
        heads = text.address(root, Root.HEADS)
        own = text.value(f"trunc i64 {following} to i32")

        def enter_list(inner: list[str]) -> list[str]:
            head = text.value(f"getelementptr i32, ptr {heads}, i64 {inner[0]}")
            text.store("i32", text.load("i32", head), _link_of(text, access, inner[0]))
            text.store("i32", own, head)
            return [text.value(f"add i64 {inner[0]}, 1")]

        text.loop([("i64", first)], lambda inner: text.value(f"icmp sle i64 {inner[0]}, {last}"), enter_list)
        text.jump(after)
        text.label(after)
        return [following]

    start = text.load("i64", "%frame", Frame.LINKED.at)
    text.loop([("i64", start)], lambda values: text.value(f"icmp slt i64 {values[0]}, {count}"), one)
    text.store("i64", count, "%frame", Frame.LINKED.at)
    text.raw("  ret void\n}\n")
