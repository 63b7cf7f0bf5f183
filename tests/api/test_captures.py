"""`captures_df`, and `crawl_df` with `as_of`: arguments, frames, receipts and the cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import receipt_of
from tests.local_service import stop
from tests.site.document import document
from tests.site.server import Site
from tests.site.web_archive import WebArchiveStub, crawl_capture
from tests.wire_service import WireService
from webdata_nb import (
    captures_df,
    estimate,
    history_df,
    record,
    replay,
    retry_failed,
    settings,
    to_warc,
    why,
)
from webdata_nb.errors import InvalidArgument, NotSupported, OfflineError
from webdata_nb.toolkit.api import Session, connect, crawl_df

URL = "http://docs.test/"
DTYPES = {
    "url": "str",
    "captured_at": "datetime64[us, UTC]",
    "status_code": "Int16",
    "mime_type": "str",
    "digest": "str",
    "length": "Int64",
    "index": "str",
    "offset": "Int64",
    "extra": "object",
    "archive_url": "str",
}


@pytest.fixture(scope="module")
def archive() -> Iterator[WebArchiveStub]:
    with Site() as site:
        stub = WebArchiveStub.on(site)
        for at, name in (("2024-05-20", "old"), ("2024-06-02", "new"), ("2024-09-01", "last")):
            stub.add(URL, at, document(f"Front {name}", links=["/a", "/missing"]))
            stub.add(f"{URL}a", at, document(f"A {name}"))
        stub.add("https://docs.test/", "2024-07-01", document("Front old", links=["/a"]))
        # The content of May came back in October.
        stub.add(URL, "2024-10-01", stub.captures[0].body, is_revisit=True)
        for name, at in (("CC-MAIN-2024-10", "2024-03-06"), ("CC-MAIN-2024-22", "2024-05-28")):
            stub.add_crawl(name, crawl_capture(URL, at, document(f"Front {at}")))
        yield stub


@pytest.fixture(scope="module")
def archive_session(
    archive: WebArchiveStub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """Give a session on a local service that asks the stub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBDATA_HOME", str(tmp_path_factory.mktemp("home")))
        for name, value in archive.variables.items():
            patch.setenv(name, value)
        with connect() as session:
            yield session
        stop(settings.current())


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def test_captures_are_distinct_typed_and_sorted(archive_session: Session) -> None:
    frame = archive_session.captures_df(URL)
    assert dtypes(frame) == DTYPES
    assert frame["captured_at"].dt.strftime("%Y-%m-%d").tolist() == [
        *("2024-05-20", "2024-06-02", "2024-09-01", "2024-07-01"),
    ]
    assert frame["url"].tolist() == [URL, URL, URL, "https://docs.test/"]
    assert not frame["digest"].duplicated().any()
    receipt = receipt_of(frame)
    assert receipt["complete"]
    assert receipt["indexes"] == {"listed": 1}
    assert receipt["line"] == f"captures of {URL}: 4 distinct; indexes: 1 listed"

    part = archive_session.captures_df(
        URL, start=date(2024, 6, 1), end=datetime(2024, 8, 1, tzinfo=UTC)
    )
    assert len(part) == 2
    first = archive_session.captures_df(URL, max_rows=1)
    assert len(first) == 1
    assert not receipt_of(first)["complete"]
    assert receipt_of(first)["line"].endswith("there are more than max_rows")
    host = archive_session.captures_df(URL, match="host", max_rows=None, dtype_backend="pyarrow")
    assert len(host) == 7


def test_a_frame_without_captures_is_typed(archive_session: Session) -> None:
    frame = archive_session.captures_df("http://none.test/")
    assert dtypes(frame) == DTYPES
    assert len(frame) == 0
    assert receipt_of(frame)["indexes"] == {"no_captures": 1}


def test_excluded_sites_and_broken_indexes_are_outcomes(
    archive_session: Session, archive: WebArchiveStub
) -> None:
    archive.excluded_hosts.add("excluded.test")
    frame = archive_session.captures_df("http://excluded.test/")
    [problem] = receipt_of(frame)["problems"]
    assert problem["outcome"] == "excluded"
    archive.site.page("/CC-MAIN-2024-22-index", "no index")
    try:
        frame = archive_session.captures_df(URL, source="commoncrawl")
    finally:
        archive.site.page("/CC-MAIN-2024-22-index", archive.answer)
    assert frame["index"].tolist() == ["CC-MAIN-2024-10"]
    receipt = receipt_of(frame)
    assert receipt["indexes"] == {"unavailable": 1, "listed": 1}
    assert not receipt["complete"]


def test_an_index_that_repeats_a_page_ends(
    archive_session: Session, archive: WebArchiveStub
) -> None:
    names = ["timestamp", "original", "statuscode", "digest"]
    line = ["20240601000000", URL, "200", "A" * 32]
    path = "/cdx/search/cdx"
    archive.site.page(path, json.dumps([names, line, [], ["again"]]))
    try:
        frame = archive_session.captures_df(URL, max_rows=None)
    finally:
        archive.site.page(path, archive.answer)
    assert len(frame) == 1
    receipt = receipt_of(frame)
    assert not receipt["complete"]
    assert receipt["line"].endswith("1 distinct; indexes: 2 listed; an index repeats a page")


def test_a_recorded_listing_is_replayed(archive_session: Session, tmp_path: Path) -> None:
    with record(tmp_path):
        frame = archive_session.captures_df(URL)
    with replay(tmp_path):
        again = archive_session.captures_df(URL)
    pd.testing.assert_frame_equal(frame, again)
    assert receipt_of(again)["line"] == receipt_of(frame)["line"]


def test_a_dated_crawl_has_its_distances_and_is_cached(archive_session: Session) -> None:
    frame = archive_session.crawl_df(URL, as_of="2024-06-01")
    assert frame["title"].tolist() == ["Front new", "A new"]
    assert frame["capture_distance_s"].tolist() == [86_400.0, 86_400.0]
    assert str(frame["fetched_at"][0]) == "2024-06-02 00:00:00+00:00"
    receipt = receipt_of(frame)
    assert "captured 1 day after" in receipt["line"]
    assert receipt["captures"] == {
        "earliest_distance_s": 86_400.0,
        "latest_distance_s": 86_400.0,
    }
    assert receipt["request"]["as_of"] == "2024-06-01T00:00:00Z"
    url_outcome = why(frame, f"{URL}missing", session=archive_session)
    assert (url_outcome.outcome, "within 30 days of" in url_outcome.detail) == (
        "not_archived",
        True,
    )
    for same in (date(2024, 6, 1), datetime(2024, 6, 1, tzinfo=UTC), "2024-06-01T02:00+02:00"):
        again = archive_session.crawl_df(URL, as_of=same)
        assert receipt_of(again)["cache"] == "hit"
    assert again.equals(frame)
    history = history_df(archive_session.crawl_df, URL, as_of="2024-06-01")
    assert history["title"].tolist() == ["Front new", "A new"]
    assert len(history_df(archive_session.crawl_df, URL, as_of="2024-06-02")) == 0
    assert len(history_df(archive_session.crawl_df, URL)) == 0
    assert estimate(archive_session.crawl_df, URL, as_of="2024-06-01").cached == 1
    other = archive_session.crawl_df(
        URL, as_of={"date": "2024-05-21", "max_distance": timedelta(days=2)}
    )
    assert other["title"].tolist() == ["Front old", "A old"]
    assert frame.webdata.refresh(session=archive_session)["title"].tolist() == [
        "Front new",
        "A new",
    ]


def test_several_sites_and_streams(archive_session: Session) -> None:
    frame = archive_session.crawl_df([URL, f"{URL}a"], as_of="2024-06-01", max_pages=1)
    assert frame["start_url"].tolist() == [URL, f"{URL}a"]
    assert frame["capture_distance_s"].tolist() == [86_400.0, 86_400.0]
    stream = archive_session.crawl_df(URL, as_of="2024-08-30", stream=1)
    assert [batch["title"][0] for batch in stream] == ["Front last", "A last"]


def test_an_audit_of_the_past(archive_session: Session) -> None:
    frame = archive_session.crawl_df(URL, as_of="2024-06-01", audit=True)
    assert frame["inlinks"].tolist() == [0, 1]


def test_documents_of_a_frame_are_crawled_from_the_file_that_has_them(
    archive_session: Session, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"formats": ["raw_html", "markdown"]}
    frame = archive_session.crawl_df(URL, as_of="2024-06-01", **options)
    path = tmp_path / "pages.warc.gz"
    to_warc(frame, path)
    again = archive_session.crawl_df(path, **options)
    same = ["url", "title", "markdown", "raw_html", "content_hash", "fetched_at"]
    pd.testing.assert_frame_equal(again[same], frame[same], check_flags=False)


def test_common_crawl(archive_session: Session) -> None:
    frame = archive_session.crawl_df(URL, as_of={"date": "2024-06-01", "source": "commoncrawl"})
    assert frame["title"].tolist() == ["Front 2024-05-28"]
    assert frame["capture_distance_s"].tolist() == [-4 * 86_400.0]


def test_failed_captures_are_not_tried_again(
    archive_session: Session, archive: WebArchiveStub
) -> None:
    archive.add("http://failing.test/", "2024-06-01", status=404)
    with pytest.warns(UserWarning, match="no page could be read"):
        frame = archive_session.crawl_df("http://failing.test/", as_of="2024-06-01")
    assert frame["capture_distance_s"].tolist() == [0.0]
    with pytest.raises(InvalidArgument, match="the frame is of an archive"):
        retry_failed(frame, session=archive_session)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"as_of": "June"}, "as_of must be a date or time in ISO 8601"),
        ({"as_of": "2024-06-31"}, "as_of must be a date or time in ISO 8601"),
        ({"as_of": "2999-01-01"}, "as_of must be a date in the past"),
        ({"as_of": "1990-01-01"}, "as_of must be in 1996 or later"),
        ({"as_of": 2024}, "as_of must be a date or time"),
        ({"as_of": {"date": "2024-06-01", "source": "archive.today"}}, "source of as_of must"),
        ({"as_of": {"date": "2024-06-01", "max_distance": -1}}, "max_distance must be a number of"),
        (
            {"as_of": {"date": "2024-06-01", "max_distance": "soon"}},
            "max_distance must be a num",
        ),
        ({"as_of": {"source": "wayback"}}, "as_of must have the entry date"),
        ({"as_of": {"max_distance": 3}}, "as_of must have the entry date"),
        ({"as_of": {"date": "2024-06-01", "distance": 3}}, "and 'distance' is none of them: did"),
        ({"as_of": "2024-06-01", "since": "last"}, "as_of and since cannot be combined"),
        ({"as_of": "2024-06-01", "url": "a.warc.gz"}, "archive and as_of cannot be combined"),
        (
            {"as_of": "2024-06-01", "out": "a.warc.gz"},
            "as_of and a WARC file as out cannot be combined",
        ),
        ({"as_of": "2024-06-01", "render": True}, "as_of and a browser cannot be combined"),
        (
            {"as_of": "2024-06-01", "formats": ["screenshot"]},
            "as_of and a browser cannot be combined",
        ),
        (
            {"as_of": "2024-06-01", "scrape_options": {"headers": {"X": "y"}}},
            "as_of and headers cannot be combined",
        ),
        ({"as_of": "2024-06-01", "rights": "research"}, "as_of and a purpose cannot be combined"),
        ({"as_of": "2024-06-01", "check_links": True}, "as_of and check_links cannot be combined"),
        ({"as_of": "2024-06-01", "rights": True}, "as_of and rights cannot be combined"),
        ({"as_of": "2024-06-01", "max_pages": 1001}, "with a folder or URL for the rows as out"),
    ],
)
def test_what_makes_no_sense_with_as_of_is_refused_before_a_service_starts(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    with pytest.raises(InvalidArgument, match=message) as caught:
        crawl_df(**{"url": URL, **arguments})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "docs.test"}, "url must be an absolute"),
        ({"source": "archive.today"}, "source must be"),
        ({"match": "all"}, "match must be"),
        ({"start": "soon"}, "start must be a date or time in ISO 8601"),
        ({"end": 3}, "end must be a date or time"),
        ({"start": "2024-06-01", "end": "2024-05-01"}, "start must not be after end"),
        ({"max_rows": 0}, "max_rows must be"),
    ],
)
def test_wrong_arguments_of_a_listing(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    with pytest.raises(InvalidArgument, match=message):
        captures_df(**{"url": URL, **arguments})
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("connected")
def test_a_service_without_archives_is_refused(service: WireService) -> None:
    with pytest.raises(NotSupported, match=r"asks no web archives \(POST /v1/captures\)"):
        captures_df(URL)
    with pytest.raises(NotSupported, match=r"/v1/crawls, which as_of needs; nothing was started"):
        crawl_df(URL, as_of="2024-06-01")
    assert {request.path for request in service.requests} <= {
        *("/v1/captures", "/v1/crawls", "/v1/jobs"),
    }


@pytest.mark.usefixtures("connected")
def test_offline_mode_asks_nothing(service: WireService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    with pytest.raises(OfflineError):
        captures_df(URL)
    assert service.requests == []
