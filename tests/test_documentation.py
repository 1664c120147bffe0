"""The code blocks of README.md and docs/ run, top to bottom, one namespace a page."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python( raises=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_code_blocks_run(page):
    text = page.read_text()
    namespace = {"__name__": f"documentation_{page.stem}"}
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name = f"<{page.name}:{line}>"
        source = match[3]
        # Kernels with control flow are rewritten from their source, which inspect finds here.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        code = compile(source, name, "exec")
        if match[2]:
            with pytest.raises(Exception, match=".") as caught:
                exec(code, namespace)
            assert type(caught.value).__name__ == match[2]
        else:
            exec(code, namespace)


def test_relative_links_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
