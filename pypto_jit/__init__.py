"""Write tile kernels for Huawei's PTO machine in Python; run them on any CPU, at native speed."""

from pypto_jit._functions import jit
from pypto_jit._jit import interpret
from pypto_jit._kernel import Kernel
from pypto_jit._programs import CompiledEntries, Program
from pypto_jit._replay import load
from pypto_jit._specializations import CacheInfo
from pypto_jit._texts import compile
from pypto_jit.errors import (
    ArgumentError,
    AssemblyError,
    BoundsError,
    CapacityError,
    ControlFlowError,
    DecoratorError,
    DirectionError,
    DTypeError,
    InternalError,
    LaunchError,
    LayoutError,
    OptionError,
    PyptoError,
    RaceError,
    RegistrationError,
    ShapeError,
    SourceUnavailableError,
    Span,
    TraceError,
    UndefinedError,
)
from pypto_jit.options import Arch, BackendType, CompileOptions, DfxOptions, ExecutionMode, RunConfig
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.signature import Constant, ParamInfo, TensorSpec
from pypto_jit.torch_library import torch_op

__version__ = "0.1.0"

__all__ = [
    "Arch",
    "ArgumentError",
    "AssemblyError",
    "BackendType",
    "BoundsError",
    "CacheInfo",
    "CapacityError",
    "CompileOptions",
    "CompiledEntries",
    "CompiledProgram",
    "Constant",
    "ControlFlowError",
    "DTypeError",
    "DecoratorError",
    "DfxOptions",
    "DirectionError",
    "ExecutionMode",
    "InternalError",
    "Kernel",
    "LaunchError",
    "LayoutError",
    "OptionError",
    "ParamInfo",
    "Program",
    "PyptoError",
    "RaceError",
    "RegistrationError",
    "RunConfig",
    "ShapeError",
    "SourceUnavailableError",
    "Span",
    "TensorSpec",
    "TraceError",
    "UndefinedError",
    "compile",
    "interpret",
    "jit",
    "load",
    "torch_op",
]
