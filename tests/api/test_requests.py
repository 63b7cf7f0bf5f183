"""What a call sends, and the rows and columns that it returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pandas as pd
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.wire_service import JobScript, WireService, crawl_rows, creative_rows
from webdata_nb.contract import paths
from webdata_nb.toolkit.api import (
    Session,
    crawl_df,
    creatives_df,
    jobs_df,
    search_df,
    usage_df,
    weights_df,
)


@pytest.mark.usefixtures("connected")
def test_a_search_gives_its_rows_in_rank_order(service: WireService) -> None:
    df = search_df("arrow parquet", num_results=3)
    assert df["rank"].tolist() == [1, 2, 3]
    assert df["metadata"].tolist() == [{"language": "en"}] * 3
    assert list(df.columns) == [
        "rank",
        "url",
        "success",
        "scraped",
        "provider",
        "error",
        "id",
        "extra",
        "metadata",
        "title",
        "snippet",
        "markdown",
    ]
    receipt = receipt_of(df)
    assert (receipt["kind"], receipt["status"], receipt["cache"]) == (
        "search",
        "completed",
        "miss",
    )
    assert receipt["provider_used"] == "stand-in"
    assert set(df["provider"]) == {"stand-in"}
    assert receipt["fallback_chain"][0]["elapsed_ms"] == 12
    assert receipt["job_id"] in service.jobs
    assert json.loads(json.dumps(receipt)) == receipt


@pytest.mark.usefixtures("connected")
def test_a_crawl_of_several_pages_of_rows_is_whole_and_in_order(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(250))
    df = crawl_df(SITE, max_pages=250)
    assert df["url"].tolist() == [row["url"] for row in service.crawl.rows]
    pages = [each.query["page"] for each in service.requests if each.query.get("per_page") == "50"]
    assert pages == ["1", "2", "3", "4", "5"]
    assert receipt_of(df)["counts"] == {"rows": 250, "total": 250, "ok": 250, "failed": 0}


@pytest.mark.usefixtures("connected")
def test_creatives_are_read_to_the_last_cursor_or_to_the_limit(service: WireService) -> None:
    service.creatives = creative_rows(95)
    everything = creatives_df("AR1", region="anywhere")
    assert everything["position"].tolist() == list(range(1, 96))
    some = creatives_df("https://ads.test/advertiser/AR1?x=1", limit=47)
    assert some["creative_id"].tolist() == [f"CR{n}" for n in range(1, 48)]
    sent = service.posted(paths.CREATIVES)
    assert sent[-1]["limit"] == 7
    assert sent[0] == {"advertiser_id": "AR1", "region": "anywhere"}
    assert sent[-1]["url"] == "https://ads.test/advertiser/AR1?x=1"
    assert [body.get("cursor") for body in sent] == [None, "40", "80", None, "40"]
    # One answer, whichever name the number has.
    same = creatives_df("https://ads.test/advertiser/AR1?x=1", max_rows=47)
    assert receipt_of(same)["cache"] == "hit"
    assert receipt_of(some)["request"]["limit"] == 47
    assert len(service.posted(paths.CREATIVES)) == len(sent)
    assert len(creatives_df("AR1", limit=3)) == 3
    assert service.posted(paths.CREATIVES)[-1]["limit"] == 3
    assert len(same.webdata.refresh()) == 47
    several = creatives_df(["AR1", "AR2"], limit=3)
    assert several["advertiser"].tolist() == ["AR1"] * 3 + ["AR2"] * 3


@pytest.mark.usefixtures("connected")
def test_jobs_and_weights_are_frames_too(service: WireService) -> None:
    search_df("q")
    crawl_df(SITE)
    jobs = jobs_df(limit=1)
    assert jobs["type"].tolist() == ["crawl"]
    assert str(jobs["created_at"].dtype) == "datetime64[us, UTC]"
    assert len(jobs_df()) == 2
    service.weights.append({"platform": "search", "operation": "scrape", "weight": 2, "new": "x"})
    weights = weights_df(dtype_backend="pyarrow")
    assert weights["weight"].tolist() == [1.0, 2.0]
    assert json.loads(weights["extra"].tolist()[1]) == {"new": "x"}


@pytest.mark.usefixtures("connected")
def test_usage_is_one_row_whatever_has_no_limit(service: WireService) -> None:
    service.usage["balance"] = 5
    [row] = usage_df().to_dict("records")
    assert (row["plan"], row["monthly_left"], row["active"], row["limit"]) == ("team", 988.0, 1, 8)
    assert row["operations"][0]["operation"] == "page"
    assert (list(row["scopes"]), pd.isna(row["key_ends_at"])) == (["search", "read"], True)
    assert row["extra"]["balance"] == 5
    known = usage_df().dtypes
    service.usage.update(monthly=None, monthly_left=None, limit=None)
    unlimited = usage_df()
    assert unlimited[["monthly", "monthly_left", "limit"]].isna().all(axis=None)
    assert unlimited.dtypes.equals(known)
    assert str(known["period_end"]) == "datetime64[us, UTC]"


@pytest.mark.parametrize(
    ("call", "path", "body"),
    [
        (lambda: search_df("q"), paths.SEARCH, {"query": "q"}),
        (
            lambda: search_df(
                "q", num_results=5, formats=("html", "html"), headers={"X-A": "1"}, country="DE"
            ),
            paths.SEARCH,
            {
                "query": "q",
                "num_results": 5,
                "formats": ["html"],
                "headers": {"X-A": "1"},
                "country": "de",
            },
        ),
        (
            lambda: search_df("q", extract={"schema": {"type": "object"}, "prompt": None}),
            paths.SEARCH,
            {"query": "q", "extract": {"schema": {"type": "object"}}},
        ),
        (lambda: crawl_df(SITE), paths.CRAWL, {"url": SITE}),
        (
            lambda: crawl_df(SITE, max_pages=3, scrape_options={"formats": [], "timeout": 100}),
            paths.CRAWL,
            {"url": SITE, "max_pages": 3, "scrape_options": {"formats": [], "timeout": 100_000}},
        ),
        (
            lambda: creatives_df("AR1", ocr=True),
            paths.CREATIVES,
            {"advertiser_id": "AR1", "ocr": True},
        ),
    ],
)
@pytest.mark.usefixtures("connected")
def test_only_what_was_given_is_sent(
    service: WireService, call: Callable[[], pd.DataFrame], path: str, body: dict[str, Any]
) -> None:
    call()
    assert service.posted(path) == [body]


@pytest.mark.usefixtures("connected")
def test_values_of_numpy_and_pandas_are_taken_for_what_they_are(service: WireService) -> None:
    table = pd.DataFrame({"n": [4], "path": ["/docs/**"], "flag": [True]})
    crawl_df(
        SITE,
        max_pages=table["n"].iloc[0],
        include_paths=cast("Sequence[str]", table["path"]),
        respect_robots_txt=table["flag"].iloc[0],
    )
    assert service.posted(paths.CRAWL) == [
        {"url": SITE, "max_pages": 4, "include_paths": ["/docs/**"], "respect_robots_txt": True}
    ]


@pytest.mark.usefixtures("connected")
def test_the_request_decides_the_columns_and_not_the_rows(service: WireService) -> None:
    plain = crawl_df(SITE)
    assert "links" in service.crawl.rows[0]
    assert "links" not in plain
    linked = crawl_df(SITE, scrape_options={"formats": ["links"]})
    assert "markdown" not in linked
    assert linked["links"].tolist() == [row["links"] for row in service.crawl.rows]
    found = search_df("q", formats=[])
    assert list(found.columns)[-3:] == ["extra", "title", "snippet"]


@pytest.mark.usefixtures("connected")
def test_options_for_pages_that_are_not_visited_are_mentioned() -> None:
    with pytest.warns(UserWarning, match="mobile, headers without effect"):
        search_df("q", formats=[], mobile=True, headers={"A": "b"})


def test_engines_are_a_frame_too(service: WireService, connected: Session) -> None:
    engines = connected.engines_df()
    assert {name: str(dtype) for name, dtype in engines.dtypes.items()} == {
        "engine": "str",
        "position": "Int32",
        "provider": "str",
        "usable": "boolean",
        "why": "str",
        "resting_s": "float64",
        "extra": "object",
    }
    assert engines["provider"].tolist() == ["brave", "local"]
    assert engines["usable"].tolist() == [False, True]
    service.engines = []
    assert connected.engines_df().dtypes.equals(engines.dtypes)


@pytest.mark.usefixtures("connected")
def test_credits_are_told_where_the_service_tells_them(service: WireService) -> None:
    assert receipt_of(search_df("q"))["credits"] is None
    service.crawl = JobScript(crawl_rows(2), reply_fields={"credits": 2})
    assert receipt_of(crawl_df(SITE))["credits"] == 2.0
