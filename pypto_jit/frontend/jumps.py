"""Rewrites ``break``, ``continue`` and ``return`` into variables and conditions on them.

A jump under a condition that is only known when the kernel runs cannot be taken while tracing. So every jump out of an
``if``, a loop, a ``with`` or a ``try`` sets a variable, and what it would have skipped is put under a condition:

    if c: return x        if c: result, returned = x, True         for i in items:          left = False
    rest                  else: rest; result, returned = y, True       if c: break          for i in items:
    return y              return result                                rest                     if not left:
                                                                                                    if c: left = True
                                                                                                    else: rest

For plain conditions the variables are plain too, and everything happens as it did: `rewrite` ends a loop for good once
one of its variables is True. A recorded loop takes them as conditions for another turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pypto_jit.frontend import syntax
from pypto_jit.frontend.liveness import find_jumps, own_nodes

# What the function returns, and whether it does already: names that no source can contain.
RESULT = "pypto.result"
_RETURNED = "pypto.returned"
_Statements = list[ast.stmt]


@dataclass(frozen=True)
class _Loop:
    left: str
    skipped: str


def structure(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Rewrite the jumps of one function, in place; those of functions within it are their own.

    Generators, and functions that jump out of a ``finally``, are left alone.
    """
    for node in own_nodes(function.body):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            return
        if isinstance(node, ast.Try) and any(find_jumps(node.finalbody)):
            return
    nested = {
        keyword for node in function.body if not isinstance(node, ast.Return) for keyword, _ in find_jumps([node])
    }
    loops = (node for node in own_nodes(function.body) if isinstance(node, (ast.For, ast.While)))
    if nested or any(keyword != "return" for loop in loops for keyword, _ in find_jumps(loop.body)):
        _Structure("return" in nested).function(function)


def is_internal(name: str) -> bool:
    """Whether a variable is one that the rewrite adds."""
    return name.startswith("pypto.")


class _Structure:
    """Rewrites the statements of one function.

    Args:
        returns: whether a ``return`` stands within another statement.
    """

    def __init__(self, returns: bool) -> None:
        self._returns = returns
        self._loop: _Loop | None = None
        self._count = 0

    def function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        body, last = function.body, function.body[-1]
        if self._returns:
            implied = ast.copy_location(ast.Return(None), last)
            end = ast.Return(syntax.load(RESULT))
            body = [_assign(_RETURNED, False, body[0]), *self._block([*body, implied]), end]
            syntax.locate(end, last)
        else:
            body = self._block(body)
        function.body = body

    def _block(self, statements: _Statements) -> _Statements:
        done: _Statements = []
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            jumps = _first_lines([statement])
            if isinstance(statement, ast.If) and jumps and rest:
                # What follows belongs to the arm that goes on.
                ends = _ends(statement.body), _ends(statement.orelse)
                if ends == (True, False):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif ends == (False, True):
                    statement.body, rest = [*statement.body, *rest], []
                if not rest:
                    return [*done, *self._statement(statement)]
            done += self._statement(statement)
            if not jumps or not rest:
                continue
            if not _ends([statement]):
                guard = ast.If(self._none_of(jumps), self._block(rest), [])
                syntax.locate(guard, statement)
                done.append(guard)
            break
        return done

    def _none_of(self, keywords: Iterable[str]) -> ast.expr:
        """The condition that none of these jumps has been taken."""
        tests: list[ast.expr] = [ast.UnaryOp(ast.Not(), syntax.load(self._name(keyword))) for keyword in keywords]
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)

    def _name(self, keyword: str) -> str:
        if keyword == "return":
            return _RETURNED
        assert self._loop is not None
        return self._loop.left if keyword == "break" else self._loop.skipped

    def _statement(self, node: ast.stmt) -> _Statements:
        if isinstance(node, ast.Return):
            if not self._returns:
                return [node]
            value = ast.Assign([syntax.store(RESULT)], node.value or ast.Constant(None))
            syntax.locate(value, node)
            return [value, _assign(_RETURNED, True, node)]
        if isinstance(node, (ast.Break, ast.Continue)):
            return [_assign(self._name("break" if isinstance(node, ast.Break) else "continue"), True, node)]
        if isinstance(node, (ast.For, ast.While)):
            return self._looped(node)
        if isinstance(node, ast.Try):
            self._try(node)
        else:
            for name in ("body", "orelse") if isinstance(node, (ast.If, ast.With, ast.AsyncWith, ast.AsyncFor)) else ():
                if getattr(node, name, None):
                    setattr(node, name, self._block(getattr(node, name)))
            for part in getattr(node, "cases", ()):
                part.body = self._block(part.body)
        return [node]

    def _try(self, node: ast.Try) -> None:
        jumps = _first_lines(node.body)
        node.body = self._block(node.body)
        for handler in node.handlers:
            handler.body = self._block(handler.body)
        if node.orelse:
            node.orelse = self._block(node.orelse)
            if jumps:
                guard = ast.If(self._none_of(jumps), node.orelse, [])
                syntax.locate(guard, node.orelse[0])
                node.orelse = [guard]

    def _looped(self, node: ast.For | ast.While) -> _Statements:
        jumps = _first_lines(node.body)
        outer = self._loop
        self._count += 1
        self._loop = _Loop(f"pypto.left{self._count}", f"pypto.skipped{self._count}")
        exits = {keyword: line for keyword, line in jumps.items() if keyword != "continue"}
        before: _Statements = []
        node.body = self._block(node.body)
        if "continue" in jumps:
            node.body.insert(0, _assign(self._loop.skipped, False, node.body[0]))
        if "break" in jumps:
            before.append(_assign(self._loop.left, False, node))
        after: _Statements = []
        if exits:
            goes_on = self._none_of(exits)
            if isinstance(node, ast.For):
                guard = ast.If(goes_on, node.body, [])
                syntax.locate(guard, node.body[0])
                node.body = [guard]
            else:
                node.test = ast.BoolOp(ast.And(), [goes_on, node.test])
                syntax.locate(node.test, node.test.values[1])
            node.exits = tuple((self._name(k), k, line) for k, line in exits.items())  # type: ignore[attr-defined]
        condition = self._none_of(exits) if exits else None
        self._loop = outer
        if node.orelse:
            node.orelse = self._block(node.orelse)
            if condition is not None:
                after = [ast.If(condition, node.orelse, [])]
                syntax.locate(after[0], node.orelse[0])
                node.orelse = []
        return [*before, node, *after]


def _first_lines(statements: _Statements) -> dict[str, int]:
    """The jumps out of statements, each with the line where it first stands."""
    found: dict[str, int] = {}
    for keyword, line in find_jumps(statements):
        found.setdefault(keyword, line)
    return found


def _assign(name: str, value: bool, place: ast.AST) -> ast.stmt:
    statement = ast.Assign([syntax.store(name)], ast.Constant(value))
    syntax.locate(statement, place)
    return statement


def _ends(statements: _Statements) -> bool:
    """Whether nothing after these statements runs."""
    return any(
        isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise))
        or (isinstance(node, ast.If) and _ends(node.body) and _ends(node.orelse))
        for node in statements
    )
