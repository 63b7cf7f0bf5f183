"""Jobs that fail, stop early, lose rows or find nothing: never a short frame in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from starlette.responses import JSONResponse, Response

import webdata_nb
from tests.api.receipts import SITE, receipt_of
from tests.wire_service import JobScript, WireService, crawl_rows, search_rows
from webdata_nb.contract import paths
from webdata_nb.errors import (
    ConnectionFailed,
    IncompleteResult,
    JobCancelled,
    JobFailed,
    JobTimeout,
    WebdataWarning,
)
from webdata_nb.toolkit.api import crawl_df, creatives_df, jobs_df, search_df, weights_df
from webdata_nb.toolkit.jobs import sources


@pytest.mark.usefixtures("connected")
def test_failed_job_raises_reason_and_partial_rows(service: WireService, cached: Path) -> None:
    service.crawl = JobScript(crawl_rows(2), status="failed", error="the site is gone")
    with pytest.raises(JobFailed, match="the site is gone") as failed:
        crawl_df(SITE)
    assert failed.value.job_id in service.jobs
    assert failed.value.reason == "the site is gone"
    assert len(failed.value.partial) == 2
    service.search = JobScript([], status="failed")
    with pytest.raises(JobFailed, match="no reason"):
        search_df("q")
    assert list(cached.rglob("*.parquet")) == []


@pytest.mark.parametrize("function", [search_df, crawl_df])
@pytest.mark.usefixtures("connected")
def test_missing_rows_raise_error_with_partial_frame(
    service: WireService, function: Callable[..., pd.DataFrame], cached: Path
) -> None:
    service.search = JobScript(search_rows(3), total=5)
    service.crawl = JobScript(crawl_rows(3), total=5)
    with pytest.raises(IncompleteResult, match="3 of 5 rows") as raised:
        function(SITE)
    assert (raised.value.expected, raised.value.arrived) == (5, 3)
    assert len(raised.value.frame) == 3
    with pytest.warns(UserWarning, match="3 of 5 rows"):
        warned = function(SITE, on_incomplete="warn")
    ignored = function(SITE, on_incomplete="ignore")
    assert len(warned) == len(ignored) == 3
    assert receipt_of(ignored)["counts"]["total"] == 5
    assert list(cached.rglob("*.parquet")) == []


@pytest.mark.usefixtures("connected")
def test_service_that_ignores_paging_is_detected(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(150), ignores_page=True)
    with pytest.raises(IncompleteResult, match="ignores `page`") as raised:
        crawl_df(SITE)
    assert len(raised.value.frame) == sources.ROWS


@pytest.mark.usefixtures("connected")
def test_unreadable_page_of_rows_costs_only_later_rows(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(250))

    def gone(path: str, query: dict[str, str]) -> Response | None:
        if path.startswith(paths.CRAWL + "/") and query.get("page") == "2":
            return JSONResponse({"detail": "gone"}, 410)
        return None

    service.fault = gone
    with pytest.raises(
        IncompleteResult, match=r"50 of 250 rows arrived: the results have expired: gone"
    ) as raised:
        crawl_df(SITE)
    assert raised.value.frame["url"].tolist() == [row["url"] for row in service.crawl.rows[:50]]
    assert raised.value.__cause__ is not None


@pytest.mark.usefixtures("connected")
def test_repeated_cursor_counts_as_missing_rows(service: WireService) -> None:
    service.creatives_cursor = "0"
    with pytest.raises(IncompleteResult, match="repeats a cursor") as raised:
        creatives_df("AR1")
    assert raised.value.frame["creative_id"].tolist()[:5] == [f"CR{n}" for n in range(1, 6)]
    assert len(creatives_df("AR1", max_rows=5)) == 5


@pytest.mark.usefixtures("connected")
def test_empty_result_is_typed_frame_with_warning(service: WireService, cached: Path) -> None:
    full = search_df("q", cache=False), crawl_df(SITE, cache=False)
    service.search, service.crawl, service.creatives = JobScript([]), JobScript([]), []
    with pytest.warns(UserWarning, match="gave no rows; asked: stand-in: ok, 0 rows"):
        found = search_df("q")
    with pytest.warns(UserWarning, match=f"crawl {SITE} gave no rows"):
        crawled = crawl_df(SITE)
    with pytest.warns(UserWarning, match="creatives AR1 gave no rows"):
        assert len(creatives_df("AR1")) == 0
    assert found.dtypes.equals(full[0].dtypes)
    assert crawled.dtypes.equals(full[1].dtypes)
    # Perhaps an engine was blocked: the next call should ask again.
    assert list(cached.rglob("*.parquet")) == []


@pytest.mark.usefixtures("connected")
def test_failed_pages_are_rows_and_failed_crawl_is_not_cached(
    service: WireService, cached: Path
) -> None:
    rows = [row | {"success": False, "status": "failed", "error": "dns"} for row in crawl_rows(2)]
    service.crawl = JobScript(rows)
    with pytest.warns(UserWarning, match=r"no page could be read \(2 failed\)"):
        df = crawl_df(SITE)
    assert df["success"].tolist() == [False, False]
    assert df["error"].tolist() == ["dns", "dns"]
    assert receipt_of(df)["line"].startswith(f"crawl {SITE}: 2 rows (0 ok, 2 failed)")
    assert list(cached.rglob("*.parquet")) == []


@pytest.mark.usefixtures("connected")
def test_job_cancelled_by_another_client(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), status="cancelled")
    with pytest.raises(JobCancelled) as raised:
        crawl_df(SITE)
    assert len(raised.value.partial) == 2
    df = crawl_df(SITE, on_cancel="partial")
    assert (len(df), receipt_of(df)["status"]) == (2, "cancelled")
    assert len(webdata_nb.cache.ls()) == 0


@pytest.mark.usefixtures("connected")
def test_timeout_ends_wait_but_not_job(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    with pytest.raises(JobTimeout, match=r"within timeout=5 s") as raised:
        crawl_df(SITE, timeout=5)
    assert service.jobs[raised.value.job_id].status == "running"
    assert len(raised.value.partial) == 2
    service.search = JobScript([], running=True)
    with pytest.raises(JobTimeout) as without:
        search_df("q", timeout=5)
    assert without.value.partial is None


@pytest.mark.usefixtures("connected")
def test_unresponsive_service_times_out(service: WireService) -> None:
    service.silent = True
    for call in (weights_df, jobs_df):
        with pytest.raises(ConnectionFailed, match=r"timeout=0\.2 s"):
            call(timeout=0.2)


def fallback_reply() -> dict[str, Any]:
    return {
        "engine_used": "engine_two",
        "provider_used": "brave",
        "fallback_used": True,
        "fallback_chain": [
            {"provider": "serper", "status": "auth", "detail": "the key is not accepted"},
            {"provider": "brave", "status": "ok", "results_count": 3},
        ],
    }


@pytest.mark.usefixtures("connected")
def test_fallback_warns_once_a_call(service: WireService) -> None:
    service.search = JobScript(search_rows(3), reply_fields=fallback_reply())
    message = (
        "search q: these are results of brave (engine_two), a fallback: engine_one was asked, "
        "and serper did not answer (auth: the key is not accepted)"
    )
    for _ in ("fresh", "cached"):
        with pytest.warns(WebdataWarning) as caught:
            found = search_df("q")
        assert [str(warning.message) for warning in caught] == [message]
        assert set(found["provider"]) == {"brave"}
    with pytest.warns(WebdataWarning, match="2 of 2 inputs, such as a: these are results") as many:
        search_df(["a", "b"])
    assert len(many) == 1
    with pytest.warns(WebdataWarning, match="engine_one was asked") as streamed:
        parts = list(search_df("q", stream=True, cache=False))
    assert len(streamed) == 1
    assert {name for part in parts for name in part["provider"]} == {"brave"}


@pytest.mark.usefixtures("connected")
def test_engine_that_was_asked_for_is_no_fallback(service: WireService) -> None:
    fields = {**fallback_reply(), "fallback_used": False}
    service.search = JobScript(search_rows(3), reply_fields=fields)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(search_df("q", engine="engine_two")) == 3
