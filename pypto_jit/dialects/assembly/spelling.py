"""How the assembly spells types, in both directions.

The dialect's own types are IRDL types with positional parameters; the assembly writes ``16x32xf32`` dimension lists
with ``?`` for what is only known at run time, and tile buffers by key and value or in a compact form that leaves
defaults out.
"""

from __future__ import annotations

import re

from pypto_jit.dialects.types import (
    DYNAMIC,
    ArrayType,
    PartitionType,
    PointerType,
    TensorViewType,
    TileBufType,
    parse_type,
)
from pypto_jit.dtypes import BY_MLIR, SCALARS_BY_MLIR, DType
from pypto_jit.errors import AssemblyError
from pypto_jit.targets import Layout, Space, Target

AssemblyType = ArrayType | PointerType | TensorViewType | PartitionType | TileBufType

_TILE_KEYS = ("loc", "dtype", "rows", "cols", "v_row", "v_col", "blayout", "slayout", "fractal", "pad")
_COMPACT_DEFAULTS = {"blayout": "row_major", "slayout": "none_box", "fractal": "512", "pad": "0"}
_OUTER = ("row_major", "col_major")
_INNER = ("none_box", "row_major", "col_major")
_FRACTALS = (16, 32, 512, 1024)
_EXTENT = re.compile(r"\?|-1|\d+")
_SHAPED = re.compile(r"((?:(?:\?|\d+)x)*)(\w+)")


def spell_type(text: str) -> str:
    """The assembly's spelling of an MLIR type given as text; types outside the dialect are spelled alike."""
    if not text.startswith("!pto."):
        return text
    kind = parse_type(text)
    if isinstance(kind, TileBufType):
        return _spell_tile(kind)
    if isinstance(kind, TensorViewType):
        return f"!pto.tensor_view<{_spell_dimensions(kind.shape)}{kind.dtype.mlir}>"
    if isinstance(kind, PartitionType):
        return f"!pto.partition_tensor_view<{_spell_dimensions(kind.shape)}{kind.dtype.mlir}>"
    if isinstance(kind, ArrayType):
        return f"!pto.local_array<{kind.size}x{kind.dtype.mlir}>"
    return text


def _extent(value: int) -> str:
    return "?" if value == DYNAMIC else str(value)


def _spell_dimensions(shape: tuple[int, ...]) -> str:
    return "".join(_extent(extent) + "x" for extent in shape)


def _spell_tile(kind: TileBufType) -> str:
    values = (
        kind.space.value,
        kind.dtype.mlir,
        *(str(extent) for extent in kind.shape),
        *(_extent(extent) for extent in kind.valid),
        kind.layout.blayout,
        kind.layout.slayout,
        str(kind.layout.fractal),
        str(kind.pad),
    )
    return "!pto.tile_buf<" + ", ".join(f"{k}={v}" for k, v in zip(_TILE_KEYS, values, strict=True)) + ">"


def read_type(head: str, body: str, target: Target) -> AssemblyType:
    """The type spelled ``head<body>``.

    Args:
        head: such as ``!pto.tile_buf``.
        body: the text between the angle brackets.
        target: whose Left layout holds: the assembler overrides the outer layout that the text gives a Left tile.

    Raises:
        AssemblyError: without a span.
    """
    if head == "!pto.ptr":
        element, _, space = (part.strip() for part in body.partition(","))
        if space not in ("", "gm"):
            raise AssemblyError("a pointer points to global memory", found=f"address space {space}", expected="gm")
        return PointerType(_dtype(element))
    if head in ("!pto.tensor_view", "!pto.partition_tensor_view"):
        shape, dtype = _read_shaped(body)
        return TensorViewType(shape, dtype) if head == "!pto.tensor_view" else PartitionType(shape, dtype)
    if head == "!pto.tile_buf":
        return _read_tile(body, target)
    if head == "!pto.local_array":
        return _read_array(body)
    raise AssemblyError("unknown type", found=head, expected="ptr, tensor_view, partition_tensor_view or tile_buf")


def _dtype(text: str) -> DType:
    dtype = BY_MLIR.get(text.strip())
    if dtype is None:
        raise AssemblyError("unknown element type", found=text.strip(), expected=", ".join(sorted(BY_MLIR)))
    return dtype


def _read_array(body: str) -> ArrayType:
    size, _, element = re.sub(r"\s", "", body).partition("x")
    if not size.isdigit() or int(size) < 1 or element not in SCALARS_BY_MLIR:
        raise AssemblyError("malformed array", found=body.strip(), expected="such as 4xi32")
    return ArrayType(int(size), SCALARS_BY_MLIR[element], "pto")


def _read_shaped(text: str) -> tuple[tuple[int, ...], DType]:
    match = _SHAPED.fullmatch(re.sub(r"\s", "", text))
    if match is None:
        raise AssemblyError("malformed dimensions", found=text.strip(), expected="such as 16x?xf32")
    shape = tuple(DYNAMIC if part == "?" else int(part) for part in match[1].split("x")[:-1])
    return shape, _dtype(match[2])


def _read_extent(key: str, text: str) -> int:
    if not _EXTENT.fullmatch(text):
        raise AssemblyError(f"malformed {key}", found=text, expected="a number or ?")
    return DYNAMIC if text in ("?", "-1") else int(text)


def _choice(key: str, text: str, choices: tuple[object, ...]) -> str:
    if text not in {str(choice) for choice in choices}:
        raise AssemblyError(f"unknown {key}", found=text, expected=", ".join(map(str, choices)))
    return text


def _read_tile(body: str, target: Target) -> TileBufType:
    parts = [part.strip() for part in body.split(",")]
    fields = _compact_fields(parts) if "=" not in parts[0] else _key_value_fields(parts)
    space = Space(_choice("loc", fields["loc"], tuple(s.value for s in Space)))
    blayout = _choice("blayout", fields["blayout"], _OUTER)
    if space is Space.LEFT:
        blayout = target.layouts[Space.LEFT].blayout
    layout = Layout(
        blayout,
        _choice("slayout", fields["slayout"], _INNER),
        int(_choice("fractal", fields["fractal"], _FRACTALS)),
    )
    rows, columns, valid_rows, valid_columns = (_read_extent(k, fields[k]) for k in ("rows", "cols", "v_row", "v_col"))
    if rows < 1 or columns < 1:
        raise AssemblyError("a tile buffer has a static shape", found=f"{rows}x{columns}".replace("-1", "?"))
    if valid_rows > rows or valid_columns > columns:
        raise AssemblyError(
            "the valid region leaves the tile buffer",
            found=f"valid {valid_rows}x{valid_columns}",
            expected=f"within {rows}x{columns}",
        )
    pad = int(_choice("pad", fields["pad"], (0, 1, 2, 3)))
    return TileBufType(space, _dtype(fields["dtype"]), (rows, columns), (valid_rows, valid_columns), layout, pad)


def _split(part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise AssemblyError("malformed tile buffer", found=part, expected="key=value")
    return key.strip(), value.strip().strip('"')


def _key_value_fields(parts: list[str]) -> dict[str, str]:
    pairs = [_split(part) for part in parts]
    if [key for key, _ in pairs] not in (list(_TILE_KEYS), [*_TILE_KEYS, "compact"]):
        raise AssemblyError(
            "malformed tile buffer", found=", ".join(key for key, _ in pairs), expected=", ".join(_TILE_KEYS)
        )
    fields = dict(pairs)
    _check_compact(fields)
    return fields


def _compact_fields(parts: list[str]) -> dict[str, str]:
    if len(parts) < 2:
        raise AssemblyError("malformed tile buffer", found=", ".join(parts), expected="such as vec, 16x32xf32")
    shape, dtype = _read_shaped(parts[1])
    if len(shape) != 2:
        raise AssemblyError("a tile buffer has two dimensions", found=parts[1])
    rows, columns = (_extent(extent) for extent in shape)
    pairs = [_split(part) for part in parts[2:]]
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= {"valid", "compact", *_COMPACT_DEFAULTS}:
        raise AssemblyError("unknown or repeated key of a tile buffer", found=", ".join(parts[2:]))
    _check_compact(options)
    valid_rows, times, valid_columns = options.pop("valid", f"{rows}x{columns}").partition("x")
    if not times:
        raise AssemblyError("malformed valid region", found=valid_rows, expected="such as 16x?")
    fields = {"loc": parts[0], "dtype": dtype.mlir, "rows": rows, "cols": columns}
    fields |= {"v_row": valid_rows.strip(), "v_col": valid_columns.strip()}
    return fields | _COMPACT_DEFAULTS | options


def _check_compact(fields: dict[str, str]) -> None:
    if fields.pop("compact", "0") not in ("0", "null"):
        raise AssemblyError("compact tile buffers are not supported", hint="leave compact out, or set it to 0")
