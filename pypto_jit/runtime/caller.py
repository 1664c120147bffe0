"""Writes the Python function that a user calls: the kernel's own signature around the native entry.

A generated function costs half of what a ``__call__(*args, **kwargs)`` method does. It is one function object for the
life of the kernel, and its code is replaced when other specializations become hot. The code tries a few, and for each
holds what the entry cannot see: constants, recorded reads, whether gradients are recorded, and which library a tensor
is of. Whatever does not fit, and every exception, leads to the slow path, which finds or makes the right specialization
or says what is wrong.

The objects the code works with are constants of the code object, so that one assignment replaces all at once, also
under the feet of other threads, and so that the function's globals are the kernel's own: a recorded read of a global is
then the same lookup the kernel would do.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import math
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakMethod

import numpy
import torch

from pypto_jit.dtypes import DType
from pypto_jit.runtime.arguments import FOREIGN, NUMPY, OMITTED, SUBCLASS, TORCH, constant_key
from pypto_jit.runtime.artifact import Returns
from pypto_jit.runtime.threads import thread_count

ALLOCATED = "allocated"


@dataclass(frozen=True)
class Guard:
    """A condition under which a specialization holds.

    Attributes:
        template: a Python expression over parameters and the kernel's globals; ``{0}``, ``{1}``, ... are the values.
        values: what the expression refers to besides.
    """

    template: str
    values: tuple[Any, ...] = ()


def constant_guard(name: str, value: Any) -> Guard:
    """The condition that an argument is this constant, by type and bits."""
    kind = type(value)
    if value is None or kind is bool or kind is DType or isinstance(value, type) or callable(value):
        return Guard(f"{name} is {{0}}", (value,))
    if kind is float and (value == 0 or math.isnan(value)):
        pack = struct.Struct("<d").pack
        return Guard(f"{{0}}({name}) is {{1}} and {{2}}({name}) == {{3}}", (type, float, pack, pack(value)))
    if kind in (int, float, str):
        return Guard(f"{{0}}({name}) is {{1}} and {name} == {{2}}", (type, kind, value))
    return Guard(f"{{0}}('{name}', {name}) == {{1}}", (constant_key, constant_key(name, value)))


@dataclass(frozen=True, eq=False)
class HotPath:
    """What the generated code does without the slow path's help.

    Attributes:
        entry: the native entry.
        tensors: name and kind (library, or `ALLOCATED` for an output that the call leaves out) of each, in order.
        scalars: names of the scalars, in order.
        guards: what else must hold.
        written: names of the tensors written.
        returns: which tensors a call returns, as in an artifact.
        parallel: whether the entry takes a thread count.
        allocators: name of each allocated output, what allocates it, and the names of what that is given.
        sees_torch: whether the entry checks what DLPack hides of torch's tensors, and counts their versions up.
        threads: None: as many as torch uses.
        destinations: names of the results that the call gives tensors for, in ``out=``.
    """

    entry: Callable[..., Any]
    tensors: tuple[tuple[str, str], ...]
    guards: tuple[Guard, ...]
    written: frozenset[str]
    returns: Returns
    parallel: bool
    sees_torch: bool
    allocators: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = ()
    threads: int | None = None
    scalars: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()


class HotPaths:
    """The few paths that the generated code tries in order; all others take the slow path.

    A path is admitted while there is room. Later it replaces the oldest once it has taken the slow path often enough to
    make up for the code to be generated.
    """

    MOST = 4
    PATIENCE = 16

    def __init__(self) -> None:
        self.paths: list[HotPath] = []
        self._waiting: dict[HotPath, int] = {}

    def admit(self, path: HotPath) -> bool:
        """Note that a path took the slow path; whether the paths to try have changed."""
        if path in self.paths:
            return False
        if len(self.paths) == self.MOST:
            self._waiting[path] = self._waiting.get(path, 0) + 1
            if self._waiting[path] < self.PATIENCE:
                return False
            self._waiting.clear()
            self.paths.pop(0)
        self.paths.append(path)
        return True

    def drop(self, paths: Collection[HotPath]) -> bool:
        """Try these no more; whether any was tried."""
        kept = [path for path in self.paths if path not in paths]
        dropped = len(kept) < len(self.paths)
        self.paths = kept
        for path in paths:
            self._waiting.pop(path, None)
        return dropped


class _Source:
    """Lines of source, and the objects that stand-ins in them are replaced by.

    A stand-in is a string constant, which the compiled code holds once. It reaches a call or a comparison through an
    assignment expression, since Python warns of literals there.
    """

    def __init__(self, prefix: str) -> None:
        self._temporary = f"{prefix}object"
        self.objects: dict[str, Any] = {}

    def constant(self, value: Any) -> str:
        """An expression for the object."""
        stand_in = f"<object {len(self.objects)}>"
        self.objects[stand_in] = value
        return f"({self._temporary} := {stand_in!r})"

    def expression(self, guard: Guard) -> str:
        """A guard's condition."""
        return guard.template.format(*map(self.constant, guard.values))


def count_versions(tensors: Sequence[torch.Tensor]) -> None:
    """Tell autograd that tensors were written, as torch's in-place operators do; inference tensors have no count."""
    torch._C._increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def _hide_from_torch_compile(code: CodeType) -> None:
    """Let torch.compile run the code as it is, with all it calls: its constants are no literals."""
    try:
        frames: Any = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    except (AttributeError, TypeError):
        # Another torch; there, compiled code that calls a kernel is decorated with torch.compiler.disable.
        return


def _expression(returns: Returns, local: Mapping[str, str]) -> str:
    if isinstance(returns, str):
        return local.get(returns, returns)
    return "(" + "".join(f"{_expression(item, local)}, " for item in returns) + ")"


class GeneratedCaller:
    """The function of one kernel.

    Attributes:
        function: what the user calls.
    """

    _numbers = itertools.count()

    def __init__(self, function: Callable[..., Any], slow: Callable[..., Any]) -> None:
        """Args:
        function: the kernel; its name, globals and signature are taken over. Nothing is required in the signature of
            the generated function: the slow path says what is missing.
        slow: called with the values of all parameters, the tuple of surplus arguments, and the dictionary of named
            arguments that are no parameters; ``config`` is one of these, because a parameter would cost each call. The
            object of a method must be kept by others.
        """
        self._parameters = list(inspect.signature(function).parameters.values())
        self._name = function.__name__ if function.__name__.isidentifier() else "kernel"
        prefix = "_pypto_"
        while any(parameter.name.startswith(prefix) for parameter in self._parameters):
            prefix = "_" + prefix
        self._prefix = prefix
        self._names = frozenset(parameter.name for parameter in self._parameters)
        # The garbage collector does not look into code, and would never free a kernel that its own code holds.
        self._slow = WeakMethod(slow) if isinstance(slow, MethodType) else lambda: slow
        self._filename = f"<pypto_jit caller {next(self._numbers)} of {self._name}>"
        source = _Source(prefix)
        self._cold = self._compile(source, [f"return {self._slow_call(source)}"])
        self.function = FunctionType(self._cold, getattr(function, "__globals__", {}), self._name)
        positional = [p for p in self._parameters if p.kind is not p.KEYWORD_ONLY]
        self.function.__defaults__ = tuple(OMITTED if p.default is p.empty else p.default for p in positional)
        named = {p.name: OMITTED if p.default is p.empty else p.default for p in self._parameters[len(positional) :]}
        self.function.__kwdefaults__ = named or None

    def _header(self) -> str:
        positional = [p for p in self._parameters if p.kind is not p.KEYWORD_ONLY]
        parts = [f"{p.name}=0" for p in positional]
        only = sum(p.kind is p.POSITIONAL_ONLY for p in positional)
        if only:
            parts.insert(only, "/")
        parts.append(f"*{self._prefix}extra")
        parts += [f"{p.name}=0" for p in self._parameters[len(positional) :]]
        return f"def {self._name}({', '.join([*parts, f'**{self._prefix}named'])}):"

    def _slow_call(self, source: _Source) -> str:
        p = self._prefix
        values = "".join(f"{parameter.name}, " for parameter in self._parameters)
        return f"{source.constant(self._slow)}()(({values}), {p}extra, {p}named)"

    def _compile(self, source: _Source, lines: list[str]) -> CodeType:
        text = "\n".join([self._header(), *("    " + line for line in lines)]) + "\n"
        linecache.cache[self._filename] = (len(text), None, text.splitlines(keepends=True), self._filename)
        module = compile(text, self._filename, "exec", dont_inherit=True)
        code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
        constants = tuple(source.objects.get(c, c) if type(c) is str else c for c in code.co_consts)
        code = code.replace(co_consts=constants)
        _hide_from_torch_compile(code)
        return code

    def install(self, paths: Sequence[HotPath]) -> None:
        """Make these what a call tries, in order; none: take every call to the slow path. Safe while others call."""
        self.function.__code__ = self._hot(paths) if paths else self._cold

    def _hot(self, paths: Sequence[HotPath]) -> CodeType:
        p, source = self._prefix, _Source(self._prefix)
        # Those that are told apart at a glance come first: a call with other tensors passes them by.
        paths = sorted(paths, key=lambda path: all(kind in (TORCH, SUBCLASS) for _, kind in path.tensors))
        lines = []
        for given in (False, True):
            tried = [path for path in paths if bool(path.destinations) is given]
            if tried:
                lines.append(f"if not {p}extra and {'' if given else 'not '}{p}named:")
            for path in tried:
                lines.append("    try:")
                lines += ["        " + line for line in self._path(path, source)]
                lines += [f"    except {source.constant(Exception)}:", "        pass"]
        lines.append(f"return {self._slow_call(source)}")
        return self._compile(source, lines)

    def _path(self, path: HotPath, source: _Source) -> list[str]:
        """The lines that try one path, and return where it fits."""
        # The parameter of an output that is left out keeps saying so, for the slow path.
        local = {name: f"{self._prefix}new_{name}" for name, _, _ in path.allocators}
        local.update({name: f"{self._prefix}out{k}" for k, name in enumerate(path.destinations)})
        lines = [f"{local[name]} = {source.constant(make)}({', '.join(of)})" for name, make, of in path.allocators]
        arguments = [*(local.get(name, name) for name, _ in path.tensors), *path.scalars]
        if path.parallel:
            arguments.append(str(path.threads) if path.threads else f"{source.constant(thread_count)}()")
        lines.append(f"if {source.constant(path.entry)}({', '.join(arguments)}) is None:")
        if not path.sees_torch:
            torches = [name for name, kind in path.tensors if name in path.written and kind in (TORCH, SUBCLASS)]
            written = "".join(f"{name}, " for name in torches)
            lines += [f"    {source.constant(count_versions)}(({written}))"] if written else []
        lines.append(f"    return {_expression(path.returns, local)}")
        of_torch = [local.get(name, name) for name, kind in path.tensors if kind in (TORCH, SUBCLASS)]
        recorded = " or ".join(f"{name}.requires_grad" for name in of_torch)
        if recorded:
            head = f"if not ({source.constant(torch.is_grad_enabled)}() and ({recorded})):"
            lines = [head, *("    " + line for line in lines)]
        if path.destinations:
            # Whatever else is named has no such key.
            taken = "".join(f"{local[name]}, " for name in path.destinations)
            one = len(path.destinations) == 1
            given = f'{self._prefix}named["out"]'
            lines = [f"{taken}= ({given}, )" if one else f"{taken}= {given}", *lines]
        conditions = self._conditions(path, source)
        if path.destinations:
            conditions.append(f"{source.constant(len)}({self._prefix}named) == 1")
        if conditions:
            lines = [f"if {' and '.join(conditions)}:", *("    " + line for line in lines)]
        return lines

    def _conditions(self, path: HotPath, source: _Source) -> list[str]:
        guards = list(path.guards)
        for name, kind in path.tensors:
            if kind == ALLOCATED:
                if name not in self._names:
                    # What a kernel computes and returns is no parameter.
                    continue
                guards.append(Guard(f"{name} is {{0}}", (OMITTED,)))
            elif kind == NUMPY:
                guards.append(Guard(f"{{0}}({name}) is {{1}}", (type, numpy.ndarray)))
            elif kind == FOREIGN:
                guards.append(Guard(f"not {{0}}({name}, {{1}})", (isinstance, torch.Tensor)))
            elif not path.sees_torch:
                guards.append(Guard(f"{{0}}({name}, {{1}}) and not {name}.is_neg()", (isinstance, torch.Tensor)))
        return [source.expression(guard) for guard in guards]
