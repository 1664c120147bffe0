"""A module cut into parts does what the whole does."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_jit.lowering.cpu.codegen import _compile_part, compile_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.partition import partition
from tests.native import NativeFunction

MODULE = """source_filename = "test"
@pypto_table = global [2 x i64] [i64 7, i64 11]
@hundred = internal constant [1 x i64] [i64 100]
@called = internal constant [1 x ptr] [ptr @times.three]

define internal i64 @times.three(i64 noundef %0) #0 {
  %2 = call i64 @llvm.smax.i64(i64 %0, i64 %0)
  %3 = mul i64 %2, 3
  ret i64 %3
}

define internal i64 @"plus hundred"(i64 %x, ptr captures(none) %unused) {
  %more = load i64, ptr @hundred
  %sum = add i64 %x, %more
  ret i64 %sum
}

declare i64 @llvm.smax.i64(i64, i64) #1

define void @outer(ptr %at) {
  %x = load i64, ptr %at
  %y = call i64 @"plus hundred"(i64 %x, ptr null)
  %f = load ptr, ptr @called
  %z = call i64 %f(i64 %y)
  %second.at = getelementptr i64, ptr @pypto_table, i64 1
  %second = load i64, ptr %second.at
  %all = add i64 %z, %second
  store i64 %all, ptr %at
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
"""


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_parts_do_what_the_whole_does(parts):
    import llvmlite.binding as llvm

    compile_llvm_ir("", host_cpu())
    texts = partition(MODULE, lines=1, parts=parts)
    assert len(texts) == min(parts, 3)
    objects = [_compile_part(llvm, text, host_cpu(), 2) for text in texts]
    place = np.array([5], np.int64)
    NativeFunction(objects, "outer")(place)
    assert place.tolist() == [3 * (5 + 100) + 11]


def test_parts_define_each_function_once_and_share_what_was_internal():
    first, *others = partition(MODULE, lines=1, parts=3)
    whole = "".join([first, *others])
    for head in ("define hidden i64 @times.three(", 'define hidden i64 @"plus hundred"(', "define void @outer("):
        assert whole.count(head) == 1
    assert "@hundred = hidden constant" in first
    assert "@pypto_table = global" in first
    for other in others:
        assert "@pypto_table = external global i8" in other
        assert "@hundred = external hidden global i8" in other


def test_a_small_module_is_left_whole():
    assert partition(MODULE) == (MODULE,)


def test_a_module_written_otherwise_is_left_whole():
    text = MODULE + "define i64 @one() { ret i64 1 }\n"
    assert partition(text, lines=1) == (text,)


def test_large_kernels_are_compiled_in_parts_and_run():
    """The functions are as many as a model has, and each calls the next one."""
    count = 60
    functions = [
        f"define internal i64 @f{k}(i64 %x) {{\n"
        + "".join(f"  %v{n} = add i64 {f'%v{n - 1}' if n else '%x'}, {n}\n" for n in range(20))
        + (f"  %y = call i64 @f{k + 1}(i64 %v19)\n  ret i64 %y\n}}\n" if k < count - 1 else "  ret i64 %v19\n}\n")
        for k in range(count)
    ]
    run = "  %x = load i64, ptr %at\n  %y = call i64 @f0(i64 %x)\n  store i64 %y, ptr %at\n  ret void\n"
    text = "".join([*functions, f"define void @run(ptr %at) {{\n{run}}}\n"])
    objects = compile_llvm_ir(text, host_cpu())
    assert len(objects) > 1
    assert objects == compile_llvm_ir(text, host_cpu())
    place = np.array([1], np.int64)
    NativeFunction(objects, "run")(place)
    assert place.tolist() == [1 + count * sum(range(20))]
