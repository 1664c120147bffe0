"""What the machines can do, as data: capacities, alignments, layouts, legal moves, casts.

Passes and checks read these rows; none asks which architecture it compiles for. A leaf module.

Sources: pto-isa ``include/pto/common/buffer_limits.hpp`` (capacities; on a2a3 the top 8 KiB of the unified buffer
belong to the backend, pto-isa issue 170), the ptoas v0.57 verifier (alignments), PyPTO's documented moves and casts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType

KIB = 1024


class Space(str, Enum):
    """A memory of the machine; the value is the assembly's ``loc``."""

    VEC = "vec"
    MAT = "mat"
    LEFT = "left"
    RIGHT = "right"
    ACC = "acc"
    BIAS = "bias"

    def __repr__(self) -> str:
        return f"Space.{self.name}"


@dataclass(frozen=True)
class Layout:
    """How a tile lies in its buffer: outer (``blayout``) and in-box (``slayout``) order, box size in bytes."""

    blayout: str
    slayout: str
    fractal: int = 512


ROW_MAJOR = Layout("row_major", "none_box")
COLUMN_VECTOR = Layout("col_major", "none_box")
NZ = Layout("col_major", "row_major")
ZN = Layout("row_major", "col_major")
ZZ = Layout("row_major", "row_major")
ACC_NZ = Layout("col_major", "row_major", 1024)

# Rows of a block that one vector instruction burst, or one row of a tile, is aligned to (ptoas: row bytes % 32 == 0).
ROW_ALIGNMENT = 32
# Edge of a cube fractal; its other edge is 32 bytes.
FRACTAL_EDGE = 16


@dataclass(frozen=True)
class Target:
    """One architecture.

    Attributes:
        name: wire name (``a2a3``, ``a5``), also the emitted ``pto.target_arch``.
        capacity: usable bytes of each space.
        alignment: address alignment in bytes of each space.
        layouts: the layout each space uses, other than a column vector in VEC and a row in BIAS.
        moves: legal on-chip moves (from, to).
        crossings: moves between the cube and the vector core. The language has them; the machine does them through
            global memory, in separate kernels.
        casts: native conversions, source to targets.
        vector_dtypes: what vector arithmetic computes in.
        atomics: dtypes that a store can add to what is in global memory.
        integer_comparisons: how tiles of INT32 are compared.
        inserts_fp32: whether a part of an FP32 Mat tile can be written from Acc; else only of an FP16 or BF16 one.
        wide_masks: whether the mask of two tiles is a buffer of their physical shape (ptoas v0.57, ``tcmp``), although
            only its first bits are written.
        turns_blocks: whether a transpose writes whole blocks to its scratch (pto-isa, ``TTrans.hpp``); else it leaves
            the scratch alone.
        part_alignment: bytes that the columns of a part of a Vec tile are moved by a multiple of (pto-isa,
            ``TExtract.hpp``, ``TInsert.hpp``).
        part_unit: bytes that the valid columns of such a part are a multiple of.
        longest_stride: elements from row to row that a load into Mat steps over at most; None for any number (pto-isa,
            ``TLoad.hpp``).
        cube_cores, vector_cores: cores of one device.
    """

    name: str
    capacity: dict[Space, int]
    alignment: dict[Space, int]
    layouts: dict[Space, Layout]
    moves: frozenset[tuple[Space, Space]]
    crossings: frozenset[tuple[Space, Space]]
    casts: dict[DType, frozenset[DType]]
    vector_dtypes: frozenset[DType]
    atomics: frozenset[DType]
    integer_comparisons: frozenset[str]
    inserts_fp32: bool
    wide_masks: bool
    turns_blocks: bool
    part_alignment: int
    part_unit: int
    longest_stride: int | None
    cube_cores: int
    vector_cores: int

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


_ALIGNMENT = {
    Space.VEC: 32,
    Space.MAT: 32,
    Space.LEFT: 512,
    Space.RIGHT: 512,
    Space.ACC: 512,
    Space.BIAS: 64,
}
_LAYOUTS = {
    Space.VEC: ROW_MAJOR,
    Space.MAT: NZ,
    Space.LEFT: ZZ,
    Space.RIGHT: ZN,
    Space.ACC: ACC_NZ,
    Space.BIAS: ROW_MAJOR,
}
_MOVES = frozenset(
    {
        (Space.MAT, Space.LEFT),
        (Space.MAT, Space.RIGHT),
        (Space.MAT, Space.BIAS),
        (Space.VEC, Space.VEC),
        (Space.ACC, Space.MAT),
    }
)
_CROSSINGS = frozenset({(Space.ACC, Space.VEC), (Space.VEC, Space.MAT)})

A2A3 = Target(
    name="a2a3",
    capacity={
        Space.VEC: 184 * KIB,
        Space.MAT: 512 * KIB,
        Space.LEFT: 64 * KIB,
        Space.RIGHT: 64 * KIB,
        Space.ACC: 128 * KIB,
        Space.BIAS: 1 * KIB,
    },
    alignment=_ALIGNMENT,
    layouts=_LAYOUTS,
    moves=_MOVES,
    crossings=_CROSSINGS,
    casts={
        FP32: frozenset({FP16, BF16, INT16, INT32}),
        FP16: frozenset({FP32, INT32, INT16, INT8, UINT8}),
        BF16: frozenset({FP32, INT32}),
        INT32: frozenset({FP32, INT16, FP16}),
        INT16: frozenset({FP16, FP32}),
        INT8: frozenset({FP16}),
        UINT8: frozenset({FP16}),
    },
    vector_dtypes=frozenset({INT32, INT16, FP16, FP32}),
    atomics=frozenset({FP32, FP16, BF16, INT32, INT16, INT8}),
    integer_comparisons=frozenset({"eq"}),
    inserts_fp32=False,
    wide_masks=False,
    turns_blocks=True,
    part_alignment=ROW_ALIGNMENT,
    part_unit=2,
    longest_stride=65535,
    cube_cores=24,
    vector_cores=48,
)

A5 = Target(
    name="a5",
    capacity={
        Space.VEC: 240 * KIB,
        Space.MAT: 512 * KIB,
        Space.LEFT: 64 * KIB,
        Space.RIGHT: 64 * KIB,
        Space.ACC: 256 * KIB,
        Space.BIAS: 4 * KIB,
    },
    alignment=_ALIGNMENT,
    layouts={**_LAYOUTS, Space.LEFT: NZ},
    moves=_MOVES,
    crossings=_CROSSINGS,
    casts={
        FP32: frozenset({FP16, BF16, INT16, INT32}),
        FP16: frozenset({FP32, INT32, INT16, INT8, UINT8}),
        BF16: frozenset({FP32, INT32, FP16}),
        INT32: frozenset({FP32, INT16, UINT8}),
        INT16: frozenset({FP16, FP32, UINT8, INT32}),
        INT8: frozenset({FP16, INT16, INT32}),
        UINT8: frozenset({FP16}),
    },
    vector_dtypes=frozenset({INT32, INT16, FP16, FP32}),
    atomics=frozenset({FP32, FP16, INT32, INT16, INT8}),
    integer_comparisons=frozenset({"eq", "ne", "lt", "le", "gt", "ge"}),
    inserts_fp32=True,
    wide_masks=True,
    turns_blocks=False,
    part_alignment=1,
    part_unit=1,
    longest_stride=None,
    cube_cores=36,
    vector_cores=72,
)

BY_NAME: dict[str, Target] = {target.name: target for target in (A2A3, A5)}
