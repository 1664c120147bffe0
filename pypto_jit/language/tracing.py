"""What the language asks of the trace in progress. The frontend implements it; here nothing is known of MLIR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pypto_jit.dialects.operators import Operator
from pypto_jit.dtypes import DType
from pypto_jit.errors import ControlFlowError, PyptoError, Span, TraceError
from pypto_jit.language.location import user_span
from pypto_jit.signature import DynVar
from pypto_jit.targets import Target

if TYPE_CHECKING:
    from pypto_jit.dialects.types import TensorType
    from pypto_jit.language.expressions import Expression
    from pypto_jit.language.extents import Side
    from pypto_jit.language.scalars import Scalar
    from pypto_jit.language.values import Tensor, Tile


@dataclass
class Task:
    """A task being traced: a part of the kernel that runs as a kernel of its own, once for each of its blocks.

    Attributes:
        name: its author's name for it.
        id: its TaskId. Where the task has a predicate, it is only known once the task is closed.
        index: the number of the block, from 0.
        count: how many blocks there are.
        span: the user's line that began it.
    """

    name: str
    id: Scalar
    index: Scalar
    count: int | Scalar
    span: Span | None


class Trace(ABC):
    """A kernel being traced.

    Attributes:
        target: the machine the kernel is traced for.
    """

    target: Target

    @property
    @abstractmethod
    def task(self) -> Task | None:
        """The task being traced; None outside of tasks."""

    @abstractmethod
    def emit(
        self,
        row: Operator,
        operands: Sequence[Tensor | Tile | Scalar],
        attributes: dict[str, Any],
        indices: Sequence[int | Scalar] = (),
    ) -> Any:
        """Record one operator of the table.

        Args:
            row: the operator.
            operands: its operands but for indices; scalars already have the tile's dtype.
            attributes: what the row's rule reads: its attributes, and ``shape``, ``dtype``, ``space``, ``valid``.
            indices: the values of the row's ``indices`` operand.

        Returns:
            The resulting Tile; None where the operator has no result.

        Raises:
            PyptoError: the operands do not fit; the error points at the user's line.
        """

    @abstractmethod
    def constant(self, value: float, dtype: DType) -> Scalar:
        """A constant as a traced scalar."""

    @abstractmethod
    def scalar(self, name: str, operands: Sequence[Scalar], dtype: DType) -> Scalar:
        """Record scalar arithmetic.

        Args:
            name: ``add sub mul div floordiv min max lt le gt ge eq ne and or xor select cast``.
            operands: of one dtype, but for the condition of ``select`` (BOOL) and the operand of ``cast``.
            dtype: of the result.
        """

    @abstractmethod
    def at_most(self, left: int | Scalar, right: int | Scalar) -> bool:
        """Whether an integer is known never to exceed another, whatever the values of the loop variables."""

    @abstractmethod
    def distance(self, start: int | Scalar, end: int | Scalar) -> int | None:
        """How far one index lies behind another, where that is known to be a constant; of an end that is a minimum,
        by the part of it that is a constant away."""

    @abstractmethod
    def extent(self, tensor: Tensor, axis: int) -> Scalar:
        """The extent of a tensor that is only known at run time."""

    @abstractmethod
    def extents(self, tensor: Tensor) -> tuple[Side, ...]:
        """The extents of a tensor; of a view that ends before its shape does, those within it."""

    @abstractmethod
    def side(self, value: int | Scalar) -> Side:
        """An extent that is given as a number or a traced scalar."""

    @abstractmethod
    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The static shape of a tensor, with `DYNAMIC` where it is only known at run time."""

    # Tasks

    @abstractmethod
    def open_task(
        self,
        name: str,
        blocks: int | Scalar = 1,
        dependencies: Sequence[Scalar] = (),
        predicate: Scalar | None = None,
    ) -> Task:
        """Begin a task: what is recorded until `close_task` runs as a kernel of its own.

        Args:
            name: part of the name of the kernel.
            blocks: how many times it runs, with `Task.index` from 0.
            dependencies: TaskIds of tasks that end before it starts. What it reads and writes is ordered without them.
            predicate: a BOOL; where it is false when the kernel runs, the task does nothing.

        Raises:
            TraceError: another task is being traced.
        """

    @abstractmethod
    def close_task(self, task: Task) -> None:
        """End a task. What was made in it has no value any more."""

    @abstractmethod
    def submit(self, dependencies: Sequence[Scalar]) -> Scalar:
        """The TaskId of a task that does nothing but wait for others."""

    @abstractmethod
    def callee(self, function: Any) -> Any:
        """What to call instead of a function of the user's, so that its control flow is recorded."""

    # Tensors that are no parameters

    @abstractmethod
    def create_tensor(self, shape: Sequence[int | Scalar], dtype: DType, initial: float | None) -> Tensor:
        """A new tensor in global memory, of undefined contents where no initial value is given."""

    @abstractmethod
    def slice(
        self,
        tensor: Tensor,
        offsets: Sequence[int | Scalar],
        shape: Sequence[int],
        valid: Sequence[int | Scalar],
        axes: Sequence[int],
    ) -> Tensor:
        """The view of a box of a tensor.

        Args:
            tensor: which.
            offsets, shape, valid: of the box, one per dimension of the tensor; its valid part lies in the tensor.
            axes: the dimensions that the view has; the others have extent 1.
        """

    @abstractmethod
    def permute(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The view of a tensor with its dimensions in another order."""

    @abstractmethod
    def reshape(self, tensor: Tensor, shape: Sequence[Side]) -> Tensor:
        """The view of a contiguous tensor in another shape, of which all but the first extent are numbers."""

    @abstractmethod
    def restride(
        self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int], dims: Sequence[int] | None
    ) -> Tensor:
        """The view of a tensor's memory, from its first element on, under other extents and strides.

        Args:
            tensor: which.
            shape, strides: of the view, in elements; it lies inside of the tensor.
            dims: where the view has all of the tensor's elements and new dimensions of extent 1, the tensor's dimension
                of each of its own, -1 for a new one.
        """

    # Tensor-level work

    @abstractmethod
    def express(
        self,
        operation: str,
        operands: Sequence[Tensor | Scalar],
        attributes: Mapping[str, str | int | tuple[int, ...]],
        result: TensorType,
        sides: Sequence[Side] | None = None,
    ) -> Expression:
        """Record a tensor-level operation: ``map``, ``reduce``, ``product``, ``fill``, ``count`` or ``rearrange``.

        Args:
            operation: which.
            operands: tensors and scalars.
            attributes: of the operation.
            result: its type.
            sides: its extents, where some are only known when the kernel runs.
        """

    @abstractmethod
    def assign(self, value: Tensor, tensor: Tensor) -> None:
        """Record that a tensor in memory is given the values of another one, which broadcast to it."""

    @abstractmethod
    def settle(self, tensor: Tensor, value: Tensor) -> None:
        """Give an output that the call leaves out the type of what is assigned to all of it, if it has none yet.

        Raises:
            ShapeError: an extent that no argument tells.
        """

    @abstractmethod
    def permutation(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
        """What a tensor is with its dimensions in another order, and which these are; None where it is no such."""

    @abstractmethod
    def need_value(self, parameters: frozenset[str], why: str, cause: PyptoError | None = None) -> NoReturn:
        """Give up the trace: it is to be made again with these scalar parameters as constants.

        Args:
            parameters: their names.
            why: what needs their values.
            cause: the error where they are not to be constants.
        """
        raise NotImplementedError

    @abstractmethod
    def bind_dynamic(self, tensor: Tensor, axis: int, dim: DynVar) -> None:
        """Have the extent of a parameter's dimension be one that is only known at run time.

        Where it is not, the trace is given up, to be made again with that. A tensor that is no parameter stays as it
        is.

        Raises:
            TraceError: the dimension has another name.
        """

    @abstractmethod
    def unstaged(self, message: str, hint: str) -> ControlFlowError:
        """The error for Python control flow that reached a traced value without having been rewritten."""

    @abstractmethod
    def span(self) -> Span | None:
        """Where in the user's source the trace is."""


CURRENT: ContextVar[Trace | None] = ContextVar("pypto_jit_trace", default=None)


def current(what: str) -> Trace:
    """The trace in progress.

    Raises:
        TraceError: there is none, because ``what`` is used outside of a kernel.
    """
    trace = CURRENT.get()
    if trace is None:
        raise TraceError(
            f"{what} is used outside of a kernel",
            span=user_span(),
            hint="use it in a function decorated with @pypto.jit, and call that function with tensors",
        )
    return trace


def here() -> Span | None:
    """The user's line, inside or outside of a trace."""
    trace = CURRENT.get()
    return user_span() if trace is None else trace.span()
