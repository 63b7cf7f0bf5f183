"""`scrape_df` of a list is one job, with the rows and receipts of a job for each page."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from tests.api.receipts import receipt_of
from tests.page.documents.test_pdf import drawn_pdf
from tests.site.document import document, prose
from tests.site.server import Site
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.toolkit.api import Session, ajobs_df, connect, jobs_df, record, replay, scrape_df
from webdata_nb.toolkit.calls import partitions
from webdata_nb.toolkit.requests.arguments import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import page_inputs

PAGES = 30


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Site() as site:
        monkeypatch.setenv("WEBDATA_HOME", str(home))
        for number in range(PAGES):
            text = prose(f"subject{number % 25}", 150)
            site.page(f"/p{number}", document(f"Page {number % 25}", text=text, links=["/p1"]))
        site.page("/robots.txt", "User-agent: *\nDisallow: /private\n")
        site.page("/private", document("Private"))
        site.page(
            "/scan.pdf",
            drawn_pdf("50 50 200 200 re f"),
            headers={"Content-Type": "application/pdf"},
        )
        site.page("/empty", "")
        site.page("/moved", status=301, headers={"Location": "/p3"})
        site.page("/away", status=302, headers={"Location": "/away/again"})
        site.page("/away/again", status=302, headers={"Location": "/p4?from=away"})
        site.page("/broken", document("Broken"), status=500)
        yield site


@pytest.fixture
def session(site: Site) -> Iterator[Session]:  # noqa: ARG001 - of its home
    with connect() as session:
        yield session


def urls_of(site: Site) -> list[str]:
    paths = [f"/p{number}" for number in range(PAGES)]
    special = ["/moved", "/private", "/gone", "/scan.pdf", "/broken", "/empty", "/away", "/p7"]
    mixed = [*paths[:9], *special, *paths[9:], "/p4?from=away", "/private#part", "/gone"]
    return [*map(site.at, mixed), "http://127.0.0.1:9/refused", "http://no-such-host.invalid/"]


def comparable(df: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows without what belongs to one visit."""
    texts = [str(each) for each in df["error"]]
    rows = df.drop(columns=["time_taken", "fetched_at", "error"]).astype(object)
    rows["metadata"] = rows["metadata"].map(
        lambda value: value and {k: v for k, v in value.items() if k != "fetched_at"}
    )
    records: Any = rows.where(rows.notna(), None).to_dict("records")
    # A job for a page alone fails with the page; a row of a list has the error itself.
    plain = [text.rpartition("could not be fetched: ")[2] for text in texts]
    return [{**row, "error": text} for row, text in zip(records, plain, strict=True)]


def test_rows_are_those_of_a_job_for_each_page(site: Site, session: Session) -> None:
    urls = [*urls_of(site), "nowhere"]
    with ThreadPoolExecutor(4) as pool:
        alone = session.scrape_df(urls, cache=False, executor=pool)
    site.forget()
    listed = session.scrape_df(urls, cache=False)
    assert listed["start_url"].tolist() == urls
    assert listed.dtypes.to_dict() == alone.dtypes.to_dict()
    for ours, theirs in zip(comparable(listed), comparable(alone), strict=True):
        if theirs["success"] or theirs["status_code"] is not None:
            assert ours == theirs
        else:
            assert ours["success"] is False
            assert ours["start_url"] == theirs["start_url"]
            # The start of a page alone is refused where a page of a list fails.
            kind = theirs["error"].partition(":")[0].replace("InvalidRequest", "JobFailed")
            assert ours["error"].partition(":")[0] == kind
    ours, theirs = receipt_of(listed), receipt_of(alone)
    assert ours["counts"] == theirs["counts"]
    assert ours["inputs"] == theirs["inputs"]
    assert ours.get("low_confidence") == theirs.get("low_confidence")
    assert len({run["job_id"] for run in ours["runs"] if run["job_id"]}) == 1
    requested = [
        hit.path for hit in site.requests if hit.path.startswith("/p") and "?" not in hit.path
    ]
    assert len(requested) == len(set(requested)) + 1  # and the target of a redirect


def test_a_list_is_one_job(site: Site, session: Session) -> None:
    before = len(jobs_df())
    session.scrape_df([site.at(f"/p{number}") for number in range(PAGES)], cache=False)
    jobs = jobs_df()
    assert len(jobs) == before + 1
    assert jobs["completed"][0] == PAGES
    assert jobs["subject"][0] == f"{site.at('/p0')} and {PAGES - 1} more"


async def test_a_partition_is_one_job(site: Site, session: Session, tmp_path: Path) -> None:
    urls = [site.at(path) for path in ("/p0", "/p1", "/gone", "/p2", "/p3", "/p1", "/p4")]
    listed = await session.ascrape_df(urls, cache=False)
    before = len(await ajobs_df())
    inputs = page_inputs(urls, {})
    call, fan_out = CallOptions.of(session=session), FanOutOptions(partition=4, row_each=True)
    out = tmp_path / "parts"
    df: Any = await partitions.run(inputs, call, fan_out, out=out, lazy=False)
    assert comparable(df) == comparable(listed)
    assert df.dtypes.to_dict() == listed.dtypes.to_dict()
    assert len(await ajobs_df()) == before + 2
    # A part that is lost finds its job again.
    (out / "part-000001.parquet").unlink()
    again: Any = await partitions.run(inputs, call, fan_out, out=out, lazy=False)
    assert comparable(again) == comparable(df)
    assert len(await ajobs_df()) == before + 2


def test_each_page_has_a_cached_answer_of_its_own(site: Site, session: Session) -> None:
    urls = [site.at(f"/p{number}") for number in range(10)]
    first = session.scrape_df(urls[:6])
    site.forget()
    longer = session.scrape_df([*urls, urls[2]])
    assert sorted(hit.path for hit in site.requests if hit.path != "/robots.txt") == [
        f"/p{number}" for number in range(6, 10)
    ]
    assert receipt_of(longer)["inputs"]["cached"] == 7
    site.forget()
    single = session.scrape_df(urls[8])
    again = session.scrape_df(urls[:6])
    assert site.requests == ()
    assert receipt_of(single)["cache"] == "hit"
    pd.testing.assert_frame_equal(again, first)
    pd.testing.assert_frame_equal(single, longer.iloc[[8]].reset_index(drop=True))


def test_failed_pages_are_not_cached(site: Site, session: Session) -> None:
    urls = [site.at(path) for path in ("/p1", "/broken", "/gone", "/private")]
    session.scrape_df(urls)
    site.forget()
    again = session.scrape_df(urls)
    assert receipt_of(again)["inputs"]["cached"] == 1
    assert "/p1" not in [hit.path for hit in site.requests]
    assert again["success"].tolist() == [True, False, False, False]


def test_a_list_is_recorded_page_by_page(site: Site, session: Session, tmp_path: Path) -> None:
    urls = [site.at(f"/p{number}") for number in range(5)]
    with record(tmp_path / "recorded"):
        whole = scrape_df(urls, session=session)
    site.forget()
    with replay(tmp_path / "recorded"):
        part = scrape_df(urls[3:1:-1], session=session)
    assert site.requests == ()
    assert part["title"].tolist() == whole["title"].tolist()[3:1:-1]


def test_a_longer_list_than_one_job_reads(
    site: Site, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webdata_nb.toolkit.calls.lists.PAGES_PER_JOB", 7)
    urls, before = urls_of(site), len(jobs_df())
    df = session.scrape_df(urls, cache=False)
    assert df["start_url"].tolist() == urls
    assert len(jobs_df()) == before + 6


def test_an_error_ends_the_call_where_it_is_asked_to(site: Site, session: Session) -> None:
    urls = [site.at("/p1"), "http://127.0.0.1:9/refused"]
    with pytest.raises(
        Exception, match=r"/refused was not fetched: its robots\.txt could not be read"
    ):
        session.scrape_df(urls, on_error="raise", cache=False)


def test_an_older_answer_replaces_a_page_that_fails(session: Session) -> None:
    with Site() as site:
        for name in ("a", "b"):
            site.page(f"/{name}", document(name, text=prose(name, 150)))
        urls = [site.at("/a"), site.at("/b")]
        first = session.scrape_df(urls)
    with pytest.warns(UserWarning, match="using a cached result"):
        again = session.scrape_df(urls, refresh=True, stale_if_error=True)
    assert again["markdown"].tolist() == first["markdown"].tolist()
    with pytest.warns(UserWarning, match="no row succeeded"):
        gone = session.scrape_df(urls, refresh=True)
    assert gone["success"].tolist() == [False, False]


@pytest.mark.parametrize(
    "option",
    [
        {"max_pages": 5},
        {"max_depth": 2},
        {"crawl_strategy": "dfs"},
        {"include_paths": ["/a"]},
        {"sitemap": True},
        {"audit": True},
        {"filter_faceted_urls": True},
        {"allow_external_links": True},
        {"respect_nofollow": True},
    ],
)
def test_a_list_refuses_what_is_about_links(option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"urls and {next(iter(option))} cannot be combined"):
        ExtendedCrawlRequest.model_validate({"urls": ["http://a.test/"], **option})
