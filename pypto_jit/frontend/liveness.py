"""Which variables a loop or branch binds, and which of them are read later: an analysis of Python syntax.

It errs on the safe side: a variable reported as read may not be. Variables read by nested functions count as read
everywhere, since a function may be called at any time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass(frozen=True)
class Flow:
    """What there is to know of one ``for`` or ``if`` statement.

    Attributes:
        bound: variables it binds, in order of appearance; the loop variables are not among them.
        targets: the loop variables.
        exposed: variables that the first iteration may read before it binds them.
        after: variables that may be read after the statement.
        read: variables that its body reads.
        jumps: (keyword, line) of ``break``, ``continue``, ``return`` and ``yield`` that leave its body.
    """

    bound: tuple[str, ...]
    targets: tuple[str, ...]
    exposed: Names
    after: Names
    read: Names
    jumps: tuple[tuple[str, int], ...]


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and their children, without the insides of nested functions and classes."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                stack.extend(node.decorator_list)
            continue
        stack.extend(list(ast.iter_child_nodes(node))[::-1])


def _comprehension_targets(nodes: Iterable[ast.AST]) -> set[int]:
    inside = set()
    for node in own_nodes(nodes):
        if isinstance(node, _COMPREHENSIONS):
            for generator in node.generators:
                inside |= {id(name) for name in ast.walk(generator.target)}
    return inside


def bound_names(nodes: Iterable[ast.AST]) -> dict[str, None]:
    """The variables that statements bind, in order; those of comprehensions and nested functions are others."""
    nodes = list(nodes)
    private = _comprehension_targets(nodes)
    names: dict[str, None] = {}
    for node in own_nodes(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in private:
            names[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[node.name] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name.partition(".")[0], None) for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names[node.rest] = None
    return names


def read_names(nodes: Iterable[ast.AST]) -> Names:
    """The variables that statements read, with those that nested functions read."""
    names = set()
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return frozenset(names)


def _jumps(nodes: Iterable[ast.stmt], in_loop: bool) -> Iterator[tuple[str, int]]:
    """Jumps out of a body. ``in_loop``: the body is inside of a loop of its own, to which break and continue belong."""
    for node in nodes:
        if isinstance(node, ast.Return):
            yield "return", node.lineno
        elif isinstance(node, (ast.Break, ast.Continue)):
            if not in_loop:
                yield ("break" if isinstance(node, ast.Break) else "continue"), node.lineno
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield from _jumps(node.body, True)
            yield from _jumps(node.orelse, in_loop)
        elif not isinstance(node, _SCOPES):
            for expression in own_nodes([node] if not hasattr(node, "body") else _heads(node)):
                if isinstance(expression, (ast.Yield, ast.YieldFrom, ast.Await)):
                    yield "yield", expression.lineno
            for block in _blocks(node):
                yield from _jumps(block, in_loop)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _heads(node: ast.stmt) -> list[ast.AST]:
    heads: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ExceptHandler, ast.match_case)):
            heads.extend(part for part in ast.iter_child_nodes(child) if not isinstance(part, ast.stmt))
        elif not isinstance(child, ast.stmt):
            heads.append(child)
    return heads


def _surely_bound(node: ast.stmt) -> Names:
    """Variables that a statement binds on every way through it."""
    if isinstance(node, ast.If):
        then: Names = frozenset().union(*(_surely_bound(statement) for statement in node.body))
        return then & frozenset().union(*(_surely_bound(statement) for statement in node.orelse))
    if not isinstance(node, _SCOPES) and any(_blocks(node)):
        return _NONE
    conditional = {
        part.target.id
        for part in own_nodes([node])
        if isinstance(part, ast.NamedExpr) and isinstance(part.target, ast.Name)
    }
    return frozenset(bound_names([node])) - conditional


@dataclass
class Analysis:
    """The flows of every ``for`` and ``if`` of one function; those of nested functions have analyses of their own."""

    flows: dict[ast.AST, Flow] = field(default_factory=dict)
    _captured: Names = _NONE
    _shared: Names = _NONE
    _assigned_inside: Names = _NONE
    _exposed: dict[int, Names] = field(default_factory=dict)

    @classmethod
    def of(cls, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Analysis:
        """Analyse a function's body."""
        analysis = cls()
        captured: set[str] = set()
        shared: set[str] = set()
        inside: set[str] = set()
        for node in own_nodes(function.body):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                shared.update(node.names)
            elif isinstance(node, _SCOPES):
                for part in ast.walk(node):
                    if isinstance(part, ast.Name):
                        captured.add(part.id)
                    elif isinstance(part, ast.Nonlocal):
                        inside.update(part.names)
        analysis._captured = frozenset(captured)
        analysis._shared = frozenset(shared)
        analysis._assigned_inside = frozenset(inside)
        # What a nonlocal or global variable is used for elsewhere cannot be seen.
        analysis._block(function.body, analysis._shared, _NONE)
        return analysis

    def _block(self, statements: list[ast.stmt], after: Names, head: Names) -> Names:
        """Variables that may be read from the start of statements on. ``head``: those read where a jump may go to."""
        for statement in reversed(statements):
            after = self._statement(statement, after, head)
        return after

    def _statement(self, node: ast.stmt, after: Names, head: Names) -> Names:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._for(node, after, head)
        if isinstance(node, ast.If):
            self._record(node, [*node.body, *node.orelse], (), _NONE, after)
            then = self._block(node.body, after, head)
            other = self._block(node.orelse, after, head)
            return then | other | read_names([node.test])
        if isinstance(node, ast.While):
            inside = after | self._gen(node.body) | read_names([node.test])
            self._block(node.body, inside, inside)
            return inside | self._block(node.orelse, after, head)
        if isinstance(node, (ast.Break, ast.Continue)):
            return head
        if isinstance(node, (ast.Return, ast.Raise)):
            return read_names([node]) | head
        blocks = list(_blocks(node)) if not isinstance(node, _SCOPES) else []
        if not blocks:
            return (after - _surely_bound(node)) | read_names([node])
        # with, try, match: any part may run or be left at any point.
        around = after | head | frozenset().union(*(self._gen(block) for block in blocks))
        for block in blocks:
            self._block(block, around, around)
        return around | read_names(_heads(node))

    def _for(self, node: ast.For | ast.AsyncFor, after: Names, head: Names) -> Names:
        targets = tuple(bound_names([node.target]))
        exposed = self._gen(node.body) - frozenset(targets)
        rest = self._block(node.orelse, after, head) if node.orelse else after
        self._record(node, node.body, targets, exposed, rest | after)
        inside = rest | after | exposed
        self._block(node.body, inside, inside)
        return inside | read_names([node.iter, node.target])

    def _record(
        self, node: ast.stmt, body: list[ast.stmt], targets: tuple[str, ...], exposed: Names, after: Names
    ) -> None:
        names = dict.fromkeys((*bound_names(body), *sorted(self._assigned_inside)))
        self.flows[node] = Flow(
            tuple(name for name in names if name not in targets and name not in self._shared),
            targets,
            exposed | self._captured,
            after | self._captured,
            read_names(body),
            tuple(_jumps(body, False)),
        )

    def _gen(self, statements: list[ast.stmt]) -> Names:
        """Variables that statements may read before they bind them."""
        result: Names = _NONE
        for statement in reversed(statements):
            known = self._exposed.get(id(statement))
            if known is None:
                known = self._exposed[id(statement)] = self._gen_of(statement)
            result = known | (result - _surely_bound(statement))
        return result

    def _gen_of(self, node: ast.stmt) -> Names:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            inside = self._gen(node.body) - frozenset(bound_names([node.target]))
            return read_names([node.iter]) | inside | self._gen(node.orelse)
        if isinstance(node, (ast.If, ast.While)):
            return read_names([node.test]) | self._gen(node.body) | self._gen(node.orelse)
        blocks = list(_blocks(node)) if not isinstance(node, _SCOPES) else []
        if blocks:
            return read_names(_heads(node)).union(*(self._gen(block) for block in blocks))
        return read_names([node])
