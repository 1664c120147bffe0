"""Which code is the user's and counts by content, which counts by name, and what cannot count at all."""

from __future__ import annotations

import operator
import sys
from types import FunctionType
from typing import Any, NamedTuple

from pypto_jit.purity import is_impure


class UnguardableError(Exception):
    """A value that may change without any digest of it changing."""


class Scope(NamedTuple):
    """Which code is the user's.

    Attributes:
        package: top-level package of the kernel; its code is the user's even where it is installed.
    """

    package: str

    def owns(self, module: str, filename: str = "") -> bool:
        """Whether code of a module counts by content rather than by name."""
        top = top_package(module)
        if top == self.package:
            return True
        if top == "pypto_jit" or top in sys.stdlib_module_names:
            return False
        if not filename:
            filename = getattr(sys.modules.get(module), "__file__", None) or ""
        return "site-packages" not in filename and "dist-packages" not in filename

    def owns_function(self, function: FunctionType) -> bool:
        """Whether a function is the user's."""
        return self.owns(module_of(function), function.__code__.co_filename)

    def owns_class(self, cls: type) -> bool:
        """Whether a class is the user's."""
        return self.owns(cls.__module__ if isinstance(cls.__module__, str) else "")


def top_package(module: Any) -> str:
    """The first part of a module's name."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def module_of(value: Any) -> str:
    """Name of the module that defines a value; of a function, the module whose globals it has."""
    name = getattr(value, "__module__", None)
    if isinstance(value, FunctionType):
        name = value.__globals__.get("__name__", name)
    return name if isinstance(name, str) else ""


def version_of(module: str) -> bytes:
    """The version of the package that a module belongs to; empty where it does not say."""
    return str(getattr(sys.modules.get(top_package(module)), "__version__", "")).encode()


def same_by_name(value: Any) -> bool:
    """Whether asking a value's module, or a package around it, for its qualified name gives that very value."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    place = module_of(value)
    while isinstance(name, str) and place:
        try:
            if operator.attrgetter(name)(sys.modules.get(place)) is value:
                return True
        except AttributeError:
            pass
        place = place.rpartition(".")[0]
    return False


def check_pure(module: str, name: str) -> None:
    """Raise for what may give another result each time.

    Raises:
        UnguardableError: it may.
    """
    if is_impure(module, name):
        raise UnguardableError(f"{module}.{name}: its result does not follow from its arguments")
