"""Known pages, failed rows fetched again, what was answered before, and what a call may cost."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from starlette.responses import JSONResponse, Response

import webdata_nb
from tests.api.receipts import SECRET, SITE, receipt_of
from tests.wire_service import JobScript, WireService, crawl_rows, search_rows
from webdata_nb.contract import paths
from webdata_nb.contract.choices import Format
from webdata_nb.errors import InvalidArgument, OverBudget
from webdata_nb.toolkit.api import (
    crawl_df,
    creatives_df,
    estimate,
    history_df,
    retry_failed,
    scrape_df,
    search_df,
)

BROKEN = {"success": False, "status": "failed", "error": "timeout", "markdown": None}


@pytest.mark.usefixtures("connected")
def test_scrape_gives_one_row_per_url_in_order(service: WireService) -> None:
    urls = [SITE + "b", SITE + "a", SITE + "b"]
    service.crawl = JobScript(crawl_rows(1))
    df = scrape_df(urls, scrape_options={"formats": ["html"]})
    assert df["start_url"].tolist() == urls
    assert (
        service.posted(paths.CRAWL)
        == [
            {
                "url": url,
                "max_pages": 1,
                "max_depth": 1,
                "scrape_options": {"formats": ["html"]},
            }
            for url in urls[:2]
        ]
        or len(service.posted(paths.CRAWL)) == 2
    )
    assert len(scrape_df(SITE)) == 1
    assert receipt_of(scrape_df(urls, scrape_options={"formats": ["html"]}))["cache"] == "hit"
    wrong: Any
    for wrong in ([], 5):
        with pytest.raises(InvalidArgument):
            scrape_df(wrong)


@pytest.mark.usefixtures("connected")
def test_page_without_row_has_reason(service: WireService) -> None:
    service.crawl = JobScript(
        [], reply_fields={"receipt": {"counts": {"robots": 1}, "examples": {}}}
    )
    with pytest.warns(UserWarning, match="not fetched: robots"):
        df = scrape_df([SITE])
    assert df["success"].tolist() == [False]
    assert df["error"].tolist() == ["not fetched: robots"]


@pytest.mark.usefixtures("connected")
def test_retry_merges_failed_pages_of_crawl(service: WireService) -> None:
    rows = crawl_rows(4)
    rows[1] |= BROKEN
    rows[3] |= BROKEN
    service.crawl = JobScript(rows)
    df = crawl_df(SITE, scrape_options={"formats": ["markdown"], "timeout": 5000}, max_pages=4)
    df["mine"] = ["p", "q", "r", "s"]
    df = df.iloc[[1, 0, 3]]  # a user may filter and sort
    service.crawl = JobScript([{**crawl_rows(1)[0], "markdown": "# New"}])
    fixed = retry_failed(df, headers={"X-Key": SECRET})
    assert sorted(body["url"] for body in service.posted(paths.CRAWL)[1:]) == [
        "https://site.test/1",
        "https://site.test/3",
    ]
    sent = service.posted(paths.CRAWL)[1]
    assert sent["scrape_options"] == {
        "formats": ["markdown"],
        "timeout": 5000,
        "headers": {"X-Key": SECRET},
    }
    assert fixed["success"].tolist() == [True] * 3
    assert fixed["markdown"].tolist() == ["# New", "# Page 0", "# New"]
    assert fixed["url"].tolist() == df["url"].tolist()
    assert fixed["depth"].tolist() == df["depth"].tolist()
    assert fixed["mine"].tolist() == ["q", "p", "s"]
    assert fixed.dtypes.equals(df.dtypes)
    assert list(fixed.index) == list(df.index)
    assert receipt_of(fixed)["retried"] == {"rows": 2, "failed": 0}
    assert receipt_of(fixed)["counts"]["failed"] == 0
    assert SECRET not in str(fixed.attrs)


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
@pytest.mark.usefixtures("connected")
def test_retry_merges_failed_pages_of_search_by_rank(service: WireService, backend: Any) -> None:
    rows = search_rows(3)
    rows[1] |= {"success": False, "scraped": False, "error": "dns", "markdown": None}
    service.search = JobScript(rows)
    df = search_df("q", dtype_backend=backend)
    service.crawl = JobScript([{**crawl_rows(1)[0], "title": "The page's own"}])
    fixed = retry_failed(df)
    assert service.posted(paths.CRAWL)[0]["url"] == "https://site.test/2"
    assert fixed["rank"].tolist() == [1, 2, 3]
    assert fixed["title"].tolist()[1] == "Result 2"
    assert fixed["markdown"].tolist()[1] == "# Page 0"
    assert fixed["success"].tolist() == fixed["scraped"].tolist() == [True] * 3
    assert pd.isna(fixed["error"].tolist()[1])
    assert fixed.dtypes.equals(df.dtypes)
    # What fails once more says so, and nothing else is touched.
    webdata_nb.cache.clear()
    service.crawl = JobScript([{**crawl_rows(1)[0], **BROKEN, "url": "x"}])
    again = retry_failed(df)
    assert again["success"].tolist() == [True, False, True]
    assert again["error"].tolist()[1] == "timeout"
    assert receipt_of(again)["retried"] == {"rows": 1, "failed": 1}


@pytest.mark.usefixtures("connected")
def test_retry_reruns_failed_inputs(service: WireService) -> None:
    def broken(path: str, _query: dict[str, str]) -> Response | None:
        body = service.requests[-1].body or {}
        wrong = body.get("query") == "b" or body.get("advertiser_id") == "AR2"
        return JSONResponse({"detail": "a bad day"}, 422) if wrong and path else None

    service.fault = broken
    found = search_df(["a", "b", "c"], country=["us"], num_results=3)
    listed = creatives_df(["AR1", "AR2"], max_rows=2)
    service.fault = lambda _path, _query: None
    fixed = retry_failed(found)
    assert fixed["query"].tolist() == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert fixed["success"].all()
    assert fixed.dtypes.equals(found.dtypes)
    assert service.posted(paths.SEARCH)[-1] == {"query": "b", "country": "us", "num_results": 3}
    both = retry_failed(listed)
    assert both["advertiser"].tolist() == ["AR1"] * 2 + ["AR2"] * 2


@pytest.mark.usefixtures("connected")
def test_retry_needs_receipt_and_obeys_budget(service: WireService) -> None:
    rows = crawl_rows(2)
    rows[1] |= BROKEN
    service.crawl = JobScript(rows)
    df = crawl_df(SITE)
    before = len(service.jobs)
    with pytest.raises(OverBudget):
        retry_failed(df, budget=0)
    for wrong in (pd.DataFrame({"url": []}), df.drop(columns="success"), None):
        with pytest.raises(InvalidArgument, match="df"):
            retry_failed(wrong)  # type: ignore[arg-type]
    assert len(service.jobs) == before


@pytest.mark.usefixtures("connected")
def test_history_of_call_is_one_frame(service: WireService) -> None:
    for count in (3, 2):
        service.search = JobScript(search_rows(count))
        search_df("q", refresh=True)
    history = history_df(search_df, "q")
    assert history["rank"].tolist() == [1, 2, 3, 1, 2]
    assert history["taken_at"].nunique() == 2
    assert history["taken_at"].is_monotonic_increasing
    search_df(["q", "z"])
    both = history_df(search_df, ["q", "z"])
    assert list(both.columns)[:3] == ["taken_at", "query", "fetched_at"]
    assert len(both) == 7
    none = history_df(search_df, "never")
    assert len(none) == 0
    assert none.dtypes.equals(history.dtypes)
    with pytest.raises(InvalidArgument, match="function"):
        history_df(print, "q")
    with pytest.raises(InvalidArgument, match="countri"):
        history_df(search_df, "q", countri="us")  # type: ignore[arg-type]


@pytest.mark.usefixtures("connected")
def test_inputs_of_one_call_share_its_time(service: WireService) -> None:
    queries = [f"query {n}" for n in range(6)]
    service.search = JobScript(search_rows(2))
    search_df(queries[0])  # an answer of an earlier call keeps its own time
    for _ in range(2):
        search_df(queries, refresh=True)
    search_df(queries[1:], country=["de"], refresh=True)
    history = history_df(search_df, queries)
    assert history["taken_at"].nunique() == 3
    assert history["taken_at"].is_monotonic_increasing
    ranks = history[history["rank"] == 1].pivot_table(
        index="query", columns="taken_at", values="rank", aggfunc="size"
    )
    assert ranks.count().tolist() == [1, 6, 6]
    german = history_df(search_df, queries[1:], country=["de"])
    assert len(set(german["taken_at"])) == 1


@pytest.mark.usefixtures("connected")
def test_estimate_of_call(service: WireService) -> None:
    service.weights = [
        {"platform": "crawl", "operation": "page", "weight": 2},
        {"platform": "crawl", "operation": "render", "weight": 3},
        {"platform": "crawl", "operation": "extract", "weight": 4},
        {"platform": "search", "operation": "discovery", "weight": 1},
        {"platform": "partner_ads_transparency", "operation": "ocr", "weight": 2},
    ]
    assert estimate(crawl_df, SITE, max_pages=10).credits == 20
    formats: list[Format] = ["screenshot"]
    dear = estimate(crawl_df, SITE, max_pages=10, formats=formats, extract={"prompt": "x"})
    assert dear.parts == {"crawl/page": 20, "crawl/render": 30, "crawl/extract": 40}
    assert estimate(scrape_df, [SITE, SITE + "b"]).credits == 4
    assert estimate(search_df, ["a", "b", "a"], formats=[]).credits == 2
    search_df("a", formats=[])
    known = estimate(search_df, ["a", "b"], formats=[])
    assert (known.credits, known.inputs, known.cached) == (1, 2, 1)
    assert "1 of 2 from the cache" in str(known)
    assert estimate(creatives_df, "AR1").credits is None
    assert estimate(creatives_df, "AR1", limit=3, ocr=True).credits == 10
    assert service.posted(paths.CRAWL) == []
