"""Loads and stores of one nest: aliasing arguments and strides found while running."""

from __future__ import annotations

import numpy as np

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText
from tests.native import Kernel, numbers, whole


def test_overlapping_arguments_are_loaded_before_they_are_stored():
    text = ModuleText()
    x, out = text.tensor((6, 64), FP32), text.tensor((6, 64), FP32)
    text.store(text.operator("exp", whole(text, x)), out, [0, 0])
    kernel = Kernel(text)
    for shift in (-64, -3, 3, 64, 100):
        memory = numbers((1000,), FP32)
        source = memory[300 : 300 + 384].reshape(6, 64)
        goal = memory[300 + shift : 300 + shift + 384].reshape(6, 64)
        wanted = np.exp(source)
        assert kernel(source, goal) == 0
        np.testing.assert_allclose(goal, wanted, rtol=1e-6)


def test_strided_arguments():
    text = ModuleText()
    x, out = text.tensor((6, 20), FP32, (-1, -1)), text.tensor((6, 20), FP32, (-1, -1))
    text.store(text.operator("neg", whole(text, x)), out, [0, 0])
    kernel = Kernel(text)
    base = numbers((40, 60), FP32)
    views = [base[:6, :20], base[:20, :6].T, base[::2, ::3][:6, :20], base[20:26, 30:50]]
    for source in views:
        for shape in ((6, 20), (20, 6)):
            goal = np.zeros(shape, np.float32) if shape == (6, 20) else np.zeros(shape, np.float32).T
            assert kernel(source, goal) == 0
            np.testing.assert_array_equal(goal, -source)


def test_in_place():
    text = ModuleText()
    x, out = text.tensor((6, 64), FP32), text.tensor((6, 64), FP32)
    tile = whole(text, x)
    weights = text.operator("exp", text.operator("row_expand_sub", tile, text.operator("row_max", tile)))
    text.store(text.operator("row_expand_div", weights, text.operator("row_sum", weights)), out, [0, 0])
    kernel = Kernel(text)
    values = numbers((6, 64), FP32)
    wanted = np.exp(values - values.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    assert kernel(values, values) == 0
    np.testing.assert_allclose(values, wanted, rtol=1e-5)


def test_a_load_read_again_after_a_store_in_place():
    """The second store needs all of what the first one overwrites."""
    text = ModuleText()
    x, out, other = (text.tensor((6, 512), FP32) for _ in range(3))
    tile = whole(text, x)
    text.store(text.operator("exp", tile), out, [0, 0])
    text.store(text.operator("row_expand_sub", tile, text.operator("row_max", tile)), other, [0, 0])
    kernel = Kernel(text)
    values, second = numbers((6, 512), FP32), np.zeros((6, 512), np.float32)
    first = values.copy()
    assert kernel(first, first, second) == 0
    np.testing.assert_allclose(first, np.exp(values), rtol=1e-6)
    np.testing.assert_array_equal(second, values - values.max(1, keepdims=True))


def test_stores_that_overlap_happen_in_order():
    text = ModuleText()
    x, out, other = (text.tensor((6, 64), FP32) for _ in range(3))
    tile = whole(text, x)
    text.store(text.operator("exp", tile), out, [0, 0])
    text.store(text.operator("neg", tile), other, [0, 0])
    kernel = Kernel(text)
    values = numbers((6, 64), FP32)
    for shift in (-64, -5, 0, 5, 64):
        memory = np.zeros(1000, np.float32)
        first, second = memory[300:684].reshape(6, 64), memory[300 + shift : 684 + shift].reshape(6, 64)
        wanted = memory.copy()
        wanted[300:684] = np.exp(values).reshape(-1)
        wanted[300 + shift : 684 + shift] = -values.reshape(-1)
        assert kernel(values, first, second) == 0
        np.testing.assert_allclose(memory, wanted, rtol=1e-6)
