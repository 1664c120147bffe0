"""Rewrites loops with ``init_values`` and ``pl.yield_`` into loops that rebind variables, which `carried` carries.

    for i, (a, b) in pl.range(n, init_values=(x, y)):     items = pl.range(n, init_values=(x, y))
        body                                              (a, b) = hooks.initial(items)
        c, d = pl.yield_(u, v)                            for i in items:
                                                              body
                                                              c, d = given = hooks.given(items, pl.yield_(u, v))
                                                              (a, b) = given
                                                          c, d = (a, b)

    for (a, b) in pl.while_(init_values=(x, y)):          items = pl.while_(init_values=(x, y))
        pl.cond(test)                                     (a, b) = hooks.initial(items)
        body                                              while test: ...

In the arms of an ``if``, ``pl.yield_`` gives its arguments, and the names they are bound to merge like any others.
"""

from __future__ import annotations

import ast
import copy

from pypto_jit.frontend import syntax
from pypto_jit.frontend.liveness import own_nodes

_Statements = list[ast.stmt]


def spell_out(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Rewrite the loops of one function, in place."""
    if any(isinstance(node, ast.For) and _initial_values(node) for node in own_nodes(function.body)):
        function.body = _Loops().statements(function.body)


def _initial_values(node: ast.For) -> bool:
    return isinstance(node.iter, ast.Call) and any(keyword.arg == "init_values" for keyword in node.iter.keywords)


def _called(node: ast.AST | None, name: str) -> bool:
    """Whether this is a call of ``name``, or of an attribute of that name."""
    if not isinstance(node, ast.Call):
        return False
    return name == (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None))


class _Loops(ast.NodeTransformer):
    def __init__(self) -> None:
        self._count = 0

    def statements(self, statements: _Statements) -> _Statements:
        result: _Statements = []
        for statement in statements:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_For(self, node: ast.For) -> ast.stmt | _Statements:
        if not _initial_values(node):
            self.generic_visit(node)
            return node
        self._count += 1
        items, given = (f"pypto.{what}{self._count}" for what in ("values", "given"))
        repeats = _called(node.iter, "while_")
        index, carried = (None, node.target) if repeats else _split(node.target)
        opening = [
            ast.Assign([syntax.store(items)], node.iter),
            ast.Assign([carried], syntax.hook("initial", syntax.load(items), ast.Constant(_arity(carried)))),
        ]
        test: ast.expr = syntax.hook("condition_first", syntax.load(items))
        body = node.body
        if repeats and isinstance(body[0], ast.Expr):
            condition = body[0].value
            if isinstance(condition, ast.Call) and _called(condition, "cond") and len(condition.args) == 1:
                test, body = condition.args[0], body[1:] or [ast.copy_location(ast.Pass(), body[0])]
        *first, last = body
        bound, closing = self._closing(last, items, given, carried)
        body = [*self.statements(first), *closing]
        loop: ast.stmt
        if repeats:
            loop = ast.While(test, body, self.statements(node.orelse))
        else:
            assert index is not None
            loop = ast.For(index, syntax.load(items), body, self.statements(node.orelse))
        ending: _Statements = [] if bound is None else [_bind(bound, _as_value(carried))]
        result = [*opening, loop, *ending]
        for statement in result:
            syntax.locate(statement, node.iter)
        return result

    def _closing(
        self, last: ast.stmt, items: str, given: str, carried: ast.expr
    ) -> tuple[ast.expr | None, _Statements]:
        """The names that the last statement of a body binds to what it yields, and what stands in its place."""
        value = last.value if isinstance(last, (ast.Assign, ast.AnnAssign, ast.Expr)) else None
        if not isinstance(value, ast.Call) or not _called(value, "yield_"):
            missing = ast.Expr(syntax.hook("yield_last", syntax.load(items)))
            syntax.locate(missing, last)
            return None, [*self.statements([last]), missing]
        targets = last.targets if isinstance(last, ast.Assign) else []
        if isinstance(last, ast.AnnAssign):
            targets = [last.target]
        starred = any(isinstance(argument, ast.Starred) for argument in value.args)
        checked = syntax.hook("given", syntax.load(items), ast.Constant(-1 if starred else len(value.args)), value)
        statements: _Statements = [ast.Assign([syntax.store(given)], checked)]
        bound = targets[0] if targets else None
        if bound is not None:
            statements.append(_bind(bound, syntax.load(given)))
        statements.append(ast.Assign([copy.deepcopy(carried)], syntax.load(given)))
        for statement in statements:
            syntax.locate(statement, last)
        same = bound is None or _names(bound) == _names(carried)
        return (None if same else copy.deepcopy(bound)), statements


def _split(target: ast.expr) -> tuple[ast.expr, ast.expr]:
    """The loop variable and the carried names of ``i, (a, b)``."""
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        return target.elts[0], target.elts[1]
    return target, ast.Tuple([], ast.Store())


def _arity(target: ast.expr) -> int:
    """How many values a target takes; -1 for a single name, which takes whatever there is."""
    return len(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else -1


def _names(target: ast.expr) -> list[str]:
    """A target's names, with anything else in it as it is written."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return [ast.dump(_as_value(part)) for part in parts]


def _bind(target: ast.expr, values: ast.expr) -> ast.stmt:
    """``target = values``, where a name alone takes a single value itself."""
    several = isinstance(target, (ast.Tuple, ast.List))
    return ast.Assign([copy.deepcopy(target)], values if several else syntax.hook("single", values))


def _as_value(target: ast.expr) -> ast.expr:
    """A target, read."""
    value = copy.deepcopy(target)
    for node in ast.walk(value):
        if hasattr(node, "ctx"):
            node.ctx = ast.Load()  # type: ignore[attr-defined]
    return value
