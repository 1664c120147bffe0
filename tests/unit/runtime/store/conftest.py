"""The store's tests have a cache, of their own."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Turn the disk cache on, in a directory of this test."""
    monkeypatch.setenv("PYPTO_JIT_CACHE", "1")
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "own"))
