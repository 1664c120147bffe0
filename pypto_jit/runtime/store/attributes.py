"""Follows a chain of attributes and subscripts as far as plain data leads, without running anybody's code."""

from __future__ import annotations

import enum
import inspect
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from pypto_jit.runtime.store.bytecode import UNBOUND, Chain, Step
from pypto_jit.runtime.store.scope import Scope, check_pure, module_of


def follow(chain: Chain, scope: Scope) -> tuple[tuple[Step, ...], Any]:
    """How far along a chain plain data leads, and the value there.

    Stops before anything that would run code of the user's: a property, ``__getattr__``, a subscript of a class.

    Raises:
        UnguardableError: the chain leads to a function whose result does not follow from its arguments.
    """
    value = chain.value
    for count, step in enumerate(chain.steps):
        if step.kind == "." and isinstance(value, (ModuleType, type)):
            check_pure(*_place(value, step.key))
        found = _attribute(value, step.key, scope) if step.kind == "." else _item(value, step.key)
        if found is UNBOUND:
            return chain.steps[:count], value
        value = found
    return chain.steps, value


def _place(owner: ModuleType | type, name: str) -> tuple[str, str]:
    """The module and the qualified name of an attribute."""
    if isinstance(owner, ModuleType):
        return owner.__name__, name
    return module_of(owner), f"{owner.__qualname__}.{name}"


def _item(value: Any, key: Any) -> Any:
    if type(value) in (dict, list, tuple):
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            return UNBOUND
    return UNBOUND


def _attribute(value: Any, name: str, scope: Scope) -> Any:
    if isinstance(value, ModuleType):
        return _module_attribute(value, name, scope)
    if isinstance(value, type):
        return _class_attribute(value, name)
    if isinstance(value, FunctionType):
        return value.__dict__.get(name, UNBOUND)
    cls = type(value)
    if not isinstance(cls.__getattribute__, WrapperDescriptorType):
        return UNBOUND
    own = getattr(value, "__dict__", None)
    raw = inspect.getattr_static(cls, name, UNBOUND)
    if isinstance(raw, MemberDescriptorType):
        return slot_value(raw, value)
    if hasattr(type(raw), "__set__"):
        return UNBOUND
    if isinstance(own, dict) and name in own:
        return own[name]
    if isinstance(raw, FunctionType):
        return MethodType(raw, value)
    return _unbind(raw, cls)


def _module_attribute(module: ModuleType, name: str, scope: Scope) -> Any:
    if name in module.__dict__ or scope.owns(module.__name__):
        return module.__dict__.get(name, UNBOUND)
    try:
        return getattr(module, name, UNBOUND)  # installed packages load parts of themselves when first asked
    except Exception:
        return UNBOUND


def slot_value(descriptor: MemberDescriptorType, value: Any) -> Any:
    """What is in a slot of an object; `UNBOUND` where nothing is."""
    try:
        return descriptor.__get__(value)
    except AttributeError:
        return UNBOUND


def _class_attribute(cls: type, name: str) -> Any:
    if isinstance(cls, enum.EnumMeta):
        return cls.__members__.get(name, UNBOUND)
    if type(cls).__getattribute__ is not type.__getattribute__ or hasattr(type(cls), name):
        return UNBOUND
    for base in cls.__mro__:
        if name in base.__dict__:
            return _unbind(base.__dict__[name], cls)
    return UNBOUND


def _unbind(raw: Any, cls: type) -> Any:
    """What reading a class attribute gives, where that runs no code of anybody's."""
    if isinstance(raw, staticmethod):
        return raw.__func__
    if isinstance(raw, classmethod) and isinstance(raw.__func__, FunctionType):
        return MethodType(raw.__func__, cls)
    if raw is UNBOUND or (hasattr(type(raw), "__get__") and not isinstance(raw, (FunctionType, type))):
        return UNBOUND
    return raw
