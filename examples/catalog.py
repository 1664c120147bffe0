"""Every example kernel with inputs and its torch reference: what the demo shows and the tests check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from examples import (
    arrays,
    assemble,
    attention,
    elementwise,
    flash_attention,
    llama,
    masked,
    matmul,
    mixed,
    normalization,
    paged_attention,
    spmd,
    tasks,
    tensors,
)
from examples.pages import in_torch, paged


@dataclass(frozen=True)
class Example:
    """A kernel beside the torch computation it replaces.

    Attributes:
        name: unique, readable.
        kernel: the jitted function; its last parameter is the output.
        inputs: makes the input tensors from a seeded generator.
        reference: the torch computation.
        output: shape and dtype of the output.
        tolerance: largest absolute error against the reference computed in float64 (0: equal).
    """

    name: str
    kernel: Any
    inputs: Callable[[torch.Generator], tuple[torch.Tensor, ...]]
    reference: Callable[..., torch.Tensor]
    output: tuple[tuple[int, ...], torch.dtype]
    tolerance: float

    def arguments(self, seed: int = 0) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """The inputs, and an output to write to."""
        generator = torch.Generator().manual_seed(seed)
        return self.inputs(generator), torch.empty(self.output[0], dtype=self.output[1])

    def expected(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The reference, computed in float64 (in int32 for integers)."""
        wide = [t.double() if t.is_floating_point() else t.int() for t in inputs]
        return self.reference(*wide)


def _normal(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32):
    return lambda g: tuple(torch.randn(shape, generator=g).to(dtype) for shape in shapes)


def _integers(*shapes: tuple[int, ...]):
    return lambda g: tuple(torch.randint(-128, 128, shape, generator=g, dtype=torch.int8) for shape in shapes)


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], gamma[0], normalization.EPSILON)


def _layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma[0], beta[0], normalization.EPSILON)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


_F32, _F16, _BF16, _I32 = torch.float32, torch.float16, torch.bfloat16, torch.int32
_WIDE = (1000, 768)
_functional = torch.nn.functional

EXAMPLES: tuple[Example, ...] = (
    Example("add", elementwise.add, _normal(_WIDE, _WIDE), torch.add, (_WIDE, _F32), 1e-6),
    Example(
        "add_scale_relu",
        elementwise.add_scale_relu,
        _normal(_WIDE, _WIDE),
        lambda a, b: torch.relu((a + b) * 2),
        (_WIDE, _F32),
        2e-6,
    ),
    Example("silu", elementwise.silu, _normal(_WIDE), _functional.silu, (_WIDE, _F32), 2e-6),
    Example("gelu", elementwise.gelu, _normal(_WIDE), _functional.gelu, (_WIDE, _F32), 2e-6),
    Example(
        "fast_gelu",
        elementwise.fast_gelu,
        _normal((32, 128)),
        lambda x: x * torch.sigmoid(1.702 * x),
        ((32, 128), _F32),
        2e-6,
    ),
    Example(
        "swiglu",
        elementwise.swiglu,
        _normal(_WIDE, _WIDE),
        lambda gate, up: _functional.silu(gate) * up,
        (_WIDE, _F32),
        5e-6,
    ),
    Example(
        "geglu",
        elementwise.geglu,
        _normal((32, 128), (32, 128)),
        lambda gate, up: gate * torch.sigmoid(1.702 * gate) * up,
        ((32, 128), _F32),
        5e-6,
    ),
    Example(
        "concat",
        elementwise.concat,
        _normal((32, 16), (32, 16)),
        lambda left, right: torch.cat([left, right], 1),
        ((32, 32), _F32),
        0.0,
    ),
    Example("softmax", normalization.softmax, _normal(_WIDE), lambda x: torch.softmax(x, dim=-1), (_WIDE, _F32), 1e-6),
    Example("rms_norm", normalization.rms_norm, _normal(_WIDE, (1, 768)), _rms_norm, (_WIDE, _F32), 1e-5),
    Example(
        "layer_norm", normalization.layer_norm, _normal(_WIDE, (1, 768), (1, 768)), _layer_norm, (_WIDE, _F32), 1e-5
    ),
    Example("matmul fp32", matmul.matmul, _normal((300, 200), (200, 500)), torch.matmul, ((300, 500), _F32), 1e-4),
    Example(
        "matmul fp16",
        matmul.matmul,
        _normal((300, 200), (200, 500), dtype=_F16),
        torch.matmul,
        ((300, 500), _F32),
        1e-4,
    ),
    Example(
        "matmul bf16",
        matmul.matmul,
        _normal((300, 200), (200, 500), dtype=_BF16),
        torch.matmul,
        ((300, 500), _BF16),
        0.3,  # the result is rounded to bfloat16: half an ulp of values up to 64
    ),
    Example("matmul int8", matmul.matmul, _integers((300, 200), (200, 500)), torch.matmul, ((300, 500), _I32), 0.0),
    Example(
        "linear_relu",
        matmul.linear_relu,
        _normal((300, 200), (200, 500), (1, 500)),
        lambda x, w, b: torch.relu(x @ w + b),
        ((300, 500), _F32),
        1e-4,
    ),
    Example(
        "replace_by_blocks",
        assemble.replace_by_blocks,
        _normal((32, 32), (32, 16)),
        lambda x, y: torch.cat([x[:, :16], y], 1),
        ((32, 32), _F32),
        0.0,
    ),
    Example(
        "repeat_blocks",
        assemble.repeat_blocks,
        _normal((32, 32), (8, 8)),
        lambda x, y: y.repeat(4, 4),
        ((32, 32), _F32),
        0.0,
    ),
    Example(
        "histogram",
        arrays.histogram,
        lambda g: (torch.randint(0, 6, (50,), generator=g, dtype=_I32),),
        lambda x: torch.bincount(x, minlength=8),
        ((8,), _I32),
        0.0,
    ),
    Example(
        "masked softmax",
        masked.softmax_configured,
        lambda g: (*_normal((16, 64))(g), torch.tensor([1, 48], dtype=_I32)),
        lambda x, state: torch.nn.functional.pad(torch.softmax(x[:, : state[1]], -1), (0, 64 - int(state[1]))),
        ((16, 64), _F32),
        1e-6,
    ),
    Example(
        "matmul_bias",
        matmul.matmul_bias,
        _normal((64, 64), (64, 64), (1, 64)),
        lambda a, b, bias: a @ b + bias,
        ((64, 64), _F32),
        1e-4,
    ),
    Example(
        "product + bias in two tasks",
        mixed.staged,
        lambda g: (*_normal((128, 256), (256, 128), dtype=_F16)(g), *_normal((128, 128))(g)),
        lambda a, b, bias: a @ b + bias,
        ((128, 128), _F32),
        1e-3,
    ),
    Example(
        "five tasks",
        tasks.vector_graph,
        _normal((128, 128), (128, 128)),
        lambda a, b: (a + b + 1) * (a + b + 2) + (a + b),
        ((128, 128), _F32),
        1e-5,
    ),
    Example(
        "three phases of tasks",
        tasks.phases,
        _normal((16, 64)),
        lambda x: x.sum(0) + 2 * (x + x.roll(-1, 0)),
        ((16, 64), _F32),
        1e-4,
    ),
    Example(
        "three launches of blocks",
        spmd.polynomial,
        _normal((256, 64)),
        lambda x: ((x + 1) * x + 1) * x + 1,
        ((256, 64), _F32),
        1e-4,
    ),
    Example(
        "attention", attention.attention, _normal((200, 64), (333, 64), (333, 64)), _attention, ((200, 64), _F32), 1e-5
    ),
    Example(
        "flash attention fp16",
        flash_attention.flash_attention,
        _normal((64, 128), (1024, 128), (1024, 128), dtype=_F16),
        _attention,
        ((64, 128), _F32),
        2e-3,  # the weights are rounded to FP16 for the second product
    ),
    Example(
        "paged attention",
        paged_attention.paged_attention_batched,
        lambda g: paged([300, 17, 512, 128], heads=16, dim=64, page=paged_attention.PAGE, seed=g.initial_seed()).inputs,
        lambda *inputs: in_torch(*inputs, page=paged_attention.PAGE),
        ((64, 64), _F32),
        5e-3,  # the weights are rounded to BF16 for the second product
    ),
    Example(
        "linear + gelu of tensors",
        tensors.linear_gelu,
        _normal((200, 300), (300, 500), (500,)),
        lambda x, w, b: _functional.gelu(x @ w + b),
        ((200, 500), _F32),
        1e-4,
    ),
    Example(
        "feed forward of tensors",
        tensors.feed_forward,
        _normal((100, 128), (128, 256), (128, 256), (256, 128)),
        lambda x, gate, up, down: (_functional.silu(x @ gate) * (x @ up)) @ down,
        ((100, 128), _F32),
        2e-2,  # sums of 256 products of about 100
    ),
    Example(
        "residual + rms_norm of tensors",
        tensors.residual_norm,
        _normal(_WIDE, _WIDE, (768,)),
        lambda x, y, w: _functional.rms_norm(x + y, w.shape, w, 1e-6),
        (_WIDE, _F32),
        1e-5,
    ),
    Example(
        "attention of tensors",
        tensors.scaled_attention,
        _normal((4, 100, 64), (4, 120, 64), (4, 120, 64)),
        lambda q, k, v: _functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
        ((4, 100, 64), _F32),
        1e-5,
    ),
    Example(
        "llama decoder layer of tensors",
        llama.decoder_layer,
        llama.inputs,
        llama.in_torch,
        ((16, 64), _F32),
        1e-5,
    ),
)
