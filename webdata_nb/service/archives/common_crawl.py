"""Common Crawl: an index of each of its crawls, and WARC files of which parts are read."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode

from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.contract.replies import IndexOutcome
from webdata_nb.page.errors import FetchError
from webdata_nb.service.archives.archive_client import ArchiveClient
from webdata_nb.service.archives.archived_response import ArchivedResponse, read_response
from webdata_nb.service.archives.cdx import (
    CdxCapture,
    CdxQuery,
    UnreadableIndex,
    capture_key,
    parse_json,
    parse_lines,
)
from webdata_nb.service.archives.record_bytes import BrokenRecord
from webdata_nb.service.archives.warc_records import HEAD_BYTES, read_record
from webdata_nb.service.archives.web_archive import (
    INDEX_LIMITS,
    IndexPage,
    InvalidCursor,
    WebArchive,
)
from webdata_nb.service.errors import SourceBusy, SourceError
from webdata_nb.service.foreign_services import read_error
from webdata_nb.service.web.request import FetchedResponse, FetchLimits, FetchRequest

INDEX_ADDRESS: Final = "https://index.commoncrawl.org"
DATA_ADDRESS: Final = "https://data.commoncrawl.org"
# The index is one machine for everybody.
_INDEX_DELAY_S: Final = 1.5
_DATA_DELAY_S: Final = 0.25
_LIST_S: Final = 3600.0
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_WEEK: Final = re.compile(r"CC-MAIN-([0-9]{4})-([0-9]{2})")
# A crawl takes about two weeks, and its name has the week in which it began or ended.
_CRAWL_SPAN: Final = timedelta(days=28)
_CURSOR: Final = re.compile(r"([A-Za-z0-9-]{1,64})/([0-9]{1,5})/([0-9]{1,6})")
_FILENAME: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/-]{0,500}")


@dataclass(frozen=True, slots=True)
class CrawlIndex:
    """One crawl of Common Crawl, and when its pages were captured as far as known."""

    id: str
    start: datetime | None = None
    end: datetime | None = None

    def may_have(self, query: CdxQuery) -> bool:
        """Return whether it may have captures of the time of a query."""
        is_before = self.end is not None and query.start is not None and self.end < query.start
        is_after = self.start is not None and query.end is not None and self.start > query.end
        return not (is_before or is_after)


@dataclass(slots=True)
class CrawlIndexList:
    """The list of the crawls, which is read once an hour at most."""

    _indexes: dict[str, tuple[float, tuple[CrawlIndex, ...]]] = field(default_factory=dict)

    async def read(self, address: str, client: ArchiveClient) -> tuple[CrawlIndex, ...]:
        """Return the crawls, the newest first; raises as `WebArchive` methods do."""
        at, indexes = self._indexes.get(address, (0.0, ()))
        if not indexes or time.monotonic() - at > _LIST_S:
            request = FetchRequest(
                f"{address}/collinfo.json", accept="application/json", limits=INDEX_LIMITS
            )
            indexes = _crawl_indexes(await client.get(request, delay_s=_INDEX_DELAY_S))
            self._indexes[address] = time.monotonic(), indexes
        return indexes


@dataclass(frozen=True, slots=True)
class CommonCrawl(WebArchive):
    """Common Crawl at the addresses of its index and of its files."""

    client: ArchiveClient
    lists: CrawlIndexList
    address: str = INDEX_ADDRESS
    data_address: str = DATA_ADDRESS

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.client.name

    async def list_captures(
        self, query: CdxQuery, *, limit: int, cursor: str | None = None
    ) -> IndexPage:
        """Return up to `limit` captures of one crawl; the newest crawl comes first.

        A crawl whose index does not answer is `unavailable`, and the next one follows.
        """
        indexes = await self.lists.read(self.address, self.client)
        ids = [index.id for index in indexes if index.may_have(query)]
        if not ids:
            return IndexPage((), "commoncrawl", "no_captures", "it has no crawl of that time")
        index, page, skipped = _position(cursor, ids)
        after = ids[ids.index(index) + 1 :]
        next_index = f"{after[0]}/0/0" if after else None
        rest: Sequence[CdxCapture] = ()
        try:
            captures = await self._page(query, index, page)
            rest = captures[skipped : skipped + limit]
            if len(captures) > skipped + limit:
                return IndexPage(rest, index, cursor=f"{index}/{page}/{skipped + limit}")
            # An exact URL has few captures in a crawl; what matches more may have several pages.
            has_pages = query.match != "exact" and captures
            if has_pages and page + 1 < await self._page_count(query, index):
                return IndexPage(rest, index, cursor=f"{index}/{page + 1}/0")
        except SourceBusy:
            raise
        except (SourceError, UnreadableIndex) as error:
            return IndexPage(rest, index, "unavailable", str(error), next_index)
        outcome: IndexOutcome = "listed" if captures or page else "no_captures"
        return IndexPage(rest, index, outcome, cursor=next_index)

    async def read(self, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:
        """Return the response of a capture: one record, by a range of its WARC file."""
        address, offset, length = self.archive_url(capture), capture.offset, capture.length
        if address is None or offset is None or not length:
            raise FetchError(NOT_ARCHIVED, f"{self.name} does not say where {capture.url} is")
        if length > limits.wire_bytes + HEAD_BYTES:
            raise FetchError("too_large", f"The page is larger than {limits.wire_bytes:,} bytes.")
        request = FetchRequest(
            address,
            headers={"Range": f"bytes={offset}-{offset + length - 1}"},
            limits=FetchLimits(wire_bytes=length, decoded_bytes=length, redirects=0),
        )
        fetched = await self.client.get(request, delay_s=_DATA_DELAY_S)
        if fetched.status != HTTPStatus.PARTIAL_CONTENT:
            raise FetchError(
                NOT_ARCHIVED,
                f"{self.name} lists a capture of {capture.url}, and did not send it (status "
                f"{fetched.status})",
            )
        return _response(fetched.body, capture, limits)

    def archive_url(self, capture: CdxCapture) -> str | None:
        """Return the address of the WARC file that has the record."""
        name = capture.filename
        if name is None or not _FILENAME.fullmatch(name):
            return None
        return f"{self.data_address}/{name}"

    async def _page(self, query: CdxQuery, index: str, page: int) -> list[CdxCapture]:
        fetched = await self._ask(query, index, page=str(page))
        if fetched.status == HTTPStatus.NOT_FOUND:
            return []  # "No Captures found"
        if fetched.status != HTTPStatus.OK:
            error = read_error(fetched.body, status=fetched.status)
            raise SourceError(error.explain(f"its index failed (status {fetched.status})"))
        return parse_lines(fetched.body, index)

    async def _page_count(self, query: CdxQuery, index: str) -> int:
        fetched = await self._ask(query, index, showNumPages="true")
        reply = parse_json(fetched.body)
        count = reply.get("pages") if isinstance(reply, dict) else reply
        if fetched.status != HTTPStatus.OK or not isinstance(count, int):
            raise UnreadableIndex("it did not say how many pages it has")
        return count

    async def _ask(self, query: CdxQuery, index: str, **fields: str) -> FetchedResponse:
        parameters = urlencode(query.fields() | fields)
        request = FetchRequest(
            f"{self.address}/{index}-index?{parameters}",
            accept="application/json",
            limits=INDEX_LIMITS,
        )
        return await self.client.get(request, delay_s=_INDEX_DELAY_S)


def _crawl_indexes(fetched: FetchedResponse) -> tuple[CrawlIndex, ...]:
    try:
        listed = parse_json(fetched.body)
    except UnreadableIndex:
        listed = None
    entries = listed if isinstance(listed, list) else []
    indexes = tuple(
        _crawl_index(entry)
        for entry in entries
        if isinstance(entry, dict) and _ID.fullmatch(str(entry.get("id", "")))
    )
    if not indexes:
        raise SourceError(f"Common Crawl sent no list of its crawls (status {fetched.status})")
    return indexes


def _crawl_index(entry: dict[str, Any]) -> CrawlIndex:
    name = str(entry["id"])
    start, end = _time(entry.get("from")), _time(entry.get("to"))
    week = _WEEK.fullmatch(name)
    if week is not None and (start is None or end is None):
        try:
            at = datetime.fromisocalendar(int(week[1]), int(week[2]), 1).replace(tzinfo=UTC)
        except ValueError:
            return CrawlIndex(name, start, end)
        start, end = start or at - _CRAWL_SPAN, end or at + _CRAWL_SPAN
    return CrawlIndex(name, start, end)


def _time(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _position(cursor: str | None, ids: list[str]) -> tuple[str, int, int]:
    """Return the crawl, its page and the captures of the page that a cursor has passed."""
    if cursor is None:
        return ids[0], 0, 0
    match = _CURSOR.fullmatch(cursor)
    if match is None or match[1] not in ids:
        raise InvalidCursor
    return match[1], int(match[2]), int(match[3])


def _response(data: bytes, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:
    try:
        record = read_record(BytesIO(data), 0, len(data))
        if record.kind != "response" or capture_key(record.url) != capture_key(capture.url):
            raise FetchError(NOT_ARCHIVED, f"Common Crawl has no response of {capture.url}")
        response = read_response(record, limits)
        return replace(response, captured_at=response.captured_at or capture.captured_at)
    except BrokenRecord as error:
        raise FetchError("protocol", f"The archive's record is damaged: {error}.") from None
