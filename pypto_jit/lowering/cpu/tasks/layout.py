"""Where the scheduler keeps what in memory: offsets in bytes, shared by the code that writes and that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

LINE = 64


class Frame(IntEnum):
    """Words of the frame of one call of a host function; word k lies at byte ``8 * k``."""

    STATUS = 0  # zero, or the first failed check in program order
    THREADS = 1
    SHUFFLE = 2  # not zero: a seed; every task is dealt block by block, in an order that it gives (for tests)
    IMMEDIATE = 3  # not zero: each task is run when it is submitted
    TABLE = 4  # address of the table; null until there is one
    COUNT = 5  # tasks in the table
    ACCESSES = 6  # accesses in the table
    LINKED = 7  # how many of those the dependency lists know
    EPOCH = 8  # counts the runs of the table, from one
    DEPTH = 9  # levels in the table
    FIRST_ID = 10  # the first task number of the table
    NEXT_ID = 11
    UNITS = 12  # of work that the table's tasks are dealt as
    LIVE = 13  # list of allocated tensors
    RELEASED = 14  # list of those that are freed after the next run
    BYTES = 15  # allocated since the last run
    ITEM = 16  # address of the next item to be planned
    PHASE = 17
    OPEN = 18  # address of the item that takes the tasks of one level after the other; null: none does
    # What threads change while they run, a cache line each.
    TICKET = 24
    DONE = 32
    FAILED = 40  # whether a task failed
    RECORD = 48  # a task, where each is run when it is submitted

    @property
    def at(self) -> int:
        """Its offset."""
        return 8 * self


class Task:
    """A recorded task; its arguments follow, a word each."""

    RUN = 0  # void (task, block, blocks, status)
    BLOCKS = 8
    WORK = 16  # element operations of all blocks
    LEVEL = 24  # 32 bits
    STATUS = 32  # all ones, or the first failure: the unit that failed, then the status
    ARGUMENTS = 40


UNIT_SHIFT = 42


class Access:
    """Memory that a task reads or writes: rows of ``WIDTH`` bytes, ``PITCH`` apart; or all of it where that is zero."""

    LOW = 0
    HIGH = 8
    PITCH = 16
    COLUMN = 24
    WIDTH = 32
    FINISH = 40  # 32 bits: the first level at which it is over
    KIND = 44  # 32 bits
    NEXT = 48  # four 32-bit numbers of the next access in a list, plus one
    # Until the access is in its lists:
    ROOT = 48
    SAME = 56  # 32 bits: number of an access of the same memory in the same way, plus one
    BYTES = 64


READ, WRITE, ADD, OVER = range(4)  # kinds of access; additions commute; an OVER one stands behind another


class Root:
    """A piece of memory that tensors are parts of, and lists of the accesses to it, by 64th part."""

    EPOCH = 0
    LOW = 8
    HIGH = 16
    SHIFT = 24
    HEADS = 32  # 32-bit numbers, plus one; the last list is of accesses to many parts
    PARTS = 64
    # Tasks that read the same one after the other wait for the same: 32 bits each.
    VERSION = 292  # counts the accesses that are no reads
    READ = 296  # number of the access of the last read, plus one; zero where there is none
    READ_VERSION = 300  # the version it found
    READ_LEVEL = 304  # the level after all that it must come after
    BYTES = 320


class Allocation:
    """What lies before an allocated tensor's memory."""

    NEXT = 0
    BEFORE = 8
    ROOT = LINE
    BYTES = LINE + Root.BYTES
    ROOT_FROM_DATA = ROOT - BYTES


class Item:
    """Some units of work that follow each other: the blocks of a task, or some tasks at once."""

    FIRST = 0  # number of its first unit
    UNITS = 8
    START = 16  # 32 bits: place of its first task in the order
    TASKS = 20  # 32 bits
    PHASE = 24  # address of its phase
    BYTES = 32


class Phase:
    """Items that may run at once, after those of earlier phases."""

    FIRST = 0  # number of its first unit
    UNITS = 8
    ITEM = 16  # address of its first item
    BYTES = 24


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE


@dataclass(frozen=True)
class Table:
    """The table of recorded tasks.

    Attributes:
        tasks: how many it holds.
        slots: arguments of a task, at most.
        accesses: of a task, at most.
        pieces: kernels that one call may run one after the other, at most.
    """

    tasks: int
    slots: int
    accesses: int
    pieces: int

    @property
    def record(self) -> int:
        """Bytes of a task."""
        return Task.ARGUMENTS + 8 * self.slots

    @property
    def accesses_at(self) -> int:
        """Where the accesses start; the tasks lie at the start of the table."""
        return _lines(self.tasks * self.record)

    @property
    def access_count(self) -> int:
        """How many accesses it holds."""
        return self.tasks * self.accesses

    @property
    def ids_at(self) -> int:
        """Where the first levels after each task number start, 32 bits each."""
        return self.accesses_at + self.access_count * Access.BYTES

    @property
    def id_count(self) -> int:
        """How many task numbers it holds."""
        return 2 * self.tasks

    @property
    def order_at(self) -> int:
        """Where the tasks' numbers by level start, 32 bits each."""
        return _lines(self.ids_at + 4 * self.id_count)

    @property
    def levels_at(self) -> int:
        """Where the end of each level in the order starts, 32 bits each, the first being zero."""
        return _lines(self.order_at + 4 * self.tasks)

    @property
    def items_at(self) -> int:
        """Where the items start."""
        return _lines(self.levels_at + 4 * (self.tasks + 2))

    @property
    def phases_at(self) -> int:
        """Where the phases start."""
        return _lines(self.items_at + self.tasks * Item.BYTES)

    @property
    def size(self) -> int:
        """Bytes of the table."""
        return _lines(self.phases_at + self.tasks * Phase.BYTES)

    @property
    def frame(self) -> int:
        """Bytes of the frame."""
        return _lines(Frame.RECORD.at + self.record)
