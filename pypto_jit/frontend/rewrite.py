"""Rewrites a function's control flow so that loops and branches on traced values are recorded.

Python keeps running the function: plain loops and conditions stay what they are. Around each ``for``, ``while`` and
``if`` statement hooks are set that do nothing for plain values. For traced ones they let the body run once (both arms
of an ``if``), and before, between and after rebind the variables that the body binds: to what enters the body, and to
what leaves the statement. Lines and columns stay those of the source. What `yields` and `jumps` rewrite goes first.

    for i in items: body          it, loop = hooks.loop(items, flow)
                                  for i in it:
                                      if loop is not None: x, y = loop.enter(locals())
                                      body
                                      if loop is not None: loop.leave(locals())
                                  if loop is not None: x, y = loop.results()

    while test: body              loop = hooks.repetition(flow)
                                  while loop.again(test, locals()):
                                      if loop.recorded: x, y = loop.enter(locals())
                                      body
                                  if loop.recorded: x, y = loop.results()

    if test: then                 taken, branch = hooks.branch(test, flow)
    else: other                   if branch is not None: branch.enter(locals())
                                  if taken: then
                                  if branch is not None: taken = False; x, y = branch.turn(locals())
                                  if not taken: other
                                  if branch is not None: x, y = branch.results(locals())

A variable that has no value at such a place is deleted, so that reading it is Python's own error.
"""

from __future__ import annotations

import ast
import weakref
from types import CellType, CodeType, FunctionType
from typing import Any

from pypto_jit.frontend import jumps, syntax, yields
from pypto_jit.frontend.liveness import Analysis, Flow
from pypto_jit.frontend.source import Definition, find_definition

# No source can contain this name.
_FACTORY = "pypto.factory"
_Expression = ast.expr
_Statement = ast.stmt


class Rewriter:
    """Rewrites functions, each code object once.

    Args:
        hooks: the object whose methods the rewritten code calls.
    """

    def __init__(self, hooks: Any) -> None:
        self.hooks = hooks
        self._cell = CellType(hooks)
        # By identity: code objects of different files may be equal.
        self._codes: dict[int, tuple[weakref.ref[CodeType], CodeType | None]] = {}

    def rewrite(self, function: FunctionType) -> FunctionType:
        """The function with staged control flow; the function itself where its source is not available.

        The result has the same globals, closure cells and defaults. Decorators are not applied.
        """
        code = function.__code__
        if is_rewritten(code):
            return function
        key = id(code)
        known = self._codes.get(key)
        if known is None or known[0]() is not code:
            definition = find_definition(function)
            new = None if definition is None else _compile(definition, function)
            forget = self._codes.pop
            self._codes[key] = known = (weakref.ref(code, lambda _: forget(key, None)), new)
        new = known[1]
        if new is None:
            return function
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells[syntax.HOOKS] = self._cell
        closure = tuple(cells[name] for name in new.co_freevars)
        result = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, closure)
        result.__kwdefaults__ = function.__kwdefaults__
        result.__qualname__ = function.__qualname__
        return result


def is_rewritten(code: CodeType) -> bool:
    """Whether this is code that came out of a rewrite."""
    return syntax.HOOKS in code.co_freevars


def _compile(definition: Definition, function: FunctionType) -> CodeType | None:
    transformed = _Transformer().function(definition)
    names = [*function.__code__.co_freevars, syntax.HOOKS]
    parameters = [ast.arg(name) for name in names]
    body: list[_Statement]
    body = [ast.Expr(transformed)] if isinstance(transformed, ast.expr) else [transformed]
    owner = _owner(function.__qualname__)
    if owner is not None and isinstance(transformed, ast.stmt):
        # Inside of a class, names such as __x belong to it.
        body = [ast.ClassDef(owner, bases=[], keywords=[], body=body, decorator_list=[], **syntax.no_type_parameters())]
    elif isinstance(transformed, (ast.FunctionDef, ast.AsyncFunctionDef)) and transformed.name not in names:
        # A function that calls itself, or reads its attributes, finds itself where the original does.
        body.insert(0, ast.Global([transformed.name]))
    factory = ast.FunctionDef(
        name=_FACTORY,
        args=ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=body,
        decorator_list=[],
        **syntax.no_type_parameters(),
    )
    syntax.locate(factory, definition)
    code = compile(ast.Module([factory], type_ignores=[]), function.__code__.co_filename, "exec", dont_inherit=True)
    return _find(code, function.__code__)


def _owner(qualified: str) -> str | None:
    """The class a method is defined in, by its qualified name."""
    parts = qualified.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None


def _find(code: CodeType, original: CodeType) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == original.co_name:
                if hasattr(constant, "co_qualname"):
                    return constant.replace(co_qualname=original.co_qualname)  # type: ignore[attr-defined, call-arg]
                return constant
            found = _find(constant, original)
            if found is not None:
                return found
    return None


def _encode(flow: Flow, line: int) -> tuple[Any, ...]:
    """A flow as a constant that code can hold; `Flow` and the line again from its items."""
    return (
        line,
        flow.bound,
        flow.targets,
        tuple(sorted(flow.exposed)),
        tuple(sorted(flow.after)),
        tuple(sorted(flow.read)),
        flow.jumps,
        flow.exits,
        flow.raises,
    )


class _Transformer(ast.NodeTransformer):
    """Transforms one function; nested ones too, each with its own analysis."""

    def __init__(self) -> None:
        self._flows: dict[ast.AST, Flow] = {}
        self._parameters: frozenset[str] = frozenset()
        self._count = 0

    def function(self, node: Definition) -> Any:
        """The definition without decorators, defaults and annotations, which belong to the original."""
        if not isinstance(node, ast.Lambda):
            node.decorator_list = []
            node.returns = None
        arguments = node.args
        nothing = ast.copy_location(ast.Constant(None), node)
        arguments.defaults = [nothing for _ in arguments.defaults]
        arguments.kw_defaults = [None if default is None else nothing for default in arguments.kw_defaults]
        everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*everything, arguments.vararg, arguments.kwarg):
            if argument is not None:
                argument.annotation = None
        self._parameters = frozenset(argument.arg for argument in everything)
        return self._body(node)

    def _body(self, node: Any) -> Any:
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
            return node
        yields.spell_out(node)
        jumps.structure(node)
        self._flows.update(Analysis.of(node).flows)
        # Read in every function, so that rewritten code can be told from other code.
        mark = ast.Expr(syntax.load(syntax.HOOKS))
        syntax.locate(mark, node.body[0])
        node.body = [mark, *self._statements(node.body)]
        return node

    def _statements(self, statements: list[_Statement]) -> list[_Statement]:
        result: list[_Statement] = []
        for statement in statements:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    def _temporary(self, what: str) -> str:
        self._count += 1
        return f"pypto.{what}{self._count}"

    # Statements

    def visit_FunctionDef(self, node: Any) -> Any:
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args = self.visit(node.args)
        outer, self._parameters = self._parameters, frozenset()
        result = self._body(node)
        self._parameters = outer
        return result

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args = self.visit(node.args)
        return self._body(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_For(self, node: ast.For) -> Any:
        flow = self._flows[node]
        iterator, loop = self._temporary("items"), self._temporary("loop")
        opening = ast.Assign(
            [ast.Tuple([syntax.store(iterator), syntax.store(loop)], ast.Store())],
            syntax.hook("loop", self.visit(node.iter), syntax.constant(_encode(flow, node.lineno))),
        )
        # The loop variables have no value after a recorded loop.
        entered = _entered(flow)
        left = (*flow.bound, *flow.targets)
        results = self._guarded(loop, self._rebind(left, syntax.attribute(loop, "results")))
        body = [
            *self._guarded(loop, self._rebind(entered, syntax.attribute(loop, "enter"), True)),
            *self._statements(node.body),
            *self._guarded(
                loop,
                [ast.Expr(syntax.call(syntax.attribute(loop, "leave"), syntax.hook("locals")))],
            ),
        ]
        if flow.exits:
            test = syntax.hook("left", *(syntax.load(name) for name, *_ in flow.exits))
            body.append(ast.If(test, [ast.Break()], []))
        staged = ast.For(node.target, syntax.load(iterator), body, [], None)
        if node.orelse:
            staged.orelse = [*results, *self._statements(node.orelse)]
            results = []
        return self._placed(node, [opening, staged, *results])

    def visit_While(self, node: ast.While) -> Any:
        flow = self._flows[node]
        loop = self._temporary("repetition")
        made = syntax.hook("repetition", syntax.constant(_encode(flow, node.lineno)))
        opening = ast.Assign([syntax.store(loop)], made)
        again = syntax.call(syntax.attribute(loop, "again"), self.visit(node.test), syntax.hook("locals"))
        recorded = syntax.attribute(loop, "recorded")
        results = [ast.If(recorded, self._rebind(flow.bound, syntax.attribute(loop, "results")), [])]
        entering = ast.If(recorded, self._rebind(_entered(flow), syntax.attribute(loop, "enter"), True), [])
        staged = ast.While(again, [entering, *self._statements(node.body)], [])
        if node.orelse:
            staged.orelse = [*results, *self._statements(node.orelse)]
            results = []
        return self._placed(node, [opening, staged, *results])

    def visit_If(self, node: ast.If) -> Any:
        flow = self._flows[node]
        taken, branch = self._temporary("taken"), self._temporary("branch")
        opening = ast.Assign(
            [ast.Tuple([syntax.store(taken), syntax.store(branch)], ast.Store())],
            syntax.hook("branch", self.visit(node.test), syntax.constant(_encode(flow, node.lineno))),
        )
        statements: list[_Statement] = [
            opening,
            *self._guarded(branch, [ast.Expr(syntax.call(syntax.attribute(branch, "enter"), syntax.hook("locals")))]),
            ast.If(syntax.load(taken), self._statements(node.body), []),
            *self._guarded(
                branch,
                [
                    ast.Assign([syntax.store(taken)], ast.Constant(False)),
                    *self._rebind(flow.bound, syntax.attribute(branch, "turn"), True),
                ],
            ),
        ]
        if node.orelse:
            statements.append(ast.If(ast.UnaryOp(ast.Not(), syntax.load(taken)), self._statements(node.orelse), []))
        statements += self._guarded(branch, self._rebind(flow.bound, syntax.attribute(branch, "results"), True))
        return self._placed(node, statements)

    def _guarded(self, name: str, statements: list[_Statement]) -> list[_Statement]:
        test = ast.Compare(syntax.load(name), [ast.IsNot()], [ast.Constant(None)])
        return [ast.If(test, statements, [])]

    def _rebind(self, names: tuple[str, ...], method: _Expression, state: bool = False) -> list[_Statement]:
        value = syntax.call(method, *([syntax.hook("locals")] if state else []))
        if not names:
            return [ast.Expr(value)]
        statements: list[_Statement] = [
            ast.Assign([ast.Tuple([syntax.store(name) for name in names], ast.Store())], value)
        ]
        for name in names:
            undefined = syntax.attribute(syntax.HOOKS, "UNDEFINED")
            test = ast.Compare(syntax.load(name), [ast.Is()], [undefined])
            statements.append(ast.If(test, [ast.Delete([ast.Name(name, ast.Del())])], []))
        return statements

    def _placed(self, node: ast.AST, statements: list[_Statement]) -> list[_Statement]:
        head = node.iter if isinstance(node, ast.For) else node.test  # type: ignore[attr-defined]
        for statement in statements:
            syntax.locate(statement, head)
        return statements

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        return self._watched(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        # A local variable's annotation is never evaluated.
        if node.value is not None:
            node.value = self.visit(node.value)
        return self._watched(node, [node.target] if node.value is not None else [])

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        return self._watched(node, [node.target])

    def _watched(self, node: _Statement, targets: list[_Expression]) -> Any:
        """A parameter that is rebound may be an output that its author thinks to have written."""
        names = [target.id for target in targets if isinstance(target, ast.Name) and target.id in self._parameters]
        checks = [ast.Expr(syntax.hook("rebound", ast.Constant(name), syntax.load(name))) for name in names]
        for check in checks:
            syntax.locate(check, node)
        return [node, *checks]

    # Expressions

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        node.func = self._expression(node.func, syntax.hook("callee", node.func))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if syntax.cannot_be_delayed(node.body, node.orelse):
            return node
        return self._expression(
            node, syntax.hook("choose", node.test, syntax.delayed(node.body), syntax.delayed(node.orelse))
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if syntax.cannot_be_delayed(*node.values[1:]):
            return node
        first, *rest = node.values
        name = "conjunction" if isinstance(node.op, ast.And) else "disjunction"
        return self._expression(node, syntax.hook(name, first, *(syntax.delayed(value) for value in rest)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return self._expression(node, syntax.hook("negation", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 or syntax.cannot_be_delayed(*node.comparators[1:]):
            return node
        names = tuple(type(op).__name__ for op in node.ops)
        second, *rest = node.comparators
        return self._expression(
            node,
            syntax.hook("chain", syntax.constant(names), node.left, second, *(syntax.delayed(value) for value in rest)),
        )

    def _expression(self, node: ast.AST, new: _Expression) -> _Expression:
        syntax.locate(new, node)
        return new


def _entered(flow: Flow) -> tuple[str, ...]:
    """The variables whose value at the start of a recorded loop's body may differ from that before the loop."""
    return tuple(name for name in flow.bound if name in flow.exposed)
