"""Compares a cached crawl with reading the same columns of its file with pandas.

Prints the ratio of processor time in a warm process, the median of interleaved rounds. The call
also verifies the file's checksum, and looks up the file.

    python -m benchmarks.cached_call [rows] [rounds]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from benchmarks.floors import check
from webdata_nb import crawl_df, options
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.frames import rows
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.inputs import JobSpec

URL = "https://site.test/"
TEXT = "the aurora forecast of a cold night in the north and what it means for travellers"
WORDS = TEXT.split()


def page(number: int) -> dict[str, object]:
    """Return one page of about 14 kB in the format of the service."""
    text = " ".join(WORDS[(number * 7 + index) % len(WORDS)] for index in range(2300))
    return {
        "url": f"{URL}{number}",
        "title": f"Page {number}",
        "status": "completed",
        "status_code": 200,
        "success": True,
        "depth": number % 5,
        "time_taken": 0.25,
        "quality": {"score": 0.9, "words": 2300, "method": "article"},
        "content_hash": f"{number:064x}",
        "fetched_at": "2026-11-20T10:00:00.250000Z",
        "markdown": f"# Page {number}\n\n{text}",
        "metadata": {"language": "en", "description": text[:150], "og": {"type": "article"}},
    }


def cache_crawl(count: int) -> Path:
    """Store a crawl with this number of rows in the cache, as the call would."""
    spec = JobSpec.crawl(url=URL, max_pages=count)
    cache = ResultCache.of_spec(spec, CallOptions.of(session=None, cache=True))
    now = datetime.now(UTC)
    outcome = rows.JobOutcome("crawl", URL, "completed", "job", count, 0, count)
    batch = rows.batch("crawl", [page(n) for n in range(count)])
    result = cache.store(
        replace(batch, outcome=outcome),
        columns=spec.columns,
        request=spec.public_request,
        started_at=now,
    )
    path = result.cache_file
    assert path is not None
    return path


def cpu_seconds(work: Callable[[], pd.DataFrame]) -> float:
    """Return the processor seconds of one run, including Arrow's threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    with tempfile.TemporaryDirectory() as folder:
        options.cache_dir = folder
        path = cache_crawl(count)

        def ours() -> pd.DataFrame:
            return crawl_df(URL, max_pages=count, offline=True)

        columns = list(ours().columns)

        def peer() -> pd.DataFrame:
            frame: pd.DataFrame = pq.read_table(path, columns=columns).to_pandas()
            return frame

        pairs = [(cpu_seconds(ours), cpu_seconds(peer)) for _ in range(rounds)][3:]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    print(f"{count} rows, {len(columns)} columns, {len(pairs)} rounds")
    print(f"cached call {mine:.1f} ms, pq.read_table().to_pandas() {theirs:.1f} ms")
    sys.exit(not check("cached_call: processor time, of pq.read_table().to_pandas()", ratio))


if __name__ == "__main__":
    main()
