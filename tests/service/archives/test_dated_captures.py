"""Finds the capture nearest to a date, within limits, whatever the index sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from webdata_nb.page.errors import FetchError
from webdata_nb.service.archives import archive as archives
from webdata_nb.service.archives.archive import CaptureLists, DatedCaptures
from webdata_nb.service.archives.warc import ArchivedResponse
from webdata_nb.service.archives.web_archives import CdxCapture, CdxQuery, IndexPage, WebArchive
from webdata_nb.service.errors import NotIndexed
from webdata_nb.service.web.request import FetchLimits

URL = "http://docs.test/"
AS_OF = datetime(2024, 6, 1, tzinfo=UTC)


def capture(url: str, *, days: float, status: int = 200) -> CdxCapture:
    return CdxCapture(url, AS_OF + timedelta(days=days), "fake", status)


@dataclass(slots=True)
class FakeArchive(WebArchive):
    """An archive whose index answers as `reply` says, and whose captures tell their times."""

    reply: Callable[[CdxQuery, str | None], IndexPage]
    queries: list[CdxQuery] = field(default_factory=list)
    name: str = "the archive"

    async def list_captures(
        self,
        query: CdxQuery,
        *,
        limit: int,  # noqa: ARG002 - part of the protocol
        cursor: str | None = None,
    ) -> IndexPage:
        """Return what the index says."""
        self.queries.append(query)
        return self.reply(query, cursor)

    async def read(self, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:  # noqa: ARG002
        """Return a response without a body."""
        return ArchivedResponse(capture.status or 0, (), b"", 0, capture.captured_at)

    def archive_url(self, capture: CdxCapture) -> str | None:
        """Return no address."""


def captures_of(archive: WebArchive) -> DatedCaptures:
    return DatedCaptures(archive, AS_OF, timedelta(days=30), URL)


async def days_of(captures: DatedCaptures, url: str = URL) -> float:
    response = await captures.read(url, FetchLimits())
    assert response.captured_at is not None
    return (response.captured_at - AS_OF) / timedelta(days=1)


async def error_of(captures: DatedCaptures, url: str = URL) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await captures.read(url, FetchLimits())
    return caught.value


async def test_the_nearest_capture_counts_and_a_redirect_to_https_is_not_the_page() -> None:
    secure = URL.replace("http:", "https:")
    listed = (
        capture(URL, days=0, status=301),
        capture(URL, days=-9),
        capture(secure, days=-7),
        capture(secure, days=7),
        capture(secure, days=29),
    )
    archive = FakeArchive(lambda *_: IndexPage(listed, "fake"))
    assert await days_of(captures_of(archive)) == 0
    assert await days_of(captures_of(archive), secure) == -7
    archive.reply = lambda *_: IndexPage(listed[:2], "fake")
    assert await days_of(captures_of(archive), secure) == -9


@pytest.mark.parametrize(
    ("next_cursor", "message"),
    [
        (lambda _: "same", "the archive, fake: it repeats a page"),
        (lambda cursor: f"{cursor}x", "the index of the archive has no end"),
    ],
)
async def test_an_index_without_end_is_no_archive(
    next_cursor: Callable[[str | None], str], message: str
) -> None:
    archive = FakeArchive(lambda _, cursor: IndexPage((), "fake", cursor=next_cursor(cursor)))
    error = await error_of(captures_of(archive))
    assert (error.kind, str(error)) == ("archive_unavailable", message)
    assert len(archive.queries) <= 200


async def test_a_host_that_the_archive_does_not_show_is_the_reason_for_each_page() -> None:
    archive = FakeArchive(lambda *_: IndexPage((), "fake", "excluded", "it shows none of them"))
    captures = captures_of(archive)
    for url in (URL, f"{URL}a"):
        error = await error_of(captures, url)
        assert (error.kind, str(error)) == ("not_archived", "it shows none of them")
    assert len(archive.queries) == 1


async def test_what_the_list_of_a_host_lacks_costs_nothing() -> None:
    listed = (capture(URL, days=1),)
    archive = FakeArchive(lambda *_: IndexPage(listed, "fake"))
    captures = captures_of(archive)
    error = await error_of(captures, f"{URL}a")
    assert (error.kind, type(error)) == ("not_archived", NotIndexed)
    # A URL of another host is asked for by itself.
    error = await error_of(captures, "http://other.test/")
    assert (error.kind, type(error)) == ("not_archived", FetchError)
    assert len(archive.queries) == 2


async def test_a_reply_with_too_many_captures_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_CAPTURES_LISTED", 10)

    def reply(query: CdxQuery, _: str | None) -> IndexPage:
        count = 11 if query.match == "host" else 1
        return IndexPage([capture(query.url, days=n) for n in range(count)], "fake")

    archive = FakeArchive(reply)
    assert await days_of(captures_of(archive)) == 0
    assert [query.match for query in archive.queries] == ["host", "exact"]


async def test_what_is_kept_of_many_hosts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_CAPTURES_KEPT", 100)

    def reply(query: CdxQuery, _: str | None) -> IndexPage:
        # Many captures of each of ten pages.
        urls = [f"{query.url}{n}" for n in range(10)] if query.match == "host" else [query.url]
        listed = [capture(url, days=n / 10) for url in urls for n in range(50)]
        return IndexPage(listed, "fake")

    archive, lists = FakeArchive(reply), CaptureLists()
    captures = DatedCaptures(archive, AS_OF, timedelta(days=30), URL, lists)
    for host in range(40):
        for page in range(5):
            assert await days_of(captures, f"http://h{host}.test/{page}") == 0
        assert await days_of(captures, f"{URL}{host % 10}") == 0
    assert lists.captures <= 100
    starts = [query for query in archive.queries if query.url == URL]
    assert len(starts) == 1  # the list of the start is used all the time
