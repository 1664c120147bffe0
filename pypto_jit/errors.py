"""One family of errors, each with a stable code, the user's line, what was found, what was expected and what to do.

A leaf module. Every error the package raises on purpose derives from `PyptoError`; an exception raised by the user's
own code while it is traced passes through unchanged.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A place in the user's source: 1-based line, 1-based columns (0 where unknown)."""

    filename: str
    line: int
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.filename}:{self.line}{column}"

    def excerpt(self) -> str:
        """The source line with a caret under it, or an empty string where the source is not available."""
        text = linecache.getline(self.filename, self.line).rstrip("\n")
        if not text.strip():
            return ""
        number = str(self.line)
        margin = " " * len(number)
        lines = [f"{margin} |", f"{number} | {text}"]
        if self.column:
            width = max(1, (self.end_column or self.column + 1) - self.column)
            lines.append(f"{margin} | {' ' * (self.column - 1)}{'^' * width}")
        return "\n".join(lines)


class PyptoError(Exception):
    """Base of the family.

    Args:
        message: one sentence in the user's words.
        span: where in the user's source.
        found, expected: the two sides of what does not fit.
        hint: what to write instead.
        notes: further lines, such as a list of buffers.
    """

    code = "PYPTO"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        found: object = None,
        expected: object = None,
        hint: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.found = found
        self.expected = expected
        self.hint = hint
        self.notes = notes

    def __reduce__(self) -> tuple:
        state = dict(self.__dict__)
        return (_restore, (type(self), self.message, state))

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}"]
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            excerpt = self.span.excerpt()
            if excerpt:
                lines.extend("  " + line for line in excerpt.splitlines())
        if self.found is not None:
            lines.append(f"  found:    {self.found}")
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        lines.extend(f"  note: {note}" for note in self.notes)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _restore(cls: type[PyptoError], message: str, state: dict) -> PyptoError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class ArgumentError(PyptoError, TypeError):
    """A call's arguments do not fit the kernel: count, names, kind, rank, dtype, shape, device."""

    code = "PYPTO-ARGUMENT"


class DTypeError(PyptoError, TypeError):
    """A dtype that the operator or the target does not have."""

    code = "PYPTO-DTYPE"


class ShapeError(PyptoError, ValueError):
    """Shapes, valid regions or offsets that do not fit each other."""

    code = "PYPTO-SHAPE"


class LayoutError(PyptoError, ValueError):
    """An explicit layout, memory space or move that the machine does not have."""

    code = "PYPTO-LAYOUT"


class CapacityError(PyptoError, ValueError):
    """The tiles alive at one moment do not fit a memory of the target."""

    code = "PYPTO-CAPACITY"


class DirectionError(PyptoError, ValueError):
    """A parameter used against its direction, or an output nobody writes."""

    code = "PYPTO-DIRECTION"


class UndefinedError(PyptoError, ValueError):
    """A value that is read before, or outside of where, it is defined."""

    code = "PYPTO-UNDEFINED"


class ControlFlowError(PyptoError, TypeError):
    """Python control flow on a traced value that cannot be staged."""

    code = "PYPTO-CONTROL-FLOW"


class SourceUnavailableError(ControlFlowError):
    """Control flow on a traced value in a function whose source cannot be read."""

    code = "PYPTO-NO-SOURCE"


class TraceError(PyptoError, TypeError):
    """An operator given operands it does not take, or used outside of a kernel."""

    code = "PYPTO-TRACE"


class MissingAttributeError(TraceError, AttributeError):
    """An attribute or a method that a tensor, a tile or a scalar does not have."""

    code = "PYPTO-ATTRIBUTE"


class DecoratorError(PyptoError, TypeError):
    """A function that cannot be a kernel: a reserved parameter name, a bad annotation, an unknown option."""

    code = "PYPTO-DECORATOR"


class RegistrationError(PyptoError, ValueError):
    """A kernel that cannot be registered with torch: its name, its parameters, its results, its backward."""

    code = "PYPTO-REGISTRATION"


class AssemblyError(PyptoError, ValueError):
    """A ``.pto`` text that is malformed, or that cannot be emitted for the target."""

    code = "PYPTO-ASSEMBLY"


class BoundsError(PyptoError, IndexError):
    """Found while the kernel ran: a load or store whose box leaves its tensor, or operands of unequal valid shapes."""

    code = "PYPTO-BOUNDS"


class RaceError(PyptoError, RuntimeError):
    """Found by ``check_races``: iterations of a parallel loop, or blocks, that depend on the order they run in."""

    code = "PYPTO-RACE"


class OptionError(PyptoError, ValueError):
    """An option with a value that does not exist, or that this entry point cannot honour."""

    code = "PYPTO-OPTION"


class LaunchError(PyptoError, RuntimeError):
    """A kernel that cannot be launched: no device, no runtime, out of memory."""

    code = "PYPTO-LAUNCH"


class InternalError(PyptoError, RuntimeError):
    """A fault of pypto_jit itself: please report it with the kernel."""

    code = "PYPTO-INTERNAL"
