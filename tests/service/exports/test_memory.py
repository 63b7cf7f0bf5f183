"""Exports of large jobs use little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.exports.jobs import crawl_row, ended_job
from tests.service.job_stores import store_of
from webdata_nb.service.exports import BATCH_SIZE, StoredRows, stream_csv, stream_json, stream_zip

MIB = 1024 * 1024
ROWS = 96
# A batch of stored, decoded and written rows, some of them copied; a third of the job.
MAX_PEAK_BYTES = 8 * BATCH_SIZE * MIB

Stream = Callable[[Any, Any], AsyncIterator[bytes]]


async def count_bytes(stream: AsyncIterator[bytes]) -> int:
    return sum([len(piece) async for piece in stream])


@pytest.mark.slow
@pytest.mark.parametrize("write", [stream_json, stream_csv, stream_zip])
async def test_export_of_large_job_uses_little_memory(tmp_path: Path, write: Stream) -> None:
    text = "lorem ipsum, dolor " * (MIB // 19)
    async with store_of(tmp_path) as store:
        job = await ended_job(store, "crawl", (crawl_row(n, markdown=text) for n in range(ROWS)))
        tracemalloc.start()
        try:
            size = await count_bytes(write(job, StoredRows(store, job)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > (ROWS * MIB * 0.9 if write is not stream_zip else 1)
    assert peak < MAX_PEAK_BYTES, f"{peak / MIB:.0f} MiB"
