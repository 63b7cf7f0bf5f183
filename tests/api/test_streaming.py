"""Rows in batches while the crawl runs, and a dataset for more of them than memory holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.wire.waiting import until
from tests.wire_service import JobScript, WireService, crawl_rows
from webdata_nb import settings
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import IncompleteResult, InvalidArgument, JobFailed, JobTimeout
from webdata_nb.toolkit.api import Session, acrawl_df, connect, crawl_df


@pytest.mark.usefixtures("connected")
def test_batches_add_up_to_whole_frame(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(45))
    batches = list(crawl_df(SITE, stream=20))
    assert [len(batch) for batch in batches] == [20, 20, 5]
    whole = crawl_df(SITE, cache=False)
    joined = pd.concat(batches, ignore_index=True)
    assert joined.equals(whole)
    assert joined.dtypes.equals(whole.dtypes)
    assert [receipt_of(batch)["first_row"] for batch in batches] == [0, 20, 40]
    # What the cache has is streamed from there.
    crawl_df(SITE)
    before = len(service.requests)
    again = list(crawl_df(SITE, stream=30))
    assert [len(batch) for batch in again] == [30, 15]
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_progress_of_stream_ends_with_its_row_count(
    service: WireService, caplog: pytest.LogCaptureFixture
) -> None:
    service.crawl = JobScript(crawl_rows(45))
    with caplog.at_level("INFO", "webdata_nb"):
        assert sum(map(len, crawl_df(SITE, stream=20, progress="log"))) == 45
    assert f"crawl {SITE}: 45 rows" in caplog.messages[-1]


@pytest.mark.usefixtures("connected")
def test_first_batch_arrives_while_crawl_runs(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(45), running=True)
    got = []
    for batch in crawl_df(SITE, stream=20):
        got.append(len(batch))
        job = next(iter(service.jobs.values()))
        if len(got) < 3:
            assert job.status == "running"
        if len(got) == 2:
            job.script.running = False
    assert got == [20, 20, 5]


@pytest.mark.usefixtures("connected")
def test_leaving_loop_cancels_crawl(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(45), running=True)
    for _ in crawl_df(SITE, stream=True):
        break
    assert service.final_statuses() == ["cancelled"]
    # Nothing begins before the loop does.
    crawl_df(SITE, stream=True)
    assert len(service.jobs) == 1


async def test_async_loop_and_cancelled_task(service: WireService, connected: Session) -> None:
    service.crawl = JobScript(crawl_rows(25))
    stream = await acrawl_df(SITE, stream=True, session=connected)
    assert [len(batch) async for batch in stream] == [20, 5]

    service.crawl = JobScript(crawl_rows(5), running=True)
    service.polled.clear()

    async def read() -> None:
        async for _ in connected.crawl_df(SITE, stream=True):
            pass

    task = asyncio.create_task(read())
    await until(service.polled.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(service.final_statuses) == ["completed", "cancelled"]


@pytest.mark.usefixtures("connected")
def test_job_error_follows_last_batch(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(25), status="failed", error="gone")
    got: list[pd.DataFrame] = []
    with pytest.raises(JobFailed, match="gone"):
        got.extend(crawl_df(SITE, stream=True))
    assert [len(batch) for batch in got] == [20, 5]
    service.crawl = JobScript(crawl_rows(25), total=30)
    with pytest.raises(IncompleteResult, match="25 of 30"):
        list(crawl_df(SITE, stream=True))
    assert sum(len(b) for b in crawl_df(SITE, stream=True, on_incomplete="ignore")) == 25
    service.crawl = JobScript(crawl_rows(5), running=True)
    with pytest.raises(JobTimeout) as late:
        list(crawl_df(SITE, stream=True, timeout=5))
    assert service.jobs[late.value.job_id].status == "running"


@pytest.mark.usefixtures("connected")
def test_several_sites_run_one_after_another(service: WireService) -> None:
    batches = list(crawl_df([SITE, SITE + "b"], stream=True))
    joined = pd.concat(batches, ignore_index=True)
    assert joined["start_url"].tolist() == [SITE] * 5 + [SITE + "b"] * 5
    service.crawl = JobScript(crawl_rows(2), status="failed", error="gone")
    failed = pd.concat(list(crawl_df([SITE + "c"], stream=True)), ignore_index=True)
    assert failed["success"].tolist() == [True, True, False]
    with pytest.raises(JobFailed):
        list(crawl_df([SITE + "d"], stream=True, on_error="raise"))


@pytest.mark.usefixtures("connected")
def test_out_writes_dataset_for_any_reader(service: WireService, tmp_path: Path) -> None:
    service.crawl = JobScript(crawl_rows(45))
    folder = tmp_path / "pages"
    rows = sum(len(batch) for batch in crawl_df(SITE, stream=True, out=folder))
    assert rows == 45
    list(crawl_df(SITE + "b", stream=True, out=folder))
    jobs = {f"job_id={job_id}" for job_id in service.jobs}
    assert {each.name for each in folder.iterdir()} == jobs
    assert ds.dataset(folder, partitioning="hive").count_rows() == 90
    assert pl.scan_parquet(folder / "*" / "*.parquet").collect().height == 90
    counted = duckdb.sql(f"select count(*) from '{folder}/*/*.parquet'")
    assert counted is not None
    assert counted.fetchall() == [(90,)]


@pytest.mark.usefixtures("connected")
def test_incompatible_arguments_are_rejected(service: WireService, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"stream": 0}, "stream must be True, False or the rows of each frame, 1 to 1000; it is 0"),
        ({"stream": 1001}, "1 to 1000; it is 1001"),
        ({"stream": True, "out": tmp_path / "x.parquet"}, "directory"),
        ({"stream": "yes"}, "stream"),
    ]
    for arguments, words in wrong:
        with pytest.raises(InvalidArgument, match=words):
            crawl_df(SITE, **arguments)
    assert service.requests == []


@pytest.fixture
def local_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    with connect() as made:
        yield made
    stop(settings.current())


@pytest.mark.slow
def test_with_the_events_of_a_real_service(sample_site: SampleSite, local_session: Session) -> None:
    batches = list(local_session.crawl_df(sample_site.url, max_pages=25, stream=10))
    assert [len(batch) for batch in batches] == [10, 10, 5]
    joined = pd.concat(batches, ignore_index=True)
    whole = local_session.crawl_df(sample_site.url, max_pages=25)
    assert joined["url"].tolist() == whole["url"].tolist()
    assert joined["markdown"].equals(whole["markdown"])
