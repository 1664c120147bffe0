"""Code that this package itself needs in every process: compiled once per machine."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit.runtime.linking import link_shared
from pypto_jit.runtime.store import environment
from pypto_jit.runtime.store.disk import open_store
from pypto_jit.runtime.store.keys import Key
from pypto_jit.runtime.store.requests import environment_sections
from pypto_jit.runtime.store.serialization import OBJECT, SHARED


def stored_code(kind: str, text: str, compile_text: Callable[[], bytes]) -> tuple[bytes, bytes | None]:
    """Object code of a text, and a shared object of it where there can be one.

    Args:
        kind: what it is, for people who list the cache.
        text: what it is compiled from.
        compile_text: compiles it.
    """
    store = open_store()
    package = environment.package_digest(store.root / "sources.json") if store is not None else None
    if store is None or package is None:
        return compile_text(), None
    key = Key((*environment_sections(package), ("kind", kind.encode()), ("text", text.encode())))
    entry = store.artifact(key.digest, key)
    if entry is not None and OBJECT in entry.files:
        return entry.files[OBJECT], entry.files.get(SHARED)
    code = compile_text()
    shared = link_shared(code)
    files = {OBJECT: code} if shared is None else {OBJECT: code, SHARED: shared}
    store.publish_artifact(key, {"kind": kind}, files)
    return code, shared
