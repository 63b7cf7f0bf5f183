"""Exports hold a few rows at a time, however large the job is."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.exports.jobs import crawl_row, ended
from webdata_nb.service.exports import as_csv, as_json, as_zip
from webdata_nb.service.exports.source import BATCH, StoredRows
from webdata_nb.service.store.sqlite.store import SqliteStore

MIB = 1024 * 1024
ROWS = 96
# A batch of rows as stored, decoded, and as written, some of it twice; a third of the job.
MOST = 8 * BATCH * MIB

Stream = Callable[[Any, Any], AsyncIterator[bytes]]


async def counted(stream: AsyncIterator[bytes]) -> int:
    return sum([len(piece) async for piece in stream])


@pytest.mark.slow
@pytest.mark.parametrize("write", [as_json.stream, as_csv.stream, as_zip.stream])
async def test_a_large_job_is_exported_in_little_memory(tmp_path: Path, write: Stream) -> None:
    text = "lorem ipsum, dolor " * (MIB // 19)
    async with SqliteStore(tmp_path / "jobs.sqlite") as store:
        job = await ended(store, "crawl", (crawl_row(n, markdown=text) for n in range(ROWS)))
        tracemalloc.start()
        try:
            sent = await counted(write(job, StoredRows(store, job)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sent > (ROWS * MIB * 0.9 if write is not as_zip.stream else 1)
    assert peak < MOST, f"{peak / MIB:.0f} MiB"
