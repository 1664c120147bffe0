"""The decode step at the sizes of a 32-billion model: its caches, what it lowers to, and its last part computed."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
from examples import qwen3

BATCH = 16


def test_each_token_joins_its_sequence():
    arguments = qwen3.decode_inputs(torch.Generator().manual_seed(2), 3, 64, 96, groups=2, size=16, length=24)
    x, norm, _, wk, wv, cos, sin, positions, _, keys, values = arguments[:11]
    before = keys.clone(), values.clone()
    qwen3.decode(*arguments)
    normed = torch.nn.functional.rms_norm(x.double(), norm.shape, norm.double(), qwen3.EPSILON)
    k, v = ((normed @ w.double()).view(3, 2, 16) for w in (wk, wv))
    turned = torch.complex(k[..., :8], k[..., 8:]) * torch.complex(cos.double(), sin.double())[:, None]
    for b, place in enumerate(positions.tolist()):
        # Values below 4; their norms and they themselves are rounded to BF16.
        torch.testing.assert_close(keys[b, :, place].double(), torch.cat([turned.real, turned.imag], -1)[b], **NEAR)
        torch.testing.assert_close(values[b, :, place].double(), v[b], **NEAR)
        for now, then in zip((keys, values), before, strict=True):
            others = torch.arange(24) != place
            assert torch.equal(now[b, :, others], then[b, :, others])


NEAR = {"rtol": 2.0**-9, "atol": 2.0**-7}


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_decode_at_full_size_lowers(platform):
    width, hidden, heads, groups, size, length = 8192, 25600, 64, 8, 128, 4096
    of_bf16 = {
        "x": (BATCH, width),
        "wq": (width, heads * size),
        "wk": (width, groups * size),
        "wv": (width, groups * size),
        "keys": (BATCH, groups, length, size),
        "values": (BATCH, groups, length, size),
        "wo": (heads * size, width),
        "gate": (width, hidden),
        "up": (width, hidden),
        "down": (hidden, width),
    }
    of_fp32 = {
        "norm_1": (width,),
        "norm_2": (width,),
        "cos": (BATCH, size // 2),
        "sin": (BATCH, size // 2),
        "mask": (BATCH, length),
    }
    arguments = {name: torch.empty(shape, dtype=torch.bfloat16) for name, shape in of_bf16.items()}
    arguments |= {name: torch.empty(shape) for name, shape in of_fp32.items()}
    arguments["positions"] = torch.empty(BATCH, dtype=torch.int32)
    stages = qwen3.decode.lower(**arguments, config=pypto.RunConfig(platform=platform))
    # Seven projections, two products of attention.
    assert stages["tensors"].count('"pypto.matmul"') == 9
    assert f'pto.target_arch = "{platform.removesuffix("sim")}"' in stages["pto"]


@pytest.mark.slow
def test_what_follows_attention_at_full_size():
    arguments = qwen3.scope3_inputs(torch.Generator().manual_seed(0), BATCH, width=5120, hidden=25600)
    found = qwen3.scope3(*arguments)
    # FP32 is exact enough: its sums are off by a thousandth of what BF16 rounds.
    right = qwen3.scope3_in_torch(*(tensor.float() for tensor in arguments))
    # As the example at its small size; the results are of the same size.
    torch.testing.assert_close(found.float(), right, rtol=0, atol=2.0**-5)
