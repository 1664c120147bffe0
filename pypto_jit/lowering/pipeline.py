"""The pipeline: named passes from the traced module to planned tile buffers, verified after each.

`lower` is the one place that runs MLIR's pass manager on a traced module. The bindings have assertions on, so a module
is checked before it is handed to anything that would end the process over a mistake.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pypto_jit._mlir import MLIRError, PassManager, ir
from pypto_jit.errors import InternalError, PyptoError, Span
from pypto_jit.lowering.context import type_table
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.passes import (
    blocks,
    column_vectors,
    dead_code,
    destination,
    externs,
    launches,
    legalize_2d,
    outline,
    plan,
    rotation,
    spaces,
    stage,
    tensors,
    views,
)
from pypto_jit.lowering.spans import span_of_location
from pypto_jit.lowering.verify import verify_values
from pypto_jit.lowering.verify_buffers import verify_buffers
from pypto_jit.targets import Target

# Changes the module and says whether it did.
Run = Callable[[ir.Operation, Lowering], bool]
Dump = Callable[[str, str], None]
Timing = Callable[[str, float], None]


@dataclass(frozen=True)
class Pass:
    """One pass.

    Attributes:
        name: as in ``f.lower(...)`` and in profiles.
        level: what the module is in afterwards: ``values`` (as traced), ``flat`` (two-dimensional tiles), ``placed``
            (operands in the memories the machine reads), ``buffers``, ``planned`` (with addresses).
        run: our pass, or the names of upstream ones.
    """

    name: str
    level: str
    run: Run | str


PASSES: tuple[Pass, ...] = (
    Pass("cse", "values", "cse"),
    Pass("tensors", "values", tensors.run),
    Pass("outline", "values", outline.run),
    Pass("legalize-2d", "flat", legalize_2d.run),
    Pass("views", "flat", views.run),
    Pass("spaces", "flat", spaces.run),
    Pass("column-vectors", "placed", column_vectors.run),
    Pass("dead-code", "placed", dead_code.run),
    Pass("launches", "placed", launches.run),
    Pass("stage", "placed", stage.run),
    Pass("destination", "buffers", destination.run),
    Pass("canonicalize", "buffers", "canonicalize,cse"),
    Pass("rotation", "buffers", rotation.run),
    Pass("blocks", "buffers", blocks.run),
    Pass("plan", "planned", plan.run),
    Pass("externs", "planned", externs.run),
)


def lower(
    module: ir.Module,
    target: Target,
    *,
    dump: Dump | None = None,
    verify: bool = True,
    timing: Timing | None = None,
    passes: tuple[Pass, ...] = PASSES,
) -> ir.Module:
    """Lower a traced module to the ``pto`` dialect, in place.

    Args:
        module: a verified module in the ``pypto`` dialect, in a context of `pypto_jit.lowering.context`.
        target: the machine to lower for.
        dump: called with a pass's name and the module's text after it.
        verify: check the meaning of the module before the first and after each pass.
        timing: called with a pass's name and the seconds it took, verification left out.
        passes: the passes to run.

    Returns:
        The same module.

    Raises:
        PyptoError: the kernel cannot be lowered; the error names the user's line.
        InternalError: a pass failed in a way that is no fault of the kernel.
    """
    lowering = Lowering(target, type_table(module.context))
    with module.context:
        manager = _Steps(lowering, verify, dump, timing).manager(passes)
        trail: list[tuple[Span | None, str]] = []
        handler: Any = module.context.attach_diagnostic_handler(lambda d: _record(trail, d))
        try:
            if verify:
                verify_values(module.operation, lowering, flat=False, placed=False)
            manager.run(module.operation)
        except PyptoError:
            raise
        except MLIRError as error:
            for diagnostic in getattr(error, "error_diagnostics", ()):
                _record(trail, diagnostic)
            raise _explain(trail, "MLIR refused the lowered kernel") from error
        except Exception as error:
            raise _explain(trail, f"a pass failed: {type(error).__name__}: {error}") from error
        finally:
            handler.detach()
    return module


def _record(trail: list[tuple[Span | None, str]], diagnostic: Any) -> bool:
    trail.append((span_of_location(diagnostic.location), diagnostic.message))
    return True


def _explain(trail: list[tuple[Span | None, str]], cause: str) -> InternalError:
    span = next((span for span, _ in trail if span is not None), None)
    return InternalError(cause, span=span, notes=tuple(message for _, message in trail))


class _Steps:
    """The passes as callbacks of MLIR's pass manager, with the clock, the verifier and the dumps between them."""

    def __init__(self, lowering: Lowering, verify: bool, dump: Dump | None, timing: Timing | None) -> None:
        self._lowering = lowering
        self._verify = verify
        self._dump = dump
        self._timing = timing
        self._level = "values"
        self._start = 0.0

    def manager(self, passes: tuple[Pass, ...]) -> PassManager:
        manager = PassManager()
        # The verifier runs where a pass says that it changed something.
        manager.enable_verifier(False)
        for entry in passes:
            if isinstance(entry.run, str):
                manager.add(self._begin, f"before-{entry.name}")
                for name in entry.run.split(","):
                    manager.add(name)
            manager.add(self._step(entry), entry.name)
        return manager

    def _begin(self, op: ir.Operation, _: object) -> None:
        self._start = time.perf_counter()

    def _step(self, entry: Pass) -> Callable[[ir.Operation, object], None]:
        def step(op: ir.Operation, _: object) -> None:
            module = op.operation
            changed = True
            if not isinstance(entry.run, str):
                self._start = time.perf_counter()
                with ir.Location.unknown():
                    changed = entry.run(module, self._lowering)
            if changed:
                self._lowering.changed()
            if self._timing is not None:
                self._timing(entry.name, time.perf_counter() - self._start)
            if self._verify and (changed or entry.level != self._level):
                module.verify()
                _check(module, entry, self._lowering)
            self._level = entry.level
            if self._dump is not None:
                self._dump(entry.name, str(module.get_asm(enable_debug_info=False)))

        return step


def _check(module: ir.Operation, entry: Pass, lowering: Lowering) -> None:
    try:
        if entry.level in ("values", "flat", "placed"):
            verify_values(module, lowering, flat=entry.level != "values", placed=entry.level == "placed")
        else:
            verify_buffers(module, lowering, planned=entry.level == "planned")
    except PyptoError as error:
        error.notes = (*error.notes, f"found after the pass '{entry.name}'")
        raise
