"""What rewritten code calls: it keeps Python's meaning for plain values and records control flow on traced ones."""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import pypto_jit.language
from pypto_jit.errors import ControlFlowError, DirectionError, TraceError
from pypto_jit.frontend.branches import Branch
from pypto_jit.frontend.builder import Builder
from pypto_jit.frontend.calls import caller_of, kernel_of
from pypto_jit.frontend.liveness import Flow
from pypto_jit.frontend.loops import CountedLoop, Repetition
from pypto_jit.frontend.rewrite import Rewriter
from pypto_jit.frontend.structures import UNDEFINED
from pypto_jit.language.contents import UnguardableError, check_callable
from pypto_jit.language.control import Range
from pypto_jit.language.location import is_third_party
from pypto_jit.language.needs import need
from pypto_jit.language.reads import underlying
from pypto_jit.language.scalars import Scalar, fold
from pypto_jit.language.tracing import CURRENT
from pypto_jit.language.values import Tile

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}
_CHOICE = "... if ... else ..."
_CHOICE_FLOW = Flow((_CHOICE,), (), frozenset(), frozenset({_CHOICE}), frozenset(), ())


def _builder() -> Builder:
    builder = CURRENT.get()
    assert isinstance(builder, Builder)
    return builder


def _flow(encoded: tuple[Any, ...]) -> Flow:
    _, bound, targets, exposed, after, read, jumps, exits, raises = encoded
    return Flow(bound, targets, frozenset(exposed), frozenset(after), frozenset(read), jumps, exits, raises)


def _refuse_jumps(builder: Builder, flow: Flow, what: str) -> None:
    if not flow.jumps:
        return
    keyword, line = flow.jumps[0]
    span = builder.span()
    hints = {
        "break": "bound the loop by a computed count, or put the rest of the body under an `if`",
        "continue": "put the rest of the body under an `if`",
        "return": "bind the result to a variable, and return it at the end of the kernel",
        "yield": "a generator cannot be recorded: collect values in a list outside of the loop",
    }
    raise ControlFlowError(
        f"`{keyword}` cannot leave {what}, which is recorded rather than run",
        span=None if span is None else type(span)(span.filename, line),
        hint=hints[keyword],
    )


def _refuse_raise(builder: Builder, flow: Flow) -> None:
    if flow.raises is not None:
        span = builder.span()
        raise ControlFlowError(
            "`raise` cannot depend on a traced value: no exception leaves a running kernel",
            span=None if span is None else type(span)(span.filename, flow.raises),
            hint="check what is known while tracing, or check it where the kernel is called",
        )


def _recordable(flow: Flow) -> Builder:
    builder = _builder()
    _refuse_jumps(builder, flow, "a `while` on a traced value")
    return builder


def _condition(value: Any) -> Any:
    """A traced BOOL, or a Python bool."""
    if isinstance(value, Scalar):
        return value if value.dtype.kind == "bool" else value != 0
    return bool(value)


def _combine(name: str, left: Scalar, right: Callable[[], Any]) -> Any:
    """``left and right()``, or ``or``: the right operand is only worked out where the left one does not decide."""
    builder = _builder()
    branch = Branch(builder, _condition(left), _CHOICE_FLOW, builder.span(), expression=True)
    branch.enter({})
    then = _operand(name, right()) if name == "and" else True
    branch.turn({_CHOICE: then})
    other = False if name == "and" else _operand(name, right())
    return branch.results({_CHOICE: other})[0]


def _operand(name: str, value: Any) -> Any:
    if not isinstance(value, (Scalar, bool)):
        raise ControlFlowError(
            f"`{name}` of a traced scalar takes conditions",
            span=_builder().span(),
            found=value,
            hint="compare explicitly, for example x != 0",
        )
    return _condition(value)


def _min_max(name: str) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        values = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if not kwargs and any(isinstance(value, Scalar) for value in values):
            return fold(name, tuple(values))
        return plain(*args, **kwargs)

    return function


def _is_instance(value: Any, kinds: Any) -> bool:
    """`isinstance`, for which a scalar parameter is what the call gave: a number of Python's."""
    if isinstance(value, Scalar) and value.parameters:
        return isinstance(value, kinds) or issubclass(_number_type(value), kinds)
    return isinstance(value, kinds)


def _type_of(value: Any) -> type:
    return _number_type(value) if isinstance(value, Scalar) and value.parameters else type(value)


def _number_type(value: Scalar) -> type:
    return float if value.dtype.is_float else bool if value.dtype.kind == "bool" else int


_REPLACED: dict[Any, Callable[..., Any]] = {
    builtins.min: _min_max("min"),
    builtins.max: _min_max("max"),
    builtins.isinstance: _is_instance,
}


class Hooks:
    """The methods that rewritten code calls."""

    UNDEFINED = UNDEFINED
    locals = staticmethod(builtins.locals)

    def loop(self, items: Any, encoded: tuple[Any, ...]) -> tuple[Any, CountedLoop | None]:
        """What to iterate over, and the recorded loop if it is one."""
        if not isinstance(items, Range):
            return items, None
        builder, flow = _builder(), _flow(encoded)
        _refuse_jumps(builder, flow, f"a {items.name} loop")
        loop = CountedLoop(builder, items, flow, builder.span())
        return loop.items(), loop

    def repetition(self, encoded: tuple[Any, ...]) -> Repetition:
        """The hooks of one ``while``."""
        return Repetition(_flow(encoded), _recordable)

    def left(self, *jumps: Any) -> bool:
        """Whether a loop is left for good, in Python."""
        return any(jump is True for jump in jumps)

    def branch(self, test: Any, encoded: tuple[Any, ...]) -> tuple[bool, Branch | None]:
        """Whether to run the first arm, and the recorded branch if it is one."""
        condition = _condition(test)
        if isinstance(condition, bool):
            return condition, None
        builder, flow = _builder(), _flow(encoded)
        if flow.jumps:
            need(condition, f"an `if` with a `{flow.jumps[0][0]}`")
        _refuse_jumps(builder, flow, "an `if` on a traced value")
        _refuse_raise(builder, flow)
        return True, Branch(builder, condition, flow, builder.span())

    # Loops with init_values, which `yields` rewrites

    def initial(self, items: Any, arity: int) -> tuple[Any, ...]:
        """The first of the values that a loop carries."""
        values = getattr(items, "init_values", None)
        if values is None:
            raise ControlFlowError(
                "this loop carries no values", span=_builder().span(), found=items, expected="pl.range and its kin"
            )
        self._check_count(items, len(values) if arity < 0 else arity, "names")
        return values

    def given(self, items: Any, count: int, value: Any) -> tuple[Any, ...]:
        """What ``pl.yield_`` hands to the next iteration."""
        values = value if count > 1 or (count < 0 and isinstance(value, tuple)) else (value,)
        self._check_count(items, len(values) if count else 0, "values in pl.yield_")
        return values if count else ()

    def _check_count(self, items: Any, found: int, what: str) -> None:
        expected = len(items.init_values)
        if found != expected:
            raise ControlFlowError(
                f"{items.name} carries as many values as it has init_values",
                span=_builder().span(),
                found=f"{found} {what}",
                expected=f"{expected}, as in init_values",
            )

    def single(self, values: tuple[Any, ...]) -> Any:
        """What a name alone is bound to: a single value itself, or the tuple of several."""
        return values[0] if len(values) == 1 else values

    def yield_last(self, items: Any) -> None:
        """At the end of a body that yields nothing."""
        raise ControlFlowError(
            f"the body of a {items.name} loop with init_values ends in pl.yield_",
            span=_builder().span(),
            hint="end it with `a, b = pl.yield_(x, y)`, or leave init_values out and rebind the names",
        )

    def condition_first(self, items: Any) -> None:
        """At the start of a ``pl.while_`` body that has no condition."""
        raise ControlFlowError(
            "the body of a pl.while_ loop begins with pl.cond",
            span=_builder().span(),
            hint="write `pl.cond(condition)` as its first statement, or use a `while` statement",
        )

    def callee(self, function: Any) -> Any:
        """What to call: a user's function is rewritten in turn."""
        kind = type(function)
        if kind not in (FunctionType, MethodType):
            return self._other_callee(function)
        builder = CURRENT.get()
        kernel = kernel_of(function)
        if kernel is not None and isinstance(builder, Builder):
            return caller_of(builder, kernel)
        original = underlying(function)
        if original is None or not isinstance(builder, Builder) or not _is_users(original):
            return _checked(function)
        builder.helpers.add(original)
        rewritten = builder.rewriter.rewrite(original)
        return MethodType(rewritten, function.__self__) if kind is MethodType else rewritten

    def _other_callee(self, function: Any) -> Any:
        if type(function) is type(len):
            return _REPLACED.get(function) or _checked(function)
        if isinstance(function, type):
            return _type_of if function is type else _checked(function)
        if isinstance(function, functools.partial):
            return functools.partial(self.callee(function.func), *function.args, **function.keywords)
        original = underlying(function)
        if original is not None:
            return self.callee(original)
        method = vars(type(function)).get("__call__")
        if isinstance(method, FunctionType) and underlying(method) is not None:
            return self.callee(MethodType(method, function))
        return function

    def choose(self, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """A conditional expression."""
        condition = _condition(test)
        if isinstance(condition, bool):
            return then() if condition else other()
        builder = _builder()
        branch = Branch(builder, condition, _CHOICE_FLOW, builder.span(), expression=True)
        branch.enter({})
        branch.turn({_CHOICE: then()})
        return branch.results({_CHOICE: other()})[0]

    def conjunction(self, value: Any, *rest: Callable[[], Any]) -> Any:
        """``a and b and ...``."""
        for operand in rest:
            if isinstance(value, Scalar):
                value = _combine("and", value, operand)
            elif not value:
                return value
            else:
                value = operand()
        return value

    def disjunction(self, value: Any, *rest: Callable[[], Any]) -> Any:
        """``a or b or ...``."""
        for operand in rest:
            if isinstance(value, Scalar):
                value = _combine("or", value, operand)
            elif value:
                return value
            else:
                value = operand()
        return value

    def negation(self, value: Any) -> Any:
        """``not a``."""
        condition = _condition(value)
        return not condition if isinstance(condition, bool) else ~condition

    def chain(self, names: tuple[str, ...], left: Any, right: Any, *rest: Callable[[], Any]) -> Any:
        """``a < b < c``."""
        result = _OPERATORS[names[0]](left, right)
        for name, operand in zip(names[1:], rest, strict=True):
            if not isinstance(result, Scalar) and not result:
                return result
            left = right

            def compare(name: str = name, left: Any = left, operand: Callable[[], Any] = operand) -> Any:
                nonlocal right
                right = operand()
                return _OPERATORS[name](left, right)

            result = _combine("and", result, compare) if isinstance(result, Scalar) else compare()
        return result

    def rebound(self, name: str, value: Any) -> None:
        """After an assignment to a parameter: an output that is rebound to a tile was meant to be written."""
        if not isinstance(value, Tile):
            return
        builder = CURRENT.get()
        if not isinstance(builder, Builder) or sys._getframe(1).f_code is not builder.kernel_code:
            return
        builder.rebound.setdefault(name, builder.span())
        if name in builder.outputs:
            raise DirectionError(
                f"'{name} = ...' binds the name and writes nothing to the output",
                span=builder.span(),
                found=value,
                expected=f"a store to '{name}'",
                hint=f"write it: pl.store(tile, {[0] * value.ndim}, {name})",
            )


def _checked(function: Any) -> Any:
    """A function of a library, unless what it gives can be guarded by nothing."""
    try:
        check_callable(function)
    except UnguardableError as error:
        builder = CURRENT.get()
        if not isinstance(builder, Builder):
            return function
        name = getattr(function, "__name__", type(function).__name__)
        raise TraceError(
            f"kernel code calls '{name}', {error}",
            span=builder.span(),
            hint="call it outside of the kernel, and pass the result as an argument",
        ) from None
    return function


def _is_users(function: FunctionType) -> bool:
    """Whether a function is kernel code: the user's own, or that of an installed package that uses the language."""
    if not is_third_party(function.__code__.co_filename):
        return True
    return any(value is pypto_jit.language for value in function.__globals__.values())


REWRITER = Rewriter(Hooks())
