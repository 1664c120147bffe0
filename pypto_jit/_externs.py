"""What `jit.extern` stands for: assembly from a text or a file, read when the decorator runs."""

from __future__ import annotations

import dis
from pathlib import Path
from types import FunctionType

from pypto_jit.errors import DecoratorError, Span

CORES = ("aic", "aiv", "mixed")
# What a body of `...`, `pass` or a docstring alone compiles to.
_EMPTY = frozenset({"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "COPY_FREE_VARS"})


def check_core(core_type: object) -> None:
    """Raise a DecoratorError where there is no such core."""
    if core_type not in CORES:
        raise DecoratorError(
            "@pypto.jit.extern(core_type=...) says which core runs the assembly",
            found=repr(core_type),
            expected="'aic' (cube), 'aiv' (vector) or 'mixed'",
        )


def read_source(stub: FunctionType, source: object, core_type: str) -> tuple[str, str, str]:
    """Text, filename (empty for a text) and core of the assembly that a function stands for.

    Raises:
        DecoratorError: the function has a body, or the file cannot be read.
    """
    span = Span(stub.__code__.co_filename, stub.__code__.co_firstlineno)
    instructions = list(dis.get_instructions(stub))
    returned = [i.argval for i in instructions if i.opname in ("LOAD_CONST", "RETURN_CONST")]
    if any(i.opname not in _EMPTY for i in instructions) or returned != [None]:
        raise DecoratorError(
            f"'{stub.__name__}' has a body, and stands for assembly",
            span=span,
            expected="a body of ... alone: the assembly is what is run",
        )
    if isinstance(source, str) and ("\n" in source or "func.func" in source):
        return source, "", core_type
    if not isinstance(source, (str, Path)):
        raise DecoratorError(
            "@pypto.jit.extern(source=...) takes a path or a text", span=span, found=f"a {type(source).__qualname__}"
        )
    here = Path(stub.__code__.co_filename)
    path = (here.parent if here.is_file() else Path()) / source
    try:
        return path.read_text(encoding="utf-8"), str(path), core_type
    except (OSError, UnicodeDecodeError) as error:
        raise DecoratorError(
            "the assembly cannot be read", span=span, found=f"{path}: {getattr(error, 'strerror', None) or error}"
        ) from None
