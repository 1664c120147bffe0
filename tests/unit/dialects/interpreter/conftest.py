"""Runs one operator, or a whole module, in the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import ALL, DType
from pypto_jit.targets import A5, Space
from tests.module_text import ModuleText

DTYPES = {dtype.numpy: dtype for dtype in ALL}


@pytest.fixture
def run_module(context: ir.Context) -> Callable:
    """Parses the text of a module and interprets it on arrays."""

    def run(text: ModuleText | str, *arrays: numpy.ndarray) -> None:
        module = ir.Module.parse(str(text), context)
        assert module.operation.verify()
        interpret(module, arrays)

    return run


@pytest.fixture
def run_operator(run_module: Callable) -> Callable:
    """Loads two-dimensional arrays as whole tiles, runs one operator on them, and returns what it stores."""

    def run(
        name: str,
        *arrays: numpy.ndarray,
        scalar: tuple[object, str] | None = None,
        space: Space = Space.VEC,
        result: DType | None = None,
        **attributes: object,
    ) -> numpy.ndarray:
        text = ModuleText(A5)
        tensors = [text.tensor(array.shape, DTYPES[array.dtype]) for array in arrays]
        operands = [
            text.load(tensor, [0] * array.ndim, array.shape, space=space)
            for tensor, array in zip(tensors, arrays, strict=True)
        ]
        if scalar is not None:
            operands.append(text.constant(*scalar))
        made = text.operator(name, *operands, **attributes)
        assert isinstance(made.type, TileType)
        out = numpy.zeros(made.type.valid, (result or made.type.dtype).numpy)
        text.store(made, text.tensor(out.shape, result or made.type.dtype), [0] * out.ndim)
        run_module(text, *arrays, out)
        return out

    return run
