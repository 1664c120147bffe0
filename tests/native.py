"""Compiles and calls native code, for tests of the CPU engine below the runtime."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.codegen import emit_object
from pypto_jit.lowering.cpu.description import CpuDescription, host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter

_names = itertools.count()


@cache
def _jit() -> llvm.LLJIT:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


class NativeFunction:
    """A function of an object file; arguments are integers and arrays (passed by address)."""

    def __init__(self, code: bytes, symbol: str) -> None:
        builder = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(symbol).add_current_process()
        self._tracker = builder.link(_jit(), f"library{next(_names)}")
        self._address = self._tracker[symbol]

    def __call__(self, *arguments: int | np.ndarray) -> None:
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))
        values = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
        prototype(self._address)(*values)


def build_function(
    parameters: Sequence[str],
    body: Callable[[Emitter, list[ir.Value]], None],
    cpu: CpuDescription | None = None,
) -> NativeFunction:
    """A function whose body an emitter writes; parameters are ``ptr`` or ``i64``."""
    context = ir.Context()
    context.enable_multithreading(False)
    cpu = cpu or host_cpu()
    with context, ir.Location.unknown():
        types = ", ".join(f"%a{k}: {'!llvm.ptr' if p == 'ptr' else p}" for k, p in enumerate(parameters))
        module = ir.Module.parse(f"func.func @tested({types}) {{ return }}")
        block = module.body.operations[0].regions[0].blocks[0]
        emitter = Emitter(context, block, cpu)
        with ir.InsertionPoint.at_block_terminator(block):
            body(emitter, list(block.arguments))
        result = emit_object(module, cpu)
    return NativeFunction(result.object, "tested")


def map_function(
    function: Callable[[Emitter, ir.Value], ir.Value],
    source: str,
    target: str,
    cpu: CpuDescription | None = None,
    lanes: int | None = None,
) -> Callable[[np.ndarray, np.ndarray], None]:
    """``f(input, output)`` over arrays whose length is a multiple of the lanes; elements by MLIR name."""

    def body(e: Emitter, arguments: list[ir.Value]) -> None:
        width = lanes or e.lanes

        def step(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            size = int(source.lstrip("bfi")) // 8, int(target.lstrip("bfi")) // 8
            value = e.load(e.address(arguments[0], e.mul(index, size[0])), source, width)
            e.store(function(e, value), e.address(arguments[1], e.mul(index, size[1])))
            return carried

        e.loop(0, arguments[2], width, [], step)

    native = build_function(("ptr", "ptr", "i64"), body, cpu)

    def call(values: np.ndarray, results: np.ndarray) -> None:
        assert values.flags.c_contiguous and results.flags.c_contiguous and values.size % (lanes or 1) == 0
        native(values, results, values.size)

    return call
