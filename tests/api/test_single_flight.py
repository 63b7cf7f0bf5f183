"""One run for one question: threads and processes that ask the same wait for one answer."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

from benchmarks import cache_together
from tests import preloaded
from tests.api.receipts import SITE, receipt_of
from tests.wire.waiting import until
from tests.wire_service import KEY, JobScript, WireService, crawl_rows
from webdata_nb.contract import paths
from webdata_nb.errors import ConnectionFailed, InvalidArgument, JobFailed, OverBudget
from webdata_nb.toolkit.api import Session, acrawl_df, crawl_df, creatives_df, search_df

ASK = """
import sys
from webdata_nb import connect
df = connect(base_url=sys.argv[1], api_key=sys.argv[2]).crawl_df("https://site.test/")
print(len(df), df.attrs["webdata"]["cache"])
"""


@pytest.mark.usefixtures("connected")
def test_identical_calls_in_threads_share_one_job(service: WireService) -> None:
    together = threading.Barrier(4)

    def ask(refresh: bool) -> str:
        together.wait(30)
        return str(receipt_of(crawl_df(SITE, refresh=refresh))["cache"])

    for refresh in (False, True):
        service.jobs.clear()
        with ThreadPoolExecutor(4) as threads:
            states = list(threads.map(ask, [refresh] * 4))
        assert len(service.jobs) == 1
        assert sorted(states) == ["hit", "hit", "hit", "miss"]


@pytest.mark.slow
def test_identical_calls_in_processes_share_one_job(service: WireService) -> None:
    calls = [
        preloaded.PACKAGE.start(
            *(ASK, service.url, KEY), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=120) for process in calls]
    assert [process.returncode for process in calls] == [0] * 4, outputs
    assert sorted(out.strip() for out, _ in outputs) == ["5 hit", "5 hit", "5 hit", "5 miss"]
    assert len(service.jobs) == 1


async def test_wait_for_identical_call_obeys_timeout(
    service: WireService, connected: Session
) -> None:
    service.crawl = JobScript(crawl_rows(1), running=True)
    first = asyncio.create_task(connected.acrawl_df(SITE))
    await until(service.polled.is_set)
    with pytest.raises(ConnectionFailed, match=r"timeout=0\.2 s"):
        await acrawl_df(SITE, session=connected, timeout=0.2)
    assert len(service.jobs) == 1
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.usefixtures("connected")
def test_waiting_call_runs_its_own_job_after_failure(service: WireService) -> None:
    together = threading.Barrier(2)
    service.crawl = JobScript([], status="failed", error="down")

    def ask() -> type[Exception] | None:
        together.wait(30)
        try:
            crawl_df(SITE)
        except JobFailed as error:
            return type(error)
        return None

    with ThreadPoolExecutor(2) as threads:
        assert [each.result() for each in [threads.submit(ask), threads.submit(ask)]] == [
            JobFailed
        ] * 2
    assert len(service.jobs) == 2


@pytest.mark.usefixtures("connected")
def test_stale_result_replaces_error(service: WireService) -> None:
    fresh = crawl_df(SITE)
    service.fault = lambda path, _query: (
        JSONResponse({"detail": "down"}, 501) if path == paths.CRAWL else None
    )
    with pytest.raises(Exception, match="does not offer this: down"):
        crawl_df(SITE, ttl=0, stale_if_error=True)  # what it does not offer will not pass

    service.fault = lambda _path, _query: None
    service.crawl = JobScript([], status="failed", error="the site is down")
    with pytest.raises(JobFailed):
        crawl_df(SITE, ttl=0)
    with pytest.warns(UserWarning, match=r"s ago, because of JobFailed.*the site is down"):
        stale = crawl_df(SITE, ttl=0, stale_if_error=True)
    assert stale.equals(fresh)
    assert receipt_of(stale)["cache"] == "stale"
    with pytest.raises(JobFailed):
        crawl_df(SITE, ttl=0, stale_if_error=0)
    with pytest.raises(JobFailed):
        crawl_df(SITE + "other", stale_if_error=True)
    with pytest.raises(InvalidArgument, match="stale_if_error"):
        crawl_df(SITE, stale_if_error=-1)


@pytest.mark.usefixtures("connected")
def test_budget_stops_call_before_start(service: WireService, tmp_path: Path) -> None:
    service.weights = [
        {"platform": "search", "operation": "discovery", "weight": 1},
        {"platform": "search", "operation": "scrape", "weight": 0.5},
        {"platform": "crawl", "operation": "page", "weight": 1},
        {"platform": "partner_ads_transparency", "operation": "creatives", "weight": 1},
    ]
    with pytest.raises(OverBudget, match=r"at most 24 credits .*budget=23") as stopped:
        search_df(["a", "b"], country=["us", "de"], budget=23)
    assert (stopped.value.estimate, stopped.value.budget) == (24, 23)
    assert service.jobs == {}
    assert len(search_df(["a", "b"], country=["us", "de"], budget=24)) == 12
    # What the cache answers costs nothing.
    assert len(search_df(["a", "b"], country=["us", "de"], budget=0)) == 12
    # Another service's default is not known, but the contract's greatest number is.
    with pytest.raises(OverBudget, match="1000"):
        crawl_df(SITE, budget=999)
    assert len(crawl_df(SITE, max_pages=5, budget=5, out=tmp_path / "x.parquet")) == 5
    with pytest.raises(InvalidArgument, match="set limit"):
        creatives_df("AR1", budget=100)
    assert len(creatives_df("AR1", limit=2, budget=2)) == 2
    with pytest.raises(InvalidArgument, match="budget"):
        search_df("q", budget=-1)


@pytest.mark.usefixtures("connected")
def test_recovered_service_gives_fresh_results(service: WireService) -> None:
    crawl_df(SITE)
    service.crawl = JobScript(crawl_rows(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(crawl_df(SITE, ttl=0, stale_if_error=True)) == 2


@pytest.fixture
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of the benchmark."""
    monkeypatch.setattr(cache_together, "subprocess", preloaded.FORKING_SUBPROCESS)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_readers")
def test_four_processes_download_once() -> None:
    failed, jobs, _ = cache_together.measure(0.5, 4)
    assert failed.failed == ()
    assert (failed.frames, jobs) == (1, 1)
    assert failed.reads >= 4


@pytest.mark.slow
@pytest.mark.usefixtures("forked_readers")
def test_concurrent_replacement_of_files_is_tolerated() -> None:
    failed, jobs = cache_together.measure_refreshed(0.5, 4)
    assert failed.failed == ()
    assert failed.frames == 1
    assert 1 <= jobs <= failed.calls[0] + 1
