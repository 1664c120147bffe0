"""Vector work on tiles: element by element, along rows, in parts, and over lists of numbers."""

from __future__ import annotations

import torch
from torch.nn import functional

from examples import arrays, assemble, elementwise, masked, normalization
from examples.catalog.example import F32, I32, Example, normal

_WIDE = (1000, 768)


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, x.shape[-1:], gamma[0], normalization.EPSILON)


def _layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], gamma[0], beta[0], normalization.EPSILON)


EXAMPLES: tuple[Example, ...] = (
    Example("add", elementwise.add, normal(_WIDE, _WIDE), torch.add, (_WIDE, F32), 1e-6),
    Example(
        "add_scale_relu",
        elementwise.add_scale_relu,
        normal(_WIDE, _WIDE),
        lambda a, b: torch.relu((a + b) * 2),
        (_WIDE, F32),
        2e-6,
    ),
    Example("silu", elementwise.silu, normal(_WIDE), functional.silu, (_WIDE, F32), 2e-6),
    Example("gelu", elementwise.gelu, normal(_WIDE), functional.gelu, (_WIDE, F32), 2e-6),
    Example(
        "fast_gelu",
        elementwise.fast_gelu,
        normal((32, 128)),
        lambda x: x * torch.sigmoid(1.702 * x),
        ((32, 128), F32),
        2e-6,
    ),
    Example(
        "swiglu",
        elementwise.swiglu,
        normal(_WIDE, _WIDE),
        lambda gate, up: functional.silu(gate) * up,
        (_WIDE, F32),
        5e-6,
    ),
    Example(
        "geglu",
        elementwise.geglu,
        normal((32, 128), (32, 128)),
        lambda gate, up: gate * torch.sigmoid(1.702 * gate) * up,
        ((32, 128), F32),
        5e-6,
    ),
    Example(
        "concat",
        elementwise.concat,
        normal((32, 16), (32, 16)),
        lambda left, right: torch.cat([left, right], 1),
        ((32, 32), F32),
        0.0,
    ),
    Example("softmax", normalization.softmax, normal(_WIDE), lambda x: torch.softmax(x, dim=-1), (_WIDE, F32), 1e-6),
    Example("rms_norm", normalization.rms_norm, normal(_WIDE, (1, 768)), _rms_norm, (_WIDE, F32), 1e-5),
    Example("layer_norm", normalization.layer_norm, normal(_WIDE, (1, 768), (1, 768)), _layer_norm, (_WIDE, F32), 1e-5),
    Example(
        "replace_by_blocks",
        assemble.replace_by_blocks,
        normal((32, 32), (32, 16)),
        lambda x, y: torch.cat([x[:, :16], y], 1),
        ((32, 32), F32),
        0.0,
    ),
    Example(
        "repeat_blocks",
        assemble.repeat_blocks,
        normal((32, 32), (8, 8)),
        lambda x, y: y.repeat(4, 4),
        ((32, 32), F32),
        0.0,
    ),
    Example(
        "histogram",
        arrays.histogram,
        lambda g: (torch.randint(0, 6, (50,), generator=g, dtype=I32),),
        lambda x: torch.bincount(x, minlength=8),
        ((8,), I32),
        0.0,
    ),
    Example(
        "masked softmax",
        masked.softmax_configured,
        lambda g: (*normal((16, 64))(g), torch.tensor([1, 48], dtype=I32)),
        lambda x, state: functional.pad(torch.softmax(x[:, : state[1]], -1), (0, 64 - int(state[1]))),
        ((16, 64), F32),
        1e-6,
    ),
)
