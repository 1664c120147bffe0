"""Tensors that a host function allocates: kept in lists, and freed when no recorded task needs them any more."""

from __future__ import annotations

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.tasks.layout import LINE, Allocation, Frame, Root

# More than this is never allocated: sizes are computed in 64 bits and must not wrap.
_MOST_BYTES = 1 << 46
# Copied at once while memory is filled: what stays in the first cache.
_FILL_BYTES = 16 * 1024


def emit_memory(text: LlvmText) -> None:
    """Write ``@pypto.product``, ``allocate``, ``fill``, ``release``, ``free``, and ``fail``."""
    _product(text)
    _allocate(text)
    _fill(text)
    _release(text)
    _free(text)
    text.raw("define internal void @pypto.fail(ptr %frame, i64 %code) {")
    text.raw("  call void @pypto.flush(ptr %frame)")
    fail(text, "%code")
    text.raw("  ret void\n}\n")


def fail(text: LlvmText, code: int | str) -> None:
    """Set the status of the frame, unless something failed before."""
    sound = text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.STATUS.at)}, 0")
    with text.only_if(sound):
        text.store("i64", code, "%frame", Frame.STATUS.at)


def _product(text: LlvmText) -> None:
    """A product of sizes that are not negative; where it is too large, one more than is ever allocated."""
    text.raw("define internal i64 @pypto.product(i64 %a, i64 %b) {")
    both = text.value("call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %a, i64 %b)")
    size, wrapped = (
        text.value(f"extractvalue {{ i64, i1 }} {both}, 0"),
        text.value(f"extractvalue {{ i64, i1 }} {both}, 1"),
    )
    large = text.any([wrapped, text.value(f"icmp ugt i64 {size}, {_MOST_BYTES}")])
    text.raw(f"  ret i64 {text.value(f'select i1 {large}, i64 {_MOST_BYTES + 1}, i64 {size}')}\n}}\n")


def _fill(text: LlvmText) -> None:
    """Repeat the first bytes up to the end."""
    text.raw("define internal void @pypto.fill(ptr %data, i64 %first, i64 %bytes) {")

    def more(values: list[str]) -> list[str]:
        (done,) = values
        left = text.value(f"sub i64 %bytes, {done}")
        size = text.least(text.least(done, left), str(_FILL_BYTES))
        place = text.address("%data", done)
        text.raw(f"  call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr %data, i64 {size}, i1 false)")
        return [text.value(f"add i64 {done}, {size}")]

    text.loop([("i64", "%first")], lambda values: text.value(f"icmp slt i64 {values[0]}, %bytes"), more)
    text.raw("  ret void\n}\n")


def _allocate(text: LlvmText) -> None:
    """The address of some bytes, null where there are none; what lies before them is `Allocation`."""
    text.raw("define internal ptr @pypto.allocate(ptr %frame, i64 %bytes) {")
    text.require(text.value(f"icmp ule i64 %bytes, {_MOST_BYTES}"), "lost")
    size = text.value(f"add i64 %bytes, {Allocation.BYTES + 2 * LINE - 1}")
    size = text.value(f"and i64 {size}, {-LINE}")
    allocate = text.binding(Binding.ALLOCATE, "ptr")

    def attempt() -> str:
        return text.value(f"call ptr {allocate}(i64 {LINE}, i64 {size})")

    def again() -> str:
        # Tensors that only recorded tasks need are freed.
        text.raw("  call void @pypto.flush(ptr %frame)")
        return attempt()

    first = attempt()
    block = text.choose("ptr", text.value(f"icmp eq ptr {first}, null"), again, lambda: first)
    text.require(text.value(f"icmp ne ptr {block}, null"), "lost")
    data = text.address(block, Allocation.BYTES)
    low = text.value(f"ptrtoint ptr {data} to i64")
    root = text.address(block, Allocation.ROOT)
    text.store("i64", 0, root, Root.EPOCH)
    text.store("i64", low, root, Root.LOW)
    text.store("i64", text.value(f"add i64 {low}, %bytes"), root, Root.HIGH)
    _insert(text, block, Frame.LIVE)
    total = text.value(f"add i64 {text.load('i64', '%frame', Frame.BYTES.at)}, {size}")
    text.store("i64", total, "%frame", Frame.BYTES.at)
    text.raw(f"  ret ptr {data}")
    text.label("lost")
    text.raw("  call void @pypto.flush(ptr %frame)")
    fail(text, -abi.OUT_OF_MEMORY)
    text.raw("  ret ptr null\n}\n")


def _insert(text: LlvmText, block: str, head: Frame) -> None:
    """Put an allocation at the front of a list."""
    first = text.load("ptr", "%frame", head.at)
    text.store("ptr", first, block, Allocation.NEXT)
    text.store("ptr", "null", block, Allocation.BEFORE)
    with text.only_if(text.value(f"icmp ne ptr {first}, null")):
        text.store("ptr", block, first, Allocation.BEFORE)
    text.store("ptr", block, "%frame", head.at)


def _release(text: LlvmText) -> None:
    """Say that no further task will need an allocation; null is none."""
    text.raw("define internal void @pypto.release(ptr %frame, ptr %data) {")
    text.require(text.value("icmp ne ptr %data, null"), "nothing")
    block = text.address("%data", -Allocation.BYTES)
    following, before = text.load("ptr", block, Allocation.NEXT), text.load("ptr", block, Allocation.BEFORE)
    with text.only_if(text.value(f"icmp ne ptr {following}, null")):
        text.store("ptr", before, following, Allocation.BEFORE)
    first = text.value(f"icmp eq ptr {before}, null")
    place = text.value(f"select i1 {first}, ptr {text.address('%frame', Frame.LIVE.at)}, ptr {before}")
    text.store("ptr", following, place, Allocation.NEXT)
    idle = text.value(f"icmp eq i64 {text.load('i64', '%frame', Frame.COUNT.at)}, 0")
    now, later = text.fresh("b"), text.fresh("b")
    text.branch(idle, now, later)
    text.label(now)
    text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {block})")
    text.raw("  ret void")
    text.label(later)
    _insert(text, block, Frame.RELEASED)
    text.raw("  ret void")
    text.label("nothing")
    text.raw("  ret void\n}\n")


def _free(text: LlvmText) -> None:
    """Free the allocations of a list."""
    text.raw("define internal void @pypto.free(ptr %frame, i64 %list) {")
    head = text.address("%frame", "%list")

    def one(values: list[str]) -> list[str]:
        following = text.load("ptr", values[0], Allocation.NEXT)
        text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {values[0]})")
        return [following]

    text.loop([("ptr", text.load("ptr", head))], lambda values: text.value(f"icmp ne ptr {values[0]}, null"), one)
    text.store("ptr", "null", head)
    text.raw("  ret void\n}\n")
