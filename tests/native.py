"""Compiles and calls native code, for tests of the CPU engine below the runtime."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import cache

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dialects.types import TensorType
from pypto_jit.dtypes import DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.codegen import emit_object
from pypto_jit.lowering.cpu.description import CpuDescription, host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.targets import A2A3, Target
from tests.module_text import ModuleText, Value

_names = itertools.count()


@cache
def _jit() -> llvm.LLJIT:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


class NativeFunction:
    """A function of object files; arguments are integers and arrays (passed by address)."""

    def __init__(self, code: Sequence[bytes], symbol: str) -> None:
        builder = llvm.JITLibraryBuilder().export_symbol(symbol).add_current_process()
        for each in code:
            builder.add_object_img(each)
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
    return NativeFunction(result.objects, "tested")


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
        assert values.flags.c_contiguous
        assert results.flags.c_contiguous
        native(values, results, values.size)

    return call


class Kernel:
    """A kernel of the ``pypto`` dialect, lowered by the whole pipeline and compiled, with its interpreter beside it.

    Args:
        text: the module (`tests.module_text.ModuleText`, or its text).
        cpu: the processor to compile for.
    """

    def __init__(self, text: object, target: Target = A2A3, cpu: CpuDescription | None = None) -> None:
        self.text = str(text)
        cpu = cpu or host_cpu()
        with borrowed_context() as context:
            module = ir.Module.parse(self.text, context)
            lower(module, target)
            self.pto = str(module)
            arguments = [_arguments(op) for op in functions(module.operation)]
            lowered = lower_to_cpu(module, cpu)
            self.lowered = str(module)
            self.checks = lowered.checks
            entries = [op for op in functions(module.operation) if "pypto.arena" in op.attributes]
            launches = [(str(op.attributes["sym_name"].value), op.attributes["pypto.arena"].value) for op in entries]
            result = emit_object(module, cpu)
        self.llvm = result.llvm
        self._functions = [
            (NativeFunction(result.objects, name), arena, given)
            for (name, arena), given in zip(launches, arguments, strict=True)
        ]

    def __call__(self, *arrays: np.ndarray, blocks: int = 1) -> int:
        """Run on arrays, which are written in place; the status (0, or the number of a failed check)."""
        status = np.zeros(1, np.int64)
        workspaces: dict[int, np.ndarray] = {}
        for function, arena, arguments in self._functions:
            values = [self._value(k, kind, detail, arrays, workspaces) for k, (kind, detail) in enumerate(arguments)]
            scratch = np.full(arena + 64, 0xFF, np.uint8)
            aligned = scratch[-scratch.ctypes.data % 64 :]
            for block in range(blocks):
                aligned[:] = 0xFF
                function(*values, block, blocks, aligned, status)
        return int(status[0])

    @staticmethod
    def _value(
        position: int, kind: str, detail: object, arrays: tuple[np.ndarray, ...], workspaces: dict[int, np.ndarray]
    ) -> int | np.ndarray:
        if kind == "workspace":
            assert isinstance(detail, int)
            return workspaces.setdefault(position - len(arrays), np.zeros(detail, np.uint8))
        if kind == "argument":
            return arrays[_number(detail)]
        name, axis = detail  # type: ignore[misc]
        array = arrays[_number(name)]
        return array.shape[axis] if kind == "dim" else array.strides[axis] // array.itemsize


def _number(name: object) -> int:
    """``p3`` is the fourth array."""
    return int(str(name)[1:])


def _arguments(function: ir.Operation) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for given in function.attributes["arg_attrs"]:
        (attribute,) = [a for a in given if a.name.startswith("pypto.")]
        value = attribute.attr
        if isinstance(value, ir.ArrayAttr):
            detail: object = (str(value[0].value), value[1].value)
        else:
            detail = value.value
        found.append((attribute.name.removeprefix("pypto."), detail))
    return found


def interpreted(text: object, *arrays: np.ndarray) -> None:
    """Run the interpreter on a module's text; arrays are written in place."""
    with borrowed_context() as context:
        interpret(ir.Module.parse(str(text), context), list(arrays))


def numbers(shape: Sequence[int], dtype: DType, seed: int = 3) -> np.ndarray:
    """Random values that make arithmetic interesting: mixed signs, some zeros, integers up to the whole range."""
    random = np.random.default_rng((seed, dtype.bits, *shape))
    if dtype.is_float:
        values = random.normal(size=shape) * np.exp(random.normal(size=shape))
        return np.where(random.random(shape) < 0.05, 0, values).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wide = random.integers(info.min, info.max, shape, endpoint=True)
    return np.where(random.random(shape) < 0.5, random.integers(-9, 9, shape), wide).astype(dtype.numpy)


def check(
    build: Callable[[ModuleText], None],
    arrays: Sequence[np.ndarray],
    *,
    target: Target = A2A3,
    blocks: int = 1,
    tolerance: float = 0.0,
) -> Kernel:
    """Compile what ``build`` writes and compare every array afterwards with the interpreter's.

    Args:
        tolerance: beyond two units in the last place, absolute and relative.
    """
    text = ModuleText(target)
    build(text)
    kernel = Kernel(text, target)
    mine, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    assert kernel(*mine, blocks=blocks) == 0
    interpreted(text, *theirs)
    for actual, wanted in zip(mine, theirs, strict=True):
        if actual.dtype.kind in "iu":
            np.testing.assert_array_equal(actual, wanted)
            continue
        unit = float(ml_dtypes.finfo(actual.dtype).eps)
        left, right = actual.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(left, right, rtol=unit * 2 + tolerance, atol=tolerance, equal_nan=True)
    return kernel


def whole(text: ModuleText, tensor: Value) -> Value:
    """A load of all of a tensor."""
    assert isinstance(tensor.type, TensorType)
    return text.load(tensor, [0] * tensor.type.rank, tensor.type.shape)
