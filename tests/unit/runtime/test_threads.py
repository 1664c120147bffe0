"""The thread count, and whose threads they are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from pypto_jit.runtime.threads import find_openmp, thread_count


def test_follows_torch():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert thread_count() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="torch uses another OpenMP")
def test_the_pool_is_the_one_torch_loaded():
    openmp = find_openmp()
    assert openmp is not None
    with open("/proc/self/maps") as maps:
        assert any(os.path.realpath(openmp.path) in line for line in maps)
    assert openmp.parallel
    assert openmp.thread_num
    assert openmp.num_threads


def test_a_forked_child_is_serial():
    script = (
        "import os, torch\n"
        "from pypto_jit.runtime.threads import thread_count\n"
        "torch.set_num_threads(4)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(10 + thread_count())\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), thread_count())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11", "4"]
