"""One MLIR context with both dialects for the tests of this folder."""

from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.registration import register


@pytest.fixture(scope="session")
def context() -> ir.Context:
    context = ir.Context()
    context.enable_multithreading(False)
    register(context)
    return context
