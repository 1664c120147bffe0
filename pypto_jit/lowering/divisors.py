"""Divisors of index values: what a value is a multiple of whenever it is computed."""

from __future__ import annotations

from math import gcd

from pypto_jit._mlir import ir
from pypto_jit.lowering.tree import constant

_SUMS = ("arith.addi", "arith.subi", "arith.minsi", "arith.maxsi")


def divisor(value: ir.Value) -> int:
    """A number that divides a value, the larger the more is known; 0 divides nothing but 0."""
    number = constant(value)
    if number is not None:
        return abs(number)
    owner = value.owner
    if isinstance(owner, ir.Block):
        return _of_argument(value, owner)
    operation = owner.operation
    operands = list(operation.operands)
    if operation.name == "arith.muli":
        return divisor(operands[0]) * divisor(operands[1])
    if operation.name in _SUMS:
        return gcd(divisor(operands[0]), divisor(operands[1]))
    if operation.name == "arith.select":
        return gcd(divisor(operands[1]), divisor(operands[2]))
    if operation.name in ("arith.index_cast", "pto.within"):
        return divisor(operands[0])
    return 1


def _of_argument(value: ir.Value, block: ir.Block) -> int:
    loop = block.owner.operation
    if loop.name != "scf.for" or value != block.arguments[0]:
        return 1
    return gcd(divisor(loop.operands[0]), divisor(loop.operands[2]))
