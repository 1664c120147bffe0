"""The operator functions, generated from the rows of the operator table.

A row without attributes needs nothing here: its function takes the row's operands under the language's names. Rows
whose result depends on more than their operands have a function below that turns the language's arguments into
attributes. Every function gets its documentation from its row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from pypto_jit.dialects.operators import COMPARISONS, ROUND_MODES, ROWS, Operator
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import ALL, INT32, DType
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.language.indices import indices, integer, static
from pypto_jit.language.parts import clamped, extract, fillpad, set_validshape
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.scalars import cast as cast_scalar
from pypto_jit.language.signatures import checked
from pypto_jit.language.tensors import inside, reshape_tensor, transpose_tensor
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor, Tile, arithmetic, emit, tile_scalar
from pypto_jit.language.values import read as read_element
from pypto_jit.language.values import write as write_element
from pypto_jit.targets import COLUMN_VECTOR, Space

# The language's names of the table's operands.
_UNARY = {"src": "x"}
_SCALAR = {"src": "lhs", "scalar": "rhs"}
_SPREAD = {"src": "lhs", "vector": "rhs"}


class AtomicType(enum.Enum):
    """How ``pl.store`` writes: over what is there, or added to it, whoever else adds at the same time."""

    None_ = "none"
    Add = "add"


def _dtype(dtype: Any, name: str) -> DType:
    if dtype not in ALL:
        raise DTypeError(
            f"{name} takes a dtype", span=here(), found=dtype, expected=", ".join(f"pl.{known}" for known in ALL)
        )
    return dtype


def _space(space: Any, name: str) -> Space:
    if not isinstance(space, Space):
        listed = ", ".join(f"pl.Mem.{known.name.capitalize()}" for known in Space)
        raise LayoutError(f"{name} takes a memory", span=here(), found=space, expected=listed)
    return space


def _ranks(name: str, rank: int, **given: tuple[Any, ...]) -> None:
    for what, values in given.items():
        if len(values) != rank:
            raise ShapeError(
                f"the {what} of {name} have one entry per dimension of the tensor",
                span=here(),
                found=f"{len(values)} {what}",
                expected=rank,
            )


def load(
    tensor: Any,
    offsets: Any,
    shapes: Any,
    valid_shape: Any = None,
    target_memory: Space = Space.VEC,
    clamp: bool = False,
) -> Any:
    if not isinstance(tensor, Tensor):
        return emit("load", (tensor,))
    shape = static(shapes, "the shape of load")
    starts = indices(offsets, "the offsets of load")
    rank = len(current("pl.load").shape(tensor))
    _ranks("load", rank, offsets=starts, shapes=shape)
    extents = inside(tensor, starts, shape) if valid_shape is None else indices(valid_shape, "the valid_shape of load")
    _ranks("load", rank, extents=extents)
    if clamp:
        extents = tuple(map(clamped, tensor.shape, starts, extents))
    valid = tuple(DYNAMIC if isinstance(extent, Scalar) else extent for extent in extents)
    attributes = {"shape": shape, "valid": valid, "space": _space(target_memory, "load"), "extents": extents}
    return emit("load", (tensor,), attributes, (*starts, *extents))


def store(tile: Any, offsets: Any, out_tensor: Any, shapes: Any = None, *, atomic: Any = AtomicType.None_) -> Any:
    if isinstance(tile, Tile) and isinstance(out_tensor, Tensor):
        if shapes is not None and static(shapes, "the shape of store") != tile.shape:
            raise ShapeError("store writes a tile as it is", span=here(), found=list(shapes), expected=list(tile.shape))
        starts = indices(offsets, "the offsets of store")
        if out_tensor.type is not None:
            _ranks("store", out_tensor.type.rank, offsets=starts)
        kind = atomic.value if isinstance(atomic, AtomicType) else atomic
        emit("store", (tile, out_tensor), None if kind == "none" else {"atomic": kind}, starts)
        return out_tensor
    if isinstance(tile, Tensor) and isinstance(offsets, Tile):
        raise TraceError(
            "the arguments of store are in another order", span=here(), expected="pl.store(tile, offsets, out)"
        )
    return emit("store", (tile, out_tensor))


def read(x: Any, indices: Any) -> Any:
    return read_element(x, indices)


def write(x: Any, indices: Any, value: Any) -> Any:
    return write_element(x, indices, value)


def create_tile(shape: Any, dtype: DType, target_memory: Space = Space.VEC) -> Any:
    attributes = {
        "shape": static(shape, "the shape of create_tile"),
        "dtype": _dtype(dtype, "create_tile"),
        "space": _space(target_memory, "create_tile"),
    }
    return emit("create_tile", (), attributes)


def full(shape: Any, dtype: DType, value: Any) -> Any:
    attributes = {"shape": static(shape, "the shape of full"), "dtype": _dtype(dtype, "full")}
    return emit("full", (tile_scalar("full", value, dtype),), attributes)


def ci(start: Any, shape: Any, dtype: DType = INT32) -> Any:
    attributes = {"shape": static(shape, "the shape of ci"), "dtype": _dtype(dtype, "ci")}
    return emit("ci", (tile_scalar("ci", start, dtype),), attributes)


def cast(x: Any, target_type: DType, mode: str | int = "round") -> Any:
    if isinstance(x, Scalar):
        return cast_scalar(x, target_type)
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode < len(ROUND_MODES):
        mode = ROUND_MODES[mode]
    return emit("cast", (x,), {"dtype": _dtype(target_type, "cast"), "mode": mode})


def reshape(x: Any, shape: Any) -> Any:
    if isinstance(x, Tensor):
        return reshape_tensor(x, shape)
    return emit("reshape", (x,), {"shape": static(shape, "the shape of reshape")})


def transpose(x: Any, axis1: int = 0, axis2: int = 1, tmp: Any = None) -> Any:
    _scratch("transpose", tmp)
    if isinstance(x, Tensor):
        return transpose_tensor(x, axis1, axis2)
    if isinstance(x, Tile):
        axes = {integer(axis, "the axes of transpose") for axis in (axis1, axis2)}
        if {axis % x.ndim if -x.ndim <= axis < x.ndim else axis for axis in axes} != {0, 1}:
            raise ShapeError(
                "transpose swaps the two axes of a tile",
                span=here(),
                found=f"axes {axis1} and {axis2} of {x!r}",
                expected="axes 0 and 1 of a two-dimensional tile",
            )
    return emit("transpose", (x,))


def move(tile: Any, target_memory: Space, blayout: Any = None, slayout: Any = None) -> Any:
    space = _space(target_memory, "move")
    layout = current("pl.move").target.layouts[space]
    if space is Space.VEC and isinstance(tile, Tile) and tile.shape[-1] == 1:
        layout = COLUMN_VECTOR
    for name, asked, given in (("blayout", blayout, layout.blayout), ("slayout", slayout, layout.slayout)):
        if asked is not None and getattr(asked, "value", asked) != given:
            raise LayoutError(
                f"the machine has no such layout in {space.name.capitalize()}",
                span=here(),
                found=f"{name}={asked!r}",
                expected=f"{name}={given!r}",
                hint=f"leave {name} out: the compiler knows the layout of each memory",
            )
    return emit("move", (tile,), {"space": space})


def _scratch(name: str, tmp: Any) -> None:
    if tmp is not None and not isinstance(tmp, Tile):
        raise TraceError(
            f"the tmp of {name} is a tile", span=here(), found=tmp, hint="leave it out: scratch is the compiler's"
        )


def matmul(
    lhs: Any,
    rhs: Any,
    out_dtype: DType | None = None,
    a_trans: bool = False,
    b_trans: bool = False,
    bias: Any = None,
) -> Any:
    if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
        from pypto_jit.language.products import matmul as multiply

        return multiply(lhs, rhs, None if out_dtype is None else _dtype(out_dtype, "matmul"), a_trans, b_trans, bias)
    if out_dtype is not None or a_trans or b_trans or bias is not None:
        raise TraceError(
            "matmul of tiles takes two tiles",
            span=here(),
            found="out_dtype, a_trans, b_trans or bias",
            hint="transpose a tile in Mat with pl.transpose_view, pl.cast the product, add with pl.matmul_bias",
        )
    return emit("matmul", (lhs, rhs))


def concat(*operands: Any, axis: int = -1) -> Any:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if len(operands) < 2:
        raise TraceError("concat takes two operands or more", span=here(), found=len(operands))
    if all(isinstance(operand, Tensor) for operand in operands):
        return emit("concat", operands, {"axis": axis})
    if isinstance(operands[0], Tile) and axis not in (-1, 1):
        raise ShapeError("concat of tiles puts them side by side", span=here(), found=f"axis={axis}", expected=-1)
    joined = operands[0]
    for operand in operands[1:]:
        joined = emit("concat", (joined, operand), {"axis": axis})
    return joined


def _comparison(name: str, kind: Any) -> str:
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(COMPARISONS):
        return COMPARISONS[kind]
    if isinstance(kind, str) and kind in COMPARISONS:
        return kind
    raise TraceError(
        f"{name} takes a kind of comparison",
        span=here(),
        found=kind,
        expected=", ".join(f"{code} ({text})" for code, text in enumerate(COMPARISONS)),
    )


def cmp(lhs: Any, rhs: Any, cmp_type: int | str = 0) -> Any:
    if isinstance(lhs, Tile) and not isinstance(rhs, (Tile, Tensor)):
        return cmps(lhs, rhs, cmp_type)
    return emit("cmp", (lhs, rhs), {"mode": _comparison("cmp", cmp_type)})


def cmps(lhs: Any, rhs: Any, cmp_type: int | str = 0) -> Any:
    scalar = tile_scalar("cmps", rhs, lhs.dtype) if isinstance(lhs, Tile) else rhs
    return emit("cmps", (lhs, scalar), {"mode": _comparison("cmps", cmp_type)})


def sel(mask: Any, lhs: Any, rhs: Any, tmp: Any = None) -> Any:
    _scratch("sel", tmp)
    if isinstance(lhs, Tile) and not isinstance(rhs, (Tile, Tensor)):
        return sels(mask, lhs, tmp, rhs)
    return emit("sel", (mask, lhs, rhs))


def sels(mask: Any, src: Any, tmp: Any = None, scalar: Any = None) -> Any:
    if scalar is None and not isinstance(tmp, Tile):
        tmp, scalar = None, tmp
    _scratch("sels", tmp)
    return emit("sels", (mask, src, tile_scalar("sels", scalar, src.dtype) if isinstance(src, Tile) else scalar))


_WRITTEN = {
    function.__name__: function
    for function in (
        *(load, store, read, write, create_tile, full, ci, cast, reshape, transpose, move),
        *(set_validshape, fillpad, extract, matmul, concat, cmp, cmps, sel, sels),
    )
}
_DISPATCHED = ("add", "sub", "mul", "div", "maximum", "minimum", "and_", "or_", "xor", "shl", "shr")


def _names(row: Operator) -> tuple[str, ...]:
    kinds = [operand.kind for operand in row.operands]
    if kinds == ["tile", "scalar"]:
        table = _SCALAR
    elif row.operands[-1].name == "vector" and row.operands[0].name == "src":
        table = _SPREAD
    else:
        table = _UNARY
    return tuple(table.get(operand.name, operand.name) for operand in row.operands)


def _ignored(row: Operator) -> list[tuple[str, Any]]:
    """Arguments of PyPTO's operators that mean nothing here: scratch is the compiler's, and all is precise."""
    found: list[tuple[str, Any]] = []
    reduces = row.rule in ("row_reduction", "column_reduction", "row_index", "column_index")
    if reduces or row.name in ("rsqrt", "row_expand_add", "xor", "xors"):
        found.append(("tmp", None))
    if row.name in ("div", "divs", "log", "rsqrt", "recip"):
        found.append(("high_precision", False))
    return found


def _plain(row: Operator) -> Callable[..., Any]:
    """A function for a row that is nothing but its operands, and what PyPTO's takes besides that says nothing here."""
    name = row.name
    parameters = [Parameter(operand, Parameter.POSITIONAL_OR_KEYWORD) for operand in _names(row)]
    ignored = _ignored(row)
    arity = len(parameters)
    parameters += [Parameter(extra, Parameter.POSITIONAL_OR_KEYWORD, default=default) for extra, default in ignored]
    has_scalar = any(operand.kind == "scalar" for operand in row.operands)
    keywords = {parameter.name: k for k, parameter in enumerate(parameters)}

    def function(*args: Any, **kwargs: Any) -> Any:
        operands = list(args[:arity])
        for key in sorted(kwargs, key=keywords.__getitem__):
            if keywords[key] < arity:
                operands.append(kwargs[key])
        for (extra, _), value in zip(ignored, args[arity:], strict=False):
            kwargs[extra] = value
        _scratch(name, kwargs.get("tmp"))
        if name in _DISPATCHED:
            return arithmetic(name, *operands)
        if has_scalar and isinstance(operands[0], Tile):
            operands[1] = tile_scalar(name, operands[1], operands[0].dtype)
        return emit(name, tuple(operands))

    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return function


def _documentation(row: Operator) -> str:
    lines = [row.summary]
    if row.instruction is not None:
        lines += ["", f"PTO instruction: {row.instruction.mnemonic}."]
    for target, dtypes in row.dtypes.items():
        lines.append(f"Dtypes on {target}: " + ", ".join(sorted(dtype.name for dtype in dtypes)) + ".")
    return "\n".join(lines)


def _function(row: Operator) -> Callable[..., Any]:
    function = _WRITTEN.get(row.name) or _plain(row)
    function.__name__ = row.name
    function.__qualname__ = row.name
    function.__doc__ = _documentation(row)
    return checked(function)


# Rows that the language spells in another way have no function of their name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    row.name: _function(row) for row in ROWS if not row.spelling or row.name in _WRITTEN
}
