"""Which variables a loop or branch binds, and which of them are read later: an analysis of Python syntax.

It errs on the safe side: a variable reported as read may not be. Variables read by nested functions count as read
everywhere, since a function may be called at any time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_YIELDS = (ast.Yield, ast.YieldFrom, ast.Await)
Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass(frozen=True)
class Flow:
    """What there is to know of one ``for``, ``while`` or ``if`` statement.

    Attributes:
        bound: variables it binds, in order of appearance; the loop variables are not among them.
        targets: the loop variables.
        exposed: variables that the first iteration may read before it binds them.
        after: variables that may be read after the statement.
        read: variables that its body reads.
        jumps: (keyword, line) of ``break``, ``continue``, ``return`` and ``yield`` that leave its body.
        raises: the line of a ``raise`` that stands in an arm of an ``if`` itself.
        exits: (variable, keyword, line) of the jumps that were rewritten: a loop ends once such a variable is True.
    """

    bound: tuple[str, ...]
    targets: tuple[str, ...]
    exposed: Names
    after: Names
    read: Names
    jumps: tuple[tuple[str, int], ...]
    exits: tuple[tuple[str, str, int], ...] = ()
    raises: int | None = None


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


class Uses:
    """The variables that pieces of syntax bind and read, each piece looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, None], Names]] = {}

    def bound(self, *nodes: ast.AST) -> dict[str, None]:
        """The variables that they bind, in order; those of comprehensions and nested functions are others."""
        return {name: None for node in nodes for name in self._of(node)[0]}

    def read(self, *nodes: ast.AST) -> Names:
        """The variables that they read, with those that nested functions read."""
        return _NONE.union(*(self._of(node)[1] for node in nodes))

    def _of(self, node: ast.AST) -> tuple[dict[str, None], Names]:
        if isinstance(node, ast.Name):
            bound = {} if isinstance(node.ctx, ast.Load) else {node.id: None}
            return bound, _NONE if isinstance(node.ctx, ast.Store) else frozenset((node.id,))
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._compute(node)
        return known

    def _compute(self, node: ast.AST) -> tuple[dict[str, None], Names]:
        bound: dict[str, None] = dict.fromkeys(_own_bindings(node))
        read: set[str] = set()
        scope = isinstance(node, _SCOPES)
        private = node.target if isinstance(node, ast.comprehension) else None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.expr_context, ast.operator)):
                continue
            inner, used = self._of(child)
            if not scope and child is not private:
                bound.update(inner)
            read |= used
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
        return bound, frozenset(read)


def _own_bindings(node: ast.AST) -> Iterator[str]:
    """Variables that a node binds by a plain string."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def find_jumps(nodes: Iterable[ast.stmt], yields: bool = False, in_loop: bool = False) -> Iterator[tuple[str, int]]:
    """Jumps out of a body.

    Args:
        nodes: the body.
        yields: whether to look for ``yield``.
        in_loop: whether the body is inside of a loop of its own, to which ``break`` and ``continue`` belong.
    """
    for node in nodes:
        if isinstance(node, ast.Return):
            yield "return", node.lineno
        elif isinstance(node, (ast.Break, ast.Continue)):
            if not in_loop:
                yield ("break" if isinstance(node, ast.Break) else "continue"), node.lineno
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield from find_jumps(node.body, yields, True)
            yield from find_jumps(node.orelse, yields, in_loop)
        elif not isinstance(node, _SCOPES):
            for expression in own_nodes(_heads(node) if hasattr(node, "body") else [node]) if yields else ():
                if isinstance(expression, _YIELDS):
                    yield "yield", expression.lineno
            for block in _blocks(node):
                yield from find_jumps(block, yields, in_loop)


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


@dataclass
class Analysis:
    """The flows of every ``for``, ``while`` and ``if`` of one function; nested functions have analyses of their own."""

    flows: dict[ast.AST, Flow] = field(default_factory=dict)
    _captured: Names = _NONE
    _shared: Names = _NONE
    _assigned_inside: Names = _NONE
    _walrus: Names = _NONE
    _yields: bool = False
    _exposed: dict[int, Names] = field(default_factory=dict)
    _uses: Uses = field(default_factory=Uses)

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
            elif isinstance(node, _YIELDS):
                analysis._yields = True
            elif isinstance(node, ast.NamedExpr):
                analysis._walrus |= {node.target.id}
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
            return then | other | self._uses.read(node.test)
        if isinstance(node, ast.While):
            return self._while(node, after, head)
        if isinstance(node, (ast.Break, ast.Continue)):
            return head
        if isinstance(node, (ast.Return, ast.Raise)):
            return self._uses.read(node) | head
        blocks = list(_blocks(node)) if not isinstance(node, _SCOPES) else []
        if not blocks:
            return (after - self._surely_bound(node)) | self._uses.read(node)
        # with, try, match: any part may run or be left at any point.
        around = after | head | frozenset().union(*(self._gen(block) for block in blocks))
        for block in blocks:
            self._block(block, around, around)
        return around | self._uses.read(*_heads(node))

    def _for(self, node: ast.For | ast.AsyncFor, after: Names, head: Names) -> Names:
        targets = tuple(self._uses.bound(node.target))
        rest = after | (self._block(node.orelse, after, head) if node.orelse else after)
        exposed = (self._gen(node.body) | self._kept(node.body, rest)) - frozenset(targets)
        self._record(node, node.body, targets, exposed, rest)
        inside = rest | exposed
        self._block(node.body, inside, inside)
        return inside | self._uses.read(node.iter, node.target)

    def _while(self, node: ast.While, after: Names, head: Names) -> Names:
        rest = after | (self._block(node.orelse, after, head) if node.orelse else after)
        tested = self._uses.read(node.test)
        exposed = self._gen(node.body) | (tested - self._surely(node.body)) | self._kept(node.body, rest | tested)
        self._record(node, [*node.body, node.test], (), exposed, rest)
        inside = rest | exposed | tested
        self._block(node.body, inside, inside)
        return inside

    def _kept(self, body: list[ast.stmt], after: Names) -> Names:
        """Variables read after a body that not every way through it binds: some may hold what they held before it."""
        return (frozenset(self._uses.bound(*body)) - self._surely(body)) & (after | self._captured)

    def _record(
        self, node: ast.stmt, body: Sequence[ast.AST], targets: tuple[str, ...], exposed: Names, after: Names
    ) -> None:
        names = dict.fromkeys((*self._uses.bound(*body), *sorted(self._assigned_inside)))
        self.flows[node] = Flow(
            tuple(name for name in names if name not in targets and name not in self._shared),
            targets,
            exposed | self._captured,
            after | self._captured,
            self._uses.read(*body),
            tuple(find_jumps([part for part in body if isinstance(part, ast.stmt)], self._yields)),
            getattr(node, "exits", ()),
            next((part.lineno for part in body if isinstance(part, ast.Raise)), None),
        )

    def _gen(self, statements: list[ast.stmt]) -> Names:
        """Variables that statements may read before they bind them."""
        result: Names = _NONE
        for statement in reversed(statements):
            known = self._exposed.get(id(statement))
            if known is None:
                known = self._exposed[id(statement)] = self._gen_of(statement)
            result = known | (result - self._surely_bound(statement))
        return result

    def _gen_of(self, node: ast.stmt) -> Names:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            inside = self._gen(node.body) - frozenset(self._uses.bound(node.target))
            return self._uses.read(node.iter) | inside | self._gen(node.orelse)
        if isinstance(node, (ast.If, ast.While)):
            return self._uses.read(node.test) | self._gen(node.body) | self._gen(node.orelse)
        blocks = list(_blocks(node)) if not isinstance(node, _SCOPES) else []
        if blocks:
            return self._uses.read(*_heads(node)).union(*(self._gen(block) for block in blocks))
        return self._uses.read(node)

    def _surely(self, statements: list[ast.stmt]) -> Names:
        return _NONE.union(*(self._surely_bound(statement) for statement in statements))

    def _surely_bound(self, node: ast.stmt) -> Names:
        """Variables that a statement binds on every way through it."""
        if isinstance(node, ast.If):
            return self._surely(node.body) & self._surely(node.orelse)
        if not isinstance(node, _SCOPES) and any(_blocks(node)):
            return _NONE
        # Whether a := runs may depend on what stands before it.
        return frozenset(self._uses.bound(node)) - self._walrus
