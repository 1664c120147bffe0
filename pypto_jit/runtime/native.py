"""Loads object code into this process and makes its entry callable.

The object files of a kernel define one entry and the table of addresses the entry works with; the loader fills the
table. Code stays loaded for as long as its entry can be called.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.errors import LaunchError
from pypto_jit.runtime.door import door_values
from pypto_jit.runtime.linking import load_shared
from pypto_jit.runtime.threads import find_openmp

if TYPE_CHECKING:
    import tvm_ffi

_lock = threading.Lock()
_numbers = itertools.count()


@cache
def binding_values() -> tuple[int, ...]:
    """The table every entry of this process is given, in the order of `pypto_jit.abi.Binding`."""
    values = dict.fromkeys(Binding, 0)
    process = ctypes.CDLL(None)
    values[Binding.ALLOCATE] = ctypes.cast(process.aligned_alloc, ctypes.c_void_p).value or 0
    values[Binding.FREE] = ctypes.cast(process.free, ctypes.c_void_p).value or 0
    values[Binding.YIELD] = ctypes.cast(process.sched_yield, ctypes.c_void_p).value or 0
    openmp = find_openmp()
    if openmp is not None:
        values[Binding.PARALLEL] = openmp.parallel
        values[Binding.THREAD_NUM] = openmp.thread_num
        values[Binding.NUM_THREADS] = openmp.num_threads
    values.update(door_values())
    return tuple(values[slot] for slot in Binding)


@cache
def _linker() -> Any:
    """The process's one LLVM linker. Its own lock makes it safe for threads; creation is guarded by ours."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="small", jit=True)
    return llvm.create_lljit_compiler(machine)


class LoadedEntry:
    """An entry that can be called. Its code and table live as long as this object, or a function of it.

    Attributes:
        address: of the entry.
        door: address of the way in for torch tensors.
        table: what the entry works with, in the order of `pypto_jit.abi.Binding`.
    """

    def __init__(self, library: Any, release_gil: bool) -> None:
        """Args:
        library: gives the addresses of symbols, and keeps the code loaded while it lives.
        release_gil: whether other Python threads may run during a call.
        """
        self._library = library
        self._release_gil = release_gil
        self.address: int = library[abi.ENTRY_SYMBOL]
        self.door: int = library[abi.DOOR_SYMBOL]
        self.table: Any = (ctypes.c_uint64 * len(Binding)).from_address(library[abi.BINDING_SYMBOL])
        self.table[:] = binding_values()

    @cached_property
    def function(self) -> tvm_ffi.Function:
        """The entry as a function of tensors of any library; calls with torch tensors alone do without TVM-FFI."""
        import tvm_ffi

        function = tvm_ffi.Function.__from_extern_c__(self.address, keep_alive_object=self._library)
        function.release_gil = self._release_gil
        return function

    @property
    def calls(self) -> int:
        """How often the entry ran the kernel."""
        return self.table[Binding.CALLS]


def link(code: Sequence[bytes], symbols: Sequence[str]) -> Any:
    """Load object files that belong together; the result gives the addresses of symbols, and keeps the code loaded.

    Raises:
        LaunchError: they do not link.
    """
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_current_process()
    for each in code:
        builder.add_object_img(each)
    for symbol in symbols:
        builder.export_symbol(symbol)
    with _lock:
        try:
            return builder.link(_linker(), f"pypto{next(_numbers)}")
        except RuntimeError as error:
            raise LaunchError(f"object code does not link: {error}") from error


def load_code(code: Sequence[bytes], shared: bytes | None, symbols: Sequence[str]) -> Any:
    """Load a shared object where it loads, else the object files it was made of; as `link`.

    Raises:
        LaunchError: neither loads.
    """
    if shared is not None:
        with contextlib.suppress(LaunchError):
            loaded = load_shared(shared)
            if all(loaded[symbol] for symbol in symbols):
                return loaded
    return link(code, symbols)


def load_entry(code: Sequence[bytes], shared: bytes | None = None, *, release_gil: bool = True) -> LoadedEntry:
    """Load code and give its entry.

    Args:
        code: relocatable objects for this processor, among them one with the symbols `pypto_jit.abi` names.
        shared: a shared object of them, which is preferred where it loads.
        release_gil: whether other Python threads may run during a call; not worth it for a call of a microsecond.

    Raises:
        LaunchError: they do not link.
    """
    symbols = (abi.ENTRY_SYMBOL, abi.DOOR_SYMBOL, abi.BINDING_SYMBOL)
    return LoadedEntry(load_code(code, shared, symbols), release_gil)
