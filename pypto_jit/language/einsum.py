"""``pl.einsum``: sums of products by the names of dimensions, as matrix products, elementwise products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pypto_jit.dialects.rows.sets import CUBE_INPUTS
from pypto_jit.dialects.rules.tensors import promote
from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.language.expressions import (
    convert,
    elementwise,
    expand,
    operand_of,
    permuted,
    rearrange,
    reduce,
    sides_of,
    type_of,
)
from pypto_jit.language.extents import made
from pypto_jit.language.products import matmul
from pypto_jit.language.signatures import checked
from pypto_jit.language.tensors import reshape_tensor
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor


@dataclass(frozen=True)
class _Named:
    """A tensor with a name for each of its dimensions: a letter, or ``.0``, ``.1`` ... from the end of ``...``."""

    tensor: Tensor
    names: tuple[str, ...]

    def extents(self) -> dict[str, Any]:
        return dict(zip(self.names, sides_of(self.tensor), strict=True))

    def ordered(self, names: Sequence[str]) -> Tensor:
        """The tensor with its dimensions in another order."""
        axes = [self.names.index(name) for name in names]
        return self.tensor if axes == list(range(len(axes))) else permuted(self.tensor, axes)

    def spread(self, names: Sequence[str]) -> Tensor:
        """The tensor with these dimensions, extent 1 where it has none."""
        if tuple(names) == self.names:
            return self.tensor
        return rearrange(self.tensor, [self.names.index(name) if name in self.names else -1 for name in names])

    def summed(self, kept: set[str]) -> _Named:
        """Summed over the dimensions that nothing else has."""
        axes = tuple(axis for axis, name in enumerate(self.names) if name not in kept)
        names = tuple(name for name in self.names if name in kept)
        return _Named(reduce("sum", self.tensor, axes), names) if axes else self


@checked
def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum of products that an equation describes, as ``torch.einsum`` does: ``"bij,bjk->bik"``.

    Operands are taken from left to right: two that share a dimension which is summed become one batched matrix product,
    others an elementwise product.

    Args:
        equation: letters for the dimensions of each operand, ``...`` for those that broadcast; behind ``->`` those of
            the result, without which these are the letters that appear once, in alphabetical order, after ``...``.
        operands: tensors.

    Raises:
        TraceError: the equation is wrong, or takes a diagonal.
        ShapeError: one letter stands for different extents.
    """
    given = [operand_of("einsum", operand) for operand in operands]
    inputs, output = _parsed(equation, given)
    terms = [_Named(tensor, names) for tensor, names in zip(given, inputs, strict=True)]
    terms = _broadcast(equation, terms)
    result = terms.pop(0)
    result = result.summed({*output, *(name for term in terms for name in term.names)})
    while terms:
        after = {*output, *(name for term in terms[1:] for name in term.names)}
        other = terms.pop(0).summed({*after, *result.names})
        result = _combined(result, other, after)
    return result.ordered(output)


def _wrong(message: str, equation: Any, **more: Any) -> TraceError:
    return TraceError(f"einsum: {message}", span=here(), **{"found": equation, **more})


def _parsed(equation: Any, operands: Sequence[Tensor]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The names of the dimensions of each operand, and of the result."""
    if not isinstance(equation, str):
        raise _wrong("the equation is a text", repr(equation), expected="such as 'ij,jk->ik'")
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(operands) or not operands:
        raise _wrong("as many operands as the equation has", equation, expected=f"{len(parts)}, not {len(operands)}")
    inputs = [_names(equation, part, tensor.ndim) for part, tensor in zip(parts, operands, strict=True)]
    dots = sorted({name for names in inputs for name in names if name.startswith(".")}, key=lambda n: -int(n[1:]))
    letters = [name for names in inputs for name in names if not name.startswith(".")]
    if arrow:
        output = _names(equation, right, len(right.replace("...", "")) + (len(dots) if "..." in right else 0))
    else:
        output = (*dots, *sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    unknown = [name for name in output if name not in (*dots, *letters)]
    if unknown:
        raise _wrong(f"'{unknown[0]}' of the result is in no operand", equation)
    return inputs, tuple(output)


def _names(equation: str, part: str, rank: int) -> tuple[str, ...]:
    before, dots, after = part.partition("...")
    letters = before + after
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise _wrong("dimensions have letters", equation, expected="letters, ... and ->")
    if len(set(letters)) != len(letters):
        raise _wrong(
            "a letter stands for one dimension of an operand", equation, hint="einsum takes no diagonals: pass one"
        )
    if (len(letters) > rank) if dots else (len(letters) != rank):
        raise _wrong(f"'{part}' names the dimensions of a tensor with {rank}", equation)
    return (*before, *(f".{k}" for k in reversed(range(rank - len(letters)))), *after)


def _broadcast(equation: str, terms: list[_Named]) -> list[_Named]:
    """The operands with the same extent for each name.

    Raises:
        ShapeError: these differ.
    """
    extents: dict[str, Any] = {}
    for term in terms:
        for name, extent in term.extents().items():
            known = extents.setdefault(name, extent)
            if known == 1 and name.startswith("."):
                extents[name] = extent
            elif extent != known and not (extent == 1 and name.startswith(".")):
                raise ShapeError(
                    f"einsum: '{name}' stands for different extents",
                    span=here(),
                    found=f"{known} and {extent} in {equation}",
                )
    result = []
    for term in terms:
        wanted = [extents[name] for name in term.names]
        same = list(sides_of(term.tensor)) == wanted
        result.append(term if same else _Named(expand(term.tensor, made(wanted)), term.names))
    return result


def _combined(left: _Named, right: _Named, kept: set[str]) -> _Named:
    """The product of two terms, summed over what only they have."""
    both = [name for name in left.names if name in right.names]
    batch = [name for name in both if name in kept]
    summed = [name for name in both if name not in kept]
    rows = [name for name in left.names if name not in both]
    columns = [name for name in right.names if name not in both]
    dtype = promote(type_of(left.tensor).dtype, type_of(right.tensor).dtype)
    left, right = (_Named(convert(term.tensor, dtype, "rint"), term.names) for term in (left, right))
    if summed and (rows or columns) and dtype in CUBE_INPUTS:
        return _multiplied(left, right, batch, rows, summed, columns)
    return _by_elements(left, right, (*batch, *rows, *columns), tuple(summed), dtype)


def _by_elements(left: _Named, right: _Named, kept: tuple[str, ...], summed: tuple[str, ...], dtype: DType) -> _Named:
    names = (*kept, *summed)
    wide = FP32 if summed and dtype in (FP16, BF16) else dtype
    product = elementwise("mul", *(convert(term.spread(names), wide, "rint") for term in (left, right)))
    total = reduce("sum", product, tuple(range(len(kept), len(names)))) if summed else product
    return _Named(convert(total, dtype, "rint"), kept)


def _multiplied(
    left: _Named, right: _Named, batch: list[str], rows: list[str], summed: list[str], columns: list[str]
) -> _Named:
    extents = {**left.extents(), **right.extents()}
    product = matmul(_matrix(left, batch, rows, summed), _matrix(right, batch, summed, columns))
    names = (*batch, *rows, *columns)
    if len(rows) != 1 or len(columns) != 1:
        product = reshape_tensor(product, made([extents[name] for name in names]))
    return _Named(product, names)


def _matrix(term: _Named, batch: list[str], rows: list[str], columns: list[str]) -> Tensor:
    """A term as matrices, whose rows and columns run along several dimensions each, or none."""
    matrix = term.ordered([*batch, *rows, *columns])
    if len(rows) == 1 and len(columns) == 1:
        return matrix
    extents = term.extents()
    sides = [[extents[name] for name in group] for group in (rows, columns)]
    merged = [made(side)[0] if len(side) == 1 else prod(made(side)) for side in sides]
    return reshape_tensor(matrix, [*made([extents[name] for name in batch]), *merged])


__all__ = ["einsum"]
