"""Where a trace cannot go on without the values of scalar parameters, and has to be made again with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pypto_jit.errors import PyptoError, Span, TraceError
from pypto_jit.signature import DynVar, ValueNeeded

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder
    from pypto_jit.language.values import Tensor


class Needs:
    """What one trace needs.

    Attributes:
        needed: what was needed first; kept for when the user's code catches even this.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.needed: ValueNeeded | None = None
        # Of each tensor parameter, what names its extents.
        self.dims: dict[str, tuple[DynVar | None, ...]] = {}
        # The parameters that alone decide whether a variable of a file has a value, and the line of the `if`.
        self._decided: dict[tuple[str, str], tuple[frozenset[str], Span]] = {}

    def need(
        self, parameters: frozenset[str], span: Span | None, why: str, cause: PyptoError | None = None
    ) -> NoReturn:
        """Give up the trace: see `Trace.need_value`."""
        if self.needed is None:
            self.needed = ValueNeeded(parameters, span, why, cause)
        raise self.needed

    def bind(self, tensor: Tensor, axis: int, dim: DynVar) -> None:
        """As `Trace.bind_dynamic`."""
        known = self.dims.get(tensor.name)
        if known is None or tensor.root is not None or tensor.type is None:
            return
        before = known[axis] if known else None
        if before == dim:
            return
        span = self._builder.span()
        if before is not None:
            raise TraceError(
                f"dimension {axis} of '{tensor.name}' has two names", span=span, found=f"{before} and {dim}"
            )
        if self.needed is None:
            self.needed = ValueNeeded(
                frozenset(), span, f"bind_dynamic({axis}, {dim})", dims=((tensor.name, axis, dim),)
            )
        raise self.needed

    def note(self, span: Span, name: str, parameters: frozenset[str] | None) -> None:
        """Remember that these parameters alone decide whether a variable has a value after a recorded `if`."""
        if parameters:
            self._decided[span.filename, name] = parameters, span

    def check(self) -> None:
        """At the end of the trace: give it up if it was to be given up."""
        if self.needed is not None:
            raise self.needed

    def undefined(self, filename: str, name: str, error: PyptoError) -> None:
        """A variable without a value was read: give up the trace where parameters alone decide that."""
        decided = self._decided.get((filename, name))
        if decided is not None:
            self.need(*decided, f"an `if` that may leave '{name}' without a value", error)

    def arm(self, error: PyptoError) -> None:
        """Something went wrong: give up the trace in an arm that may not run, where parameters alone decide that."""
        for region in self._builder.regions:
            if region.parameters:
                self.need(region.parameters, region.span, "an `if` whose arms cannot both be recorded", error)
