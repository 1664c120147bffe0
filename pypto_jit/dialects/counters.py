"""Loop counters: the bounds between which an argument of a loop's body stays."""

from __future__ import annotations

from pypto_jit._mlir import ir

# The predicate of ``arith.cmpi slt``.
_LESS = 2
Bounds = tuple[ir.Value, ir.Value, ir.Value]


def counter_bounds(value: ir.Value) -> Bounds | None:
    """Start, stop and step of a loop whose counter a value is, else None: ``start <= value < stop``.

    A counter is the first argument of an ``scf.for``, or of an ``scf.while`` that may end before its count is reached:
    one that adds a positive constant to the argument and goes on only where the sum is below the stop.
    """
    block = value.owner
    if not isinstance(block, ir.Block) or ir.BlockArgument(value).arg_number != 0:
        return None
    loop = block.owner.operation
    if loop.name == "scf.for":
        start, stop, step = list(loop.operands)[:3]
        return start, stop, step
    return _of_while(loop, value) if loop.name == "scf.while" and block == loop.regions[1].blocks[0] else None


def _of_while(loop: ir.Operation, value: ir.Value) -> Bounds | None:
    if len(loop.operands) < 2:
        return None
    decision, passed = loop.regions[0].blocks[0], loop.regions[1].blocks[0]
    first = decision.operations[0].operation
    terminator = passed.operations[len(passed.operations) - 1].operation
    if first.name != "scf.condition" or list(first.operands) != list(decision.arguments):
        return None
    again, following = list(terminator.operands)[:2]
    step = _operands(following, "arith.addi", value)
    if step is None or (_constant(step) or 0) <= 0:
        return None
    for condition in (again, *(_all_operands(again, "arith.andi") or ())):
        stop = _operands(condition, "arith.cmpi", following)
        if stop is not None and _predicate(condition) == _LESS:
            start = loop.operands[1]
            return (start, stop, step) if _begins_below(loop.operands[0], start, stop) else None
    return None


def _begins_below(condition: ir.Value, start: ir.Value, stop: ir.Value) -> bool:
    """Whether a loop only begins where its start is below its stop."""
    limit = _operands(condition, "arith.cmpi", start)
    if limit is not None and limit == stop:
        return _predicate(condition) == _LESS
    first, last = _constant(start), _constant(stop)
    return first is not None and last is not None and first < last


def _all_operands(value: ir.Value, name: str) -> list[ir.Value] | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != name:
        return None
    return list(owner.operands)


def _operands(value: ir.Value, name: str, left: ir.Value) -> ir.Value | None:
    """The right operand of an operation whose left one is known."""
    operands = _all_operands(value, name)
    return operands[1] if operands is not None and operands[0] == left else None


def _predicate(value: ir.Value) -> int:
    owner = value.owner
    assert not isinstance(owner, ir.Block)
    return ir.IntegerAttr(owner.attributes["predicate"]).value


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None
