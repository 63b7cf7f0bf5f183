"""The memory of many rows: where it lies, and that the system gets back what is free."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Any

import orjson
import pyarrow as pa
import pytest

from webdata_nb.toolkit.frames import rows
from webdata_nb.toolkit.frames.rows import TRIMMABLE_POOL

PAGES = [{"url": f"https://site.test/{number}", "markdown": "word " * 8000} for number in range(40)]
# Every tenth text stays, so that none of the memory between them is at an end of the heap.
LEFT_BEHIND = """
from pathlib import Path
from webdata_nb.toolkit.frames import rows

def held():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

pages = [{"url": "https://site.test/", "markdown": "word " * 6000} for _ in range(SIZE)]
table = rows.to_table("crawl", pages)
texts = [b"x" * 30_000 + b"%d" % number for number in range(2_000)]
some = texts[::10]
del texts
before = held()
rows.trim_memory(ROWS)
print(before - held())
"""


def freed_kb(count: int, rows: str = "table") -> int:
    """Return how many kB a process has less of after rows of so many pages."""
    code = LEFT_BEHIND.replace("SIZE", str(count)).replace("ROWS", rows)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_rows_lie_in_the_memory_that_was_asked_for() -> None:
    arrow, returning = pa.default_memory_pool(), TRIMMABLE_POOL
    before = arrow.bytes_allocated(), returning.bytes_allocated()
    made = rows.trimmed_batch("crawl", PAGES).table
    assert arrow.bytes_allocated() == before[0]
    assert returning.bytes_allocated() >= before[1] + made.nbytes
    assert made.equals(rows.to_table("crawl", PAGES))


def test_a_value_that_does_not_fit_lies_there_too() -> None:
    odd: list[dict[str, Any]] = [
        *PAGES,
        {"url": "https://site.test/", "markdown": 1, "fetched_at": "?", "depth": 2**40},
    ]
    arrow = pa.default_memory_pool()
    before = arrow.bytes_allocated()
    made = rows.trimmed_batch("crawl", odd).table
    assert arrow.bytes_allocated() == before
    assert made.equals(rows.to_table("crawl", odd))


def test_equal_links_are_one_text_also_of_several_pages_of_rows() -> None:
    links = ["https://site.test/a", "https://site.test/b"]
    plain = [{"url": "https://site.test/", "links": links}, {"url": "x", "links": None}]
    texts: dict[str, str] = {}
    # Decoded anew each time, as replies are: equal texts, but not the same ones.
    made = [
        rows.trimmed_batch("crawl", orjson.loads(orjson.dumps(plain)), texts=texts)
        for _ in range(2)
    ]
    first, second = (batch.objects["links"] for batch in made)
    assert first == second == [links, None]
    assert [a is b for a, b in zip(first[0], second[0], strict=True)] == [True, True]
    assert first[0] is not second[0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep nothing that is free")
def test_the_system_gets_back_what_many_rows_left_behind() -> None:
    assert freed_kb(100) > 40_000
    assert freed_kb(1, rows="") > 40_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep nothing that is free")
def test_a_few_rows_are_not_worth_the_time() -> None:
    assert freed_kb(1) < 1_000
