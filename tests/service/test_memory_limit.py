"""A process that crashes for a lack of memory says so, and only that one."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from webdata_nb.service.runtime.process import MEMORY_LIMIT_EXIT

LIMITED = """
import ctypes, os
from webdata_nb.service.runtime.process import limit_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
limit_memory(64 * 1024 * 1024)
"""
CRASHES_OF_MEMORY = {
    "one large allocation": "libc.malloc(2**30); libc.abort()",
    "many small ones": "while libc.malloc(100_000): pass\nlibc.abort()",
    "nothing is left": "libc.malloc(2**30); ctypes.string_at(0)",
    "full": "kept = bytes(60 * 1024 * 1024)\nctypes.set_errno(0); libc.abort()",
}


def exit_code_of(crash: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", f"{LIMITED}\n{crash}"], stderr=subprocess.DEVNULL, check=False
    ).returncode


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
@pytest.mark.parametrize("crash", CRASHES_OF_MEMORY.values(), ids=CRASHES_OF_MEMORY)
def test_a_crash_for_a_lack_of_memory_has_its_own_exit_code(crash: str) -> None:
    assert exit_code_of(crash) == MEMORY_LIMIT_EXIT


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
@pytest.mark.parametrize(
    ("crash", "number"),
    [("libc.abort()", signal.SIGABRT), ("ctypes.string_at(0)", signal.SIGSEGV)],
)
def test_any_other_crash_ends_by_its_signal(crash: str, number: int) -> None:
    assert exit_code_of(crash) == -number
