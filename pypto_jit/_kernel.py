"""What the decorator returns, as type checkers and readers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from pypto_jit._specializations import CacheInfo
from pypto_jit.options import RunConfig
from pypto_jit.runtime.artifact import CompiledProgram

if TYPE_CHECKING:
    from pypto_jit._compiler import Stages
    from pypto_jit._costs import Explanation

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Kernel(Protocol[P, R_co]):
    """A jitted function: called as it was written, and with these besides."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def lower(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Stages:
        """The text of the kernel at each stage, for these arguments."""
        ...

    def explain(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Explanation:
        """The kernels that the function becomes for these arguments, and what they cost; print it."""
        ...

    def compile(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> CompiledProgram:
        """The compiled program for these arguments, without running it."""
        ...

    def interpret(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """Run in NumPy, operation by operation."""
        ...

    def cache_info(self) -> CacheInfo:
        """How often calls found a specialization."""
        ...

    def explain_last_miss(self) -> str:
        """What the last call that found no specialization has that the nearest one has not."""
        ...

    def cache_clear(self) -> None:
        """Forget every specialization."""
        ...
