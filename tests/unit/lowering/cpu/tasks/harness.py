"""Host functions and kernels as text in the ``pypto`` dialect, compiled with an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto_jit import abi
from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.codegen import compile_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.entry import EntryTensor, Host, Operand, entry_text
from pypto_jit.lowering.cpu.tasks.module import TaskModule, find_host, lower_tasks
from pypto_jit.lowering.pipeline import lower
from pypto_jit.runtime.native import load_entry
from pypto_jit.signature import TensorSpec
from pypto_jit.targets import A2A3
from tests.entries import dense

ORDERS = [(1, 0), (1, 3), (2, 0), (3, 11), (7, 123)]


def tensor(*shape: int, dtype: DType = FP32) -> str:
    """The MLIR type of a contiguous tensor."""
    spec = dense(*shape, dtype=dtype)
    return f"!pypto.tensor<{list(spec.shape)}, {dtype.mlir}, {list(spec.strides)}>"


def tile(rows: int, columns: int, dtype: DType = FP32) -> str:
    """The MLIR type of a tile in Vec."""
    return f'!pypto.tile<[{rows}, {columns}], {dtype.mlir}, "vec", [{rows}, {columns}]>'


def call(callee: str, *arguments: tuple[str, str]) -> str:
    """A call of a kernel with arguments: value and type."""
    lines = [f'"pypto.argument"({value}) : ({kind}) -> ()' for value, kind in arguments]
    return "\n".join([*lines, f'"pypto.call"() {{callee = "{callee}", task = "t"}} : () -> ()'])


def access(mode: str, value: str, kind: str, *corners: str) -> str:
    """What a task may touch."""
    types = ", ".join([kind, *["index"] * len(corners)])
    return f'"pypto.access"({", ".join([value, *corners])}) {{mode = "{mode}"}} : ({types}) -> ()'


def constants(*numbers: int) -> str:
    """Index constants ``%c0``, ``%c8``, ..."""
    return "\n".join(f"%c{n} = arith.constant {n} : index" for n in numbers)


class Program:
    """A compiled module; a call gives the status: None, or minus the number of the failed check.

    Args:
        text: of its functions.
        names: the host function's tensor parameters, and which of them are written.
    """

    def __init__(self, text: str, names: dict[str, tuple[TensorSpec, bool]]) -> None:
        with borrowed_context() as context:
            module = ir.Module.parse(f'module attributes {{pypto.target = "a2a3"}} {{\n{text}\n}}', context)
            lower(module, A2A3)
            host = find_host(module.operation)
            assert host is not None
            self.lowered: TaskModule = lower_tasks(module, host, host_cpu(), "kernel.")
        order = list(names)
        kinds = {"argument": "data", "dim": "extent", "stride": "stride"}
        operands = [Operand(kinds[a.kind], order.index(a.name), a.number) for a in self.lowered.host.arguments]
        tensors = [EntryTensor(spec, written=written) for spec, written in names.values()]
        function = Host(self.lowered.host.symbol, tuple(operands), self.lowered.kernels, self.lowered.host.table)
        code = compile_llvm_ir(self.lowered.text + entry_text(tensors, [], host=function), host_cpu())
        self._entry: Any = load_entry(code).function

    @property
    def messages(self) -> Sequence[str]:
        """Of the checks, in order."""
        return [message for _, message in self.lowered.checks]

    def __call__(self, *tensors: Any, threads: int = 2, shuffle: int = 0) -> Any:
        return self._entry(*tensors, threads, shuffle << abi.SHUFFLE)
