"""Layers of transformers on whole tensors against torch eager with as many threads, of one token and of many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import torch
from rich.console import Console

from benchmarks.timing import interleaved, table
from examples import feed_forward, llama, qwen3

# Name, kernel, its arguments, torch's function of the inputs, how many of the arguments those are.
Case = tuple[str, Callable, tuple[torch.Tensor, ...], Callable, int]
functional = torch.nn.functional


def cases() -> Iterator[Case]:
    """Feed-forward networks, a llama layer in FP32, a decode step of Qwen3 in BF16."""
    generator = torch.Generator().manual_seed(0)
    for rows, width, hidden in ((64, 64, 64), (128, 512, 1376), (1, 512, 1376)):
        x, gate, up, down = (
            torch.randn(shape, generator=generator) / shape[0] ** 0.5
            for shape in ((rows, width), (width, hidden), (width, hidden), (hidden, width))
        )
        size = f"{rows} x {width} x {hidden}"
        networks: tuple[tuple[str, Callable, Callable], ...] = (
            ("gelu", feed_forward.gelu, functional.gelu),
            ("relu", feed_forward.relu, torch.relu),
        )
        for name, kernel, activation in networks:
            yield (
                f"{name} network {size}",
                kernel,
                (x, up, down),
                lambda x, up, down, f=activation: f(x @ up) @ down,
                3,
            )
        yield (
            f"SwiGLU network {size}",
            feed_forward.swiglu,
            (x, gate, up, down, torch.empty(rows, width)),
            lambda x, gate, up, down: (functional.silu(x @ gate) * (x @ up)) @ down,
            4,
        )
    for rows, width, hidden in ((16, 64, 172), (128, 512, 1376), (1, 512, 1376)):
        inputs = llama.inputs(generator, rows, width, hidden)
        name = f"llama layer, {rows} tokens, width {width}"
        yield name, llama.decoder_layer, (*inputs, torch.empty(rows, width)), llama.in_torch, len(inputs)
    inputs = qwen3.scope3_inputs(generator, 16, 1280, 6400)
    yield "Qwen3 after attention, 16 x 1280, BF16", qwen3.scope3, inputs, qwen3.scope3_in_torch, len(inputs)
    inputs = qwen3.decode_inputs(generator, 16, 1024, 3200, groups=8, size=128, length=512)
    yield "Qwen3 decode, 16 x 1024, 512 keys, BF16", qwen3.decode, inputs, qwen3.decode_in_torch, len(inputs)


def main() -> None:
    """Print the table."""
    os.environ["PYPTO_JIT_CACHE"] = "0"
    result = table(
        "Layers: torch's time over ours (more is better)", "layer", "first call ms", "ours ms", "torch ms", "ratio"
    )
    with torch.no_grad():
        for name, kernel, arguments, in_torch, count in cases():
            start = time.perf_counter()
            kernel(*arguments)
            first = time.perf_counter() - start
            best = interleaved(
                {
                    "ours": lambda k=kernel, a=arguments: k(*a),
                    "torch": lambda f=in_torch, a=arguments[:count]: f(*a),
                },
                rounds=9,
            )
            result.add_row(
                name,
                f"{first * 1e3:.0f}",
                f"{best['ours'] * 1e3:.3f}",
                f"{best['torch'] * 1e3:.3f}",
                f"{best['torch'] / best['ours']:.2f}x",
            )
    Console(width=110).print(result)


if __name__ == "__main__":
    main()
