"""Object code, linked by the system's linker, runs in a process that has no LLVM."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from functools import cache

import pytest

from pypto_jit.errors import LaunchError
from pypto_jit.runtime.linking import Linker, find_linker, link_shared, load_shared

needs_linker = pytest.mark.skipif(find_linker() is None, reason="no linker on this machine")

MODULE = """
@pypto_bindings = global [2 x i64] zeroinitializer
define i64 @pypto_entry(i64 %x) {
  %p = load ptr, ptr @pypto_bindings
  %y = call i64 %p(i64 %x)
  %z = mul i64 %y, 3
  ret i64 %z
}
"""


@cache
def object_code(text: str = MODULE) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(reloc="pic", codemodel="small").emit_object(llvm.parse_assembly(text))


def call(shared, function, value: int) -> int:
    """Run the entry with its table filled: 3 * function(value)."""
    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)
    table = (ctypes.c_int64 * 2).from_address(shared["pypto_bindings"])
    table[0] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(shared["pypto_entry"])
    return entry(value)


@needs_linker
def test_an_entry_calls_through_its_table():
    shared = load_shared(link_shared((object_code(),)))
    assert call(shared, lambda x: x + 4, 10) == 42


@needs_linker
def test_each_load_has_data_of_its_own():
    content = link_shared((object_code(),))
    first, second = load_shared(content), load_shared(content)
    assert first["pypto_bindings"] != second["pypto_bindings"]
    assert (call(first, lambda x: x, 1), call(second, lambda x: -x, 1)) == (3, -3)


@needs_linker
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler driver")
def test_a_compiler_driver_links_as_well():
    linker = Linker((shutil.which("cc"), "-shared", "-s", "-nostdlib"))
    assert call(load_shared(link_shared((object_code(),), linker)), lambda x: x, 5) == 15


@needs_linker
def test_loading_needs_no_compiler(tmp_path):
    (tmp_path / "kernel.so").write_bytes(link_shared((object_code(),)))
    script = """if 1:
        import ctypes, sys
        from pypto_jit.runtime.linking import load_shared
        shared = load_shared(open(sys.argv[1], 'rb').read())
        address = shared["pypto_entry"]
        print(address != 0, [m for m in ('llvmlite', 'mlir') if m in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "kernel.so")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True []"


@pytest.mark.parametrize("command", [("/nonexistent/ld",), (sys.executable, "-c", "raise SystemExit(1)")])
def test_a_linker_that_fails_gives_nothing(command):
    assert link_shared((object_code(),), Linker(command)) is None


@needs_linker
def test_what_is_no_object_does_not_link():
    assert link_shared((b"not an object",)) is None


def test_what_is_no_shared_object_does_not_load():
    with pytest.raises(LaunchError, match="does not load"):
        load_shared(b"\x7fELF" + bytes(100))


@needs_linker
def test_a_missing_symbol_is_an_error():
    shared = load_shared(link_shared((object_code(),)))
    with pytest.raises(LaunchError, match="no 'absent'"):
        shared["absent"]


@needs_linker
def test_code_that_needs_what_the_process_lacks_does_not_load():
    text = "declare i64 @surely_nowhere(i64)\ndefine i64 @pypto_entry(i64 %x) {\n"
    text += "  %y = call i64 @surely_nowhere(i64 %x)\n  ret i64 %y\n}\n"
    with pytest.raises(LaunchError, match="does not load"):
        load_shared(link_shared((object_code(text),)))
