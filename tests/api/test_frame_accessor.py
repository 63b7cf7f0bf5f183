"""`df.webdata`: receipt, failed rows, derived frames, refresh and duplicates."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.wire_service import JobScript, WireService, crawl_rows, creative_rows, search_rows
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NoReceipt
from webdata_nb.toolkit.api import (
    Session,
    connect,
    crawl_df,
    creatives_df,
    diff,
    jobs_df,
    scrape_df,
    search_df,
)
from webdata_nb.toolkit.frames import frame, rows


def accessor(df: pd.DataFrame) -> Any:
    """Return `df.webdata`, which type checkers do not know."""
    untyped: Any = df
    return untyped.webdata


@pytest.mark.usefixtures("connected")
def test_receipt_line_and_failed_rows(service: WireService) -> None:
    failed = {"success": False, "status": "failed", "error": "HTTP 500"}
    service.crawl = JobScript([*crawl_rows(2), {**crawl_rows(3)[2], **failed}])
    df = crawl_df(SITE)
    assert accessor(df).receipt is df.attrs["webdata"]
    assert accessor(df).line == receipt_of(df)["line"] == repr(accessor(df))
    assert accessor(df).failed["error"].tolist() == ["HTTP 500"]
    assert len(accessor(df[df["success"]]).failed) == 0
    with pytest.raises(InvalidArgument, match="neither success nor error"):
        _ = accessor(df[["url"]]).failed


def test_failed_creatives_are_those_with_an_error() -> None:
    listed = [{"creative_id": "a"}, {"creative_id": "b", "error": "details: gone"}]
    df = frame.build(rows.to_table("creatives", listed), attrs={"kind": "creatives"})
    assert accessor(df).failed["creative_id"].tolist() == ["b"]


@pytest.mark.usefixtures("connected")
def test_why_and_derived_frames(service: WireService) -> None:
    service.has_receipts = True
    page = {**crawl_rows(1)[0], "links": ["https://b.test/"], "headings": [{"level": 1}]}
    service.crawl = JobScript([page])
    df = crawl_df(SITE, formats=["links", "headings"])
    assert accessor(df).why(df["url"][0]).is_row
    assert accessor(df).links()["link"].tolist() == ["https://b.test/"]
    assert accessor(df).headings()["level"].tolist() == [1]
    with pytest.raises(InvalidArgument, match="images"):
        accessor(df).images()
    with pytest.raises(InvalidArgument, match="extract="):
        accessor(df).extract()


def test_other_frames_have_none() -> None:
    df = pd.DataFrame({"a": [1]})
    with pytest.raises(NoReceipt, match=r"no receipt in df\.attrs"):
        accessor(df)
    assert not hasattr(df, "webdata")
    assert "webdata" in dir(pd.DataFrame)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_refresh_repeats_the_call(service: WireService, backend: Any) -> None:
    df = search_df("q", num_results=5, formats=["links"], dtype_backend=backend)
    service.search = JobScript(search_rows(2))
    again = accessor(df).refresh(progress=False)
    first, second = service.posted(paths.SEARCH)
    assert first == second
    assert len(again) == 2
    assert again.dtypes.equals(df.dtypes)
    assert len(search_df("q", num_results=5, formats=["links"])) == 2  # the cache has the new rows


@pytest.mark.usefixtures("connected")
def test_refresh_of_crawls_pages_and_creatives(service: WireService) -> None:
    service.creatives = creative_rows(3)
    frames = [
        crawl_df(SITE, max_pages=5, scrape_options={"headers": {"X-A": "secret"}}),
        crawl_df(SITE, max_pages=4, formats=["links"], sitemap=True, llms_txt=True),
        crawl_df([SITE, SITE + "b"], max_pages=5),
        scrape_df([SITE, SITE + "b"], formats=["links"]),
        creatives_df("AR1", max_rows=2),
        creatives_df(["AR1", "AR2"], region=["US", "DE"]),
    ]
    for df in frames:
        before = len(service.requests)
        again = accessor(df).refresh()
        assert again.columns.equals(df.columns)
        assert len(again) == len(df)
        assert receipt_of(again)["request"] == receipt_of(df)["request"]
        assert any(each.body for each in service.requests[before:])
        assert diff(df, again).empty
    posted = [body["scrape_options"] for body in service.posted(paths.CRAWL)[:1]]
    assert posted[0]["headers"] == {"X-A": "secret"}
    accessor(frames[0]).refresh(headers={"X-A": "other"})
    assert service.posted(paths.CRAWL)[-1]["scrape_options"]["headers"] == {"X-A": "other"}


@pytest.mark.usefixtures("connected")
def test_refresh_of_some_inputs(service: WireService) -> None:
    df = search_df(["a", "b"], country=["us", "de"], formats=[])
    before = len(service.posted(paths.SEARCH))
    again = accessor(df[df["query"] == "b"]).refresh()
    assert again["query"].unique().tolist() == ["b"]
    bodies = service.posted(paths.SEARCH)[before:]
    assert sorted(body["country"] for body in bodies) == ["de", "us"]  # sent in parallel


def test_what_cannot_be_refreshed(service: WireService, connected: Session) -> None:
    with pytest.raises(InvalidArgument, match="of kind jobs cannot be refreshed"):
        accessor(jobs_df(session=connected)).refresh(session=connected)
    df = connected.search_df("q", formats=[])
    with pytest.raises(InvalidArgument, match="comes from the service"):
        accessor(df).refresh(session=connect(base_url="http://other.test"))
    listed = connected.creatives_df("AR1")
    with pytest.raises(InvalidArgument, match="creatives_df has no headers"):
        accessor(listed).refresh(session=connected, headers={"X-A": "1"})
    masked = connected.crawl_df("http://user:secret@site.test/")
    with pytest.raises(InvalidArgument, match="password"):
        accessor(masked).refresh(session=connected)
    assert service.jobs


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_duplicates_are_those_of_the_content(backend: Any) -> None:
    pages: list[dict[str, Any]] = [
        {"url": "/a", "content_hash": "1", "links": ["/x"], "fetched_at": "2026-01-01T00:00:00Z"},
        {"url": "/b", "content_hash": "1", "links": ["/y"], "fetched_at": "2026-01-02T00:00:00Z"},
        {"url": "/b", "content_hash": "2", "links": ["/y"]},
        {"url": "/c", "error": "http_404"},  # failed pages have no content
        {"url": "/d", "error": "http_404"},
        {"url": "/d", "error": "http_404"},
    ]
    table = rows.to_table("crawl", pages)
    df = frame.build(table, attrs={"kind": "crawl"}, dtype_backend=backend)
    webdata = accessor(df)
    assert webdata.drop_duplicates().index.tolist() == [0, 2, 3, 4]
    assert webdata.drop_duplicates(keep="last").index.tolist() == [1, 2, 3, 5]
    assert webdata.drop_duplicates("url").index.tolist() == [0, 1, 3, 4]
    assert webdata.drop_duplicates(["url", "links"]).index.tolist() == [0, 1, 3, 4]
    assert webdata.drop_duplicates("links").index.tolist() == [0, 1, 3]
    assert webdata.drop_duplicates(keep=False).index.tolist() == [2, 3]
    assert webdata.drop_duplicates().attrs == df.attrs
    with pytest.raises(InvalidArgument, match="subset"):
        webdata.drop_duplicates("nosuch")
    with pytest.raises(InvalidArgument, match="subset"):
        webdata.drop_duplicates([])


@pytest.mark.parametrize(
    ("kind", "found", "left"),
    [
        (
            "search",
            [{"rank": 1, "url": "/a"}, {"rank": 2, "url": "/a"}, {"error": "failed"}],
            [0, 2],
        ),
        (
            "creatives",
            [{"position": 1, "creative_id": "C"}, {"position": 2, "creative_id": "C"}],
            [0],
        ),
        ("captures", [{"url": "/a", "digest": "x"}, {"url": "/b", "digest": "x"}, {}, {}], [0, 2]),
        # A service that sends no content_hash.
        ("crawl", [{"url": "/a", "markdown": "# A"}, {"url": "/b", "markdown": "# A"}], [0]),
        ("jobs", [{"job_id": "1", "type": "crawl"}, {"job_id": "2", "type": "crawl"}], [0, 1]),
    ],
)
def test_content_of_each_kind(kind: Any, found: list[dict[str, Any]], left: list[int]) -> None:
    df = frame.build(rows.to_table(kind, found), attrs={"kind": kind})
    assert accessor(df).drop_duplicates().index.tolist() == left
