"""Makes the pieces of syntax that a rewrite adds."""

from __future__ import annotations

import ast
from typing import Any

# The variable through which rewritten code finds its hooks: a name that no source can contain.
HOOKS = "pypto.hooks"
_OF_THE_FRAME = frozenset({"super", "__class__", "locals", "vars", "dir", "eval", "exec"})


def constant(value: Any) -> ast.Constant:
    """A constant: a number, a string, None, or a tuple of constants."""
    return ast.Constant(value)


def load(name: str) -> ast.Name:
    """A variable, read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """A variable, bound."""
    return ast.Name(name, ast.Store())


def attribute(variable: str, name: str) -> ast.Attribute:
    """``variable.name``."""
    return ast.Attribute(load(variable), name, ast.Load())


def call(target: ast.expr, *arguments: ast.expr) -> ast.Call:
    """``target(*arguments)``."""
    return ast.Call(target, list(arguments), [])


def hook(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of a hook."""
    return call(attribute(HOOKS, name), *arguments)


def delayed(expression: ast.expr) -> ast.Lambda:
    """``lambda: expression``."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, expression)


def cannot_be_delayed(*expressions: ast.expr) -> bool:
    """Whether an expression means something else in a lambda: it binds, yields, or looks at its function's frame."""
    return any(
        isinstance(node, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await))
        or (isinstance(node, ast.Name) and node.id in _OF_THE_FRAME)
        for expression in expressions
        for node in ast.walk(expression)
    )


def no_type_parameters() -> dict[str, Any]:
    """The field of a definition that Python 3.12 added."""
    return {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}


def locate(node: ast.AST, place: ast.AST) -> None:
    """Give a place to new nodes, down to those that have one."""
    stack = [node]
    while stack:
        part = stack.pop()
        if "lineno" in part._attributes:
            if hasattr(part, "lineno"):
                continue
            ast.copy_location(part, place)
        stack.extend(ast.iter_child_nodes(part))
