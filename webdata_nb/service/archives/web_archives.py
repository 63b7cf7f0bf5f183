"""Reads web archives: the Wayback Machine, Common Crawl, and others like them.

Each has an index of captures and the captures themselves: the Wayback Machine a CDX server and its
replay of captures as they were sent, Common Crawl an index of each of its crawls and WARC files of
which parts are read. Requests go out at a pace that the archives allow, with retries. The addresses
of the archives are settings.

The Wayback Machine's CDX server replies with a JSON array of arrays, the first of which names the
fields. pywb, and with it Common Crawl, sends an object in each line.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec
import orjson

from webdata_nb.contract.archives import without_scheme
from webdata_nb.contract.choices import ArchiveSource, CaptureMatch
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import Access
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.contract.replies import IndexOutcome
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.retry_policies import ARCHIVE_ATTEMPTS, MAX_RETRY_AFTER_S, parse_http_date
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url, host_and_port
from webdata_nb.service.archives.warc import (
    HEAD_BYTES,
    ArchivedHead,
    ArchivedResponse,
    BrokenRecord,
    decode_body,
    parse_date,
    read_record,
    read_response,
)
from webdata_nb.service.errors import MissingSetting, SourceBusy, SourceError, SourceTimeout
from webdata_nb.service.foreign_services import read_error
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.egress_policy import is_local_host
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.polite_fetcher import OVERLOAD_STATUS, TRANSIENT_KINDS
from webdata_nb.service.web.request import FetchLimits, FetchRequest, retry_after_s
from webdata_nb.service.web.throttle import HostThrottle

# Of a reply: some six for each of its lines, of which there are 15,000 at most.
MAX_VALUES: Final = 1_000_000
_BEFORE_VALUES: Final = (b",", b"[", b"{", b"\n")
_TIMESTAMP: Final = "%Y%m%d%H%M%S"
_FIELDS: Final = ("timestamp", "original", "mimetype", "statuscode", "digest", "length")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_STATUS: Final = re.compile(r"[1-9][0-9]{2}")
_DIGEST: Final = re.compile(r"[A-Za-z0-9:]{1,128}")
_MIME_TYPE: Final = re.compile(r"[!-~]{1,200}")


class UnreadableIndex(Exception):
    """A reply is not one of an index; the text says what it is."""


@dataclass(frozen=True, slots=True)
class CdxQuery:
    """Which captures are listed; `start` and `end` are included.

    With `distinct`, captures with the content of the one before may be left out.
    """

    url: str
    match: CaptureMatch = "exact"
    start: datetime | None = None
    end: datetime | None = None
    distinct: bool = False

    def fields(self) -> dict[str, str]:
        """Return the parameters that all CDX servers share."""
        times = {"from": self.start, "to": self.end}
        return {
            "url": self.url,
            "matchType": self.match,
            "output": "json",
            **{name: format_timestamp(at) for name, at in times.items() if at is not None},
        }


@dataclass(frozen=True, slots=True)
class CdxCapture:
    """A line of an index. `filename` and `offset` are those of a record in Common Crawl."""

    url: str
    captured_at: datetime
    index: str
    status: int | None = None
    mime_type: str | None = None
    digest: str | None = None
    length: int | None = None
    filename: str | None = None
    offset: int | None = None


def format_timestamp(at: datetime) -> str:
    """Return a time as the 14 digits of archives."""
    return at.astimezone(UTC).strftime(_TIMESTAMP)


def parse_timestamp(text: str) -> datetime | None:
    """Return the time of 14 digits; None for other text."""
    try:
        is_timestamp = len(text) == len("20240601000000") and text.isascii() and text.isdecimal()
        return datetime.strptime(text, _TIMESTAMP).replace(tzinfo=UTC) if is_timestamp else None
    except ValueError:
        return None


def capture_key(url: str) -> str | None:
    """Return a key that is equal for URLs which archives do not tell apart; None for no URL.

    Examples
    --------
    >>> capture_key("https://www.example.com:443/a?") == capture_key("http://example.com/a")
    True
    """
    try:
        return without_scheme(canonical_key(canonical_url(url)))
    except FetchError:
        return None


def wayback_query(query: CdxQuery, limit: int, cursor: str | None) -> str:
    """Return the parameters of a query to the Wayback Machine."""
    fields = {
        **query.fields(),
        "fl": ",".join(_FIELDS),
        "limit": str(limit),
        "showResumeKey": "true",
    }
    if query.distinct and query.match == "exact":
        # It compares neighbouring lines, which may otherwise be of different URLs.
        fields["collapse"] = "digest"
    if cursor is not None:
        fields["resumeKey"] = cursor
    return urlencode(fields)


def parse_wayback(body: bytes, index: str) -> tuple[list[CdxCapture], str | None]:
    """Return the captures of a reply and the key with which the next one resumes.

    Raises
    ------
    UnreadableIndex
        It is no array of arrays.
    """
    rows = parse_json(body.strip() or b"[]")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise UnreadableIndex("it sent no list of captures")
    resume_key = None
    if len(rows) > 1 and not rows[-2] and len(rows[-1]) == 1:
        resume_key, rows = str(rows[-1][0]), rows[:-2]
    names = [str(name) for name in rows[0]] if rows else []
    lines = (dict(zip(names, row, strict=False)) for row in rows[1:])
    captures = (_capture(line, index) for line in lines)
    return [capture for capture in captures if capture is not None], resume_key


def parse_lines(body: bytes, index: str) -> list[CdxCapture]:
    """Return the captures of a reply with an object in each line; raises `UnreadableIndex`."""
    _check_size(body)
    lines = [parse_json(line) for line in body.split(b"\n") if line.strip()]
    if not all(isinstance(line, dict) for line in lines):
        raise UnreadableIndex("it sent no list of captures")
    captures = (_capture(line, index) for line in lines)
    return [capture for capture in captures if capture is not None]


def pack_captures(captures: Iterable[CdxCapture]) -> bytes:
    """Return captures as compact bytes."""
    return zlib.compress(orjson.dumps(list(captures)))


def unpack_captures(data: bytes) -> list[CdxCapture]:
    """Return the captures that `pack_captures` packed."""
    rows = orjson.loads(zlib.decompress(data))  # noqa: TID251 - our own record
    return [
        CdxCapture(**{**row, "captured_at": datetime.fromisoformat(row["captured_at"])})
        for row in rows
    ]


def parse_json(data: bytes) -> Any:
    """Return the value of a reply; raises `UnreadableIndex`."""
    _check_size(data)
    try:
        return decode_json(data)
    except MalformedJson:
        raise UnreadableIndex("it sent something that is no JSON") from None


def _check_size(data: bytes) -> None:
    """Refuse a reply with more values than a listing has, which could take all memory."""
    if sum(map(data.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise UnreadableIndex(f"it sent more than {MAX_VALUES:,} values")


def _capture(line: Mapping[str, Any], index: str) -> CdxCapture | None:
    """Return the capture of a line; None where it has no time or no web address."""
    texts = {name: str(value) for name, value in line.items()}
    url, at = texts.get("original", texts.get("url", "")), texts.get("timestamp", "")
    captured_at = parse_timestamp(at)
    if captured_at is None or capture_key(url) is None:
        return None
    filename = texts.get("filename")
    return CdxCapture(
        canonical_url(url),
        captured_at,
        index,
        _number(texts.get("statuscode", texts.get("status")), _STATUS),
        _text(texts.get("mimetype", texts.get("mime")), _MIME_TYPE),
        _text(texts.get("digest"), _DIGEST),
        _number(texts.get("length"), _DIGITS),
        filename,
        _number(texts.get("offset"), _DIGITS),
    )


def _number(text: str | None, form: re.Pattern[str]) -> int | None:
    return int(text) if text is not None and form.fullmatch(text) else None


def _text(text: str | None, form: re.Pattern[str]) -> str | None:
    # A hyphen stands for a missing value.
    return text if text not in {None, "-"} and form.fullmatch(text or "") else None


_MIB: Final = 1024 * 1024
INDEX_LIMITS: Final = FetchLimits(wire_bytes=32 * _MIB, decoded_bytes=64 * _MIB, redirects=0)


@dataclass(frozen=True, slots=True)
class IndexPage:
    """A part of a listing: its captures, what became of the index, and the cursor of the next."""

    captures: Sequence[CdxCapture]
    index: str
    outcome: IndexOutcome = "listed"
    detail: str = ""
    cursor: str | None = None


class WebArchive(Protocol):
    """An archive that is queried over the network.

    Its methods raise `SourceError` where it gives no usable reply, and `FetchError` where a single
    reply cannot be used.
    """

    @property
    def name(self) -> str:
        """The name of the archive in messages."""

    async def list_captures(
        self, query: CdxQuery, *, limit: int, cursor: str | None = None
    ) -> IndexPage:
        """Return up to `limit` captures, from a cursor on; raises `InvalidCursor`."""

    async def read(self, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:
        """Return a captured response.

        Raises
        ------
        FetchError
            Of kind ``not_archived`` where the archive lists a capture and does not have it.
        """

    def archive_url(self, capture: CdxCapture) -> str | None:
        """Return where the archive has a capture as it was sent."""


class InvalidCursor(Exception):
    """A cursor is not one of this archive."""


# Archives are slow, above all their indexes.
TIMEOUT_S: Final = 60.0
# The Wayback Machine blocks clients that go on after a 429, and sends no Retry-After.
_TOO_MANY_REQUESTS_S: Final = 60.0
_ERROR_PAUSE_S: Final = 2.0
_BUSY_S: Final = 10.0
_LEAST_PAUSE_S: Final = 0.25
_TRANSIENT: Final = TRANSIENT_KINDS | {"timeout", "host_unavailable"}

IsAnswer = Callable[[FetchedResponse], bool]
"""Whether a reply comes from the archive as asked, also with the status of an error."""


def is_no_server_error(fetched: FetchedResponse) -> bool:
    """Return whether a reply is neither a request to wait nor a failure of the server."""
    status = fetched.status
    return status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS


@dataclass(frozen=True, slots=True)
class ArchiveClient:
    """Sends requests to one archive.

    `patience_s` is how long a call waits for pauses that the archive asks for.
    """

    name: str
    fetcher: Fetcher
    throttle: HostThrottle
    patience_s: float = MAX_RETRY_AFTER_S

    async def get(
        self, request: FetchRequest, *, delay_s: float, is_answer: IsAnswer = is_no_server_error
    ) -> FetchedResponse:
        """Return the reply to a request; `delay_s` is the least time between two starts.

        Raises
        ------
        SourceBusy, SourceTimeout, SourceError
            There is no reply, even after retries.
        FetchError
            The reply is too large or damaged, or the address may not be requested.
        """
        host, ends_at = host_and_port(request.url), time.monotonic() + self.patience_s
        if is_local_host(urlsplit(request.url).hostname or ""):
            delay_s = 0.0  # an archive of one's own
        request = msgspec.structs.replace(
            request, follow_redirects=False, timeout_s=request.timeout_s or TIMEOUT_S
        )
        for attempt in range(1, ARCHIVE_ATTEMPTS + 1):
            max_wait_s = max(0.0, ends_at - time.monotonic())
            failure = await self._attempt(host, request, delay_s, max_wait_s, is_answer)
            if isinstance(failure, FetchedResponse):
                return failure
            is_over = failure.retry_after_s > ends_at - time.monotonic()
            if attempt == ARCHIVE_ATTEMPTS or is_over:
                raise failure.error
        raise AssertionError("the last attempt raises")

    async def _attempt(
        self,
        host: str,
        request: FetchRequest,
        delay_s: float,
        max_wait_s: float,
        is_answer: IsAnswer,
    ) -> FetchedResponse | _Failure:
        is_sent = False
        try:
            async with self.throttle.slot(host, delay_s=delay_s, max_wait_s=max_wait_s):
                is_sent = True
                with waiting_for(f"the answer of {host}", TIMEOUT_S):
                    fetched = await self.fetcher.fetch(request)
                if is_answer(fetched):
                    await self.throttle.report_success(host)
                    return fetched
                # Hold back further requests to an archive that asks to wait, or fails.
                status, after_s = fetched.status, retry_after_s(fetched)
                if status == HTTPStatus.TOO_MANY_REQUESTS and after_s is None:
                    after_s = _TOO_MANY_REQUESTS_S
                pause_s = _ERROR_PAUSE_S if after_s is None else max(after_s, _LEAST_PAUSE_S)
                await self.throttle.report_overload(host, pause_s)
                text = f"{self.name} {'asks to wait' if status in OVERLOAD_STATUS else 'failed'}"
                return _Failure(
                    SourceBusy(f"{text} (status {status})", retry_after_s=pause_s), pause_s
                )
        except FetchError as error:
            if error.kind not in _TRANSIENT:
                raise
            if not is_sent:  # the throttle holds it back
                busy = SourceBusy(f"{self.name}: {error}", retry_after_s=_BUSY_S)
                return _Failure(busy, _BUSY_S)
            if error.kind == "timeout":
                return _Failure(SourceTimeout(f"{self.name}: {error}"), 0.0)
            await self.throttle.report_overload(host, _ERROR_PAUSE_S)
            return _Failure(SourceError(f"{self.name}: {error}"), _ERROR_PAUSE_S)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt without an answer, and the pause before another one."""

    error: SourceError
    retry_after_s: float


WAYBACK_ADDRESS: Final = "https://web.archive.org"
INDEX: Final = "wayback"
# Four fifths of what the Internet Archive allows: 60 queries and 600 captures in a minute.
_WAYBACK_INDEX_DELAY_S: Final = 1.25
_REPLAY_DELAY_S: Final = 0.125
_REPLAY_PATH: Final = re.compile(r"^(?:https?://[^/]+)?/web/([0-9]{14})[a-z_]*/(.+)$", re.DOTALL)
_ORIGINAL: Final = "x-archive-orig-"
# Of the archive's own transfer.
_TRANSFER: Final = frozenset({"transfer-encoding", "content-length", "content-encoding"})
_EXCLUDED: Final = (b"AdministrativeAccessControl", b"RobotAccessControl", b"has been excluded")
# The archive may answer with another capture than the one that its index names.
_MAX_MOVES: Final = 3


@dataclass(frozen=True, slots=True)
class WaybackMachine(WebArchive):
    """The Wayback Machine at an address."""

    client: ArchiveClient
    address: str = WAYBACK_ADDRESS

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.client.name

    async def list_captures(
        self, query: CdxQuery, *, limit: int, cursor: str | None = None
    ) -> IndexPage:
        """Return up to `limit` captures; a site that the archive does not show has none."""
        url = f"{self.address}/cdx/search/cdx?{wayback_query(query, limit, cursor)}"
        request = FetchRequest(url, accept="application/json", limits=INDEX_LIMITS)
        fetched = await self.client.get(request, delay_s=_WAYBACK_INDEX_DELAY_S)
        if _is_exclusion(fetched):
            detail = f"{self.name} shows no captures of this site"
            return IndexPage((), INDEX, "excluded", detail)
        if fetched.status != HTTPStatus.OK:
            error = read_error(fetched.body, status=fetched.status)
            meaning = f"its index failed (status {fetched.status})"
            raise SourceError(f"{self.name}: {error.explain(meaning)}")
        try:
            captures, resume_key = parse_wayback(fetched.body, INDEX)
        except UnreadableIndex as error:
            raise SourceError(f"the index of {self.name} cannot be read: {error}") from None
        outcome: IndexOutcome = "listed" if captures or resume_key else "no_captures"
        return IndexPage(captures, INDEX, outcome, cursor=resume_key)

    async def read(self, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:
        """Return the response of a capture, or of the one that the archive has in its place."""
        at = capture.captured_at
        for _ in range(_MAX_MOVES):
            request = FetchRequest(self._address_of(capture.url, at), limits=limits)
            fetched = await self.client.get(
                request,
                delay_s=_REPLAY_DELAY_S,
                is_answer=lambda reply: (
                    _is_memento(reply) or _is_exclusion(reply) or is_no_server_error(reply)
                ),
            )
            # The archive itself may redirect to another capture of the same URL.
            match = _REPLAY_PATH.match(fetched.header("location") or "")
            moved_to: datetime | None = None
            if match is not None and not _is_memento(fetched):
                is_same = capture_key(match[2]) == capture_key(capture.url)
                moved_to = parse_timestamp(match[1]) if is_same else None
            if moved_to is None:
                return self._archived(fetched, capture.url, at, limits)
            at = moved_to
        raise FetchError(NOT_ARCHIVED, f"{self.name} leads from one capture to another")

    def archive_url(self, capture: CdxCapture) -> str:
        """Return the address of the content as it was sent."""
        return self._address_of(capture.url, capture.captured_at)

    def _address_of(self, url: str, at: datetime) -> str:
        return f"{self.address}/web/{format_timestamp(at)}id_/{url}"

    def _archived(
        self, fetched: FetchedResponse, url: str, at: datetime, limits: FetchLimits
    ) -> ArchivedResponse:
        if not _is_memento(fetched):
            reason = "does not show" if _is_exclusion(fetched) else "lists, and does not have"
            raise FetchError(
                NOT_ARCHIVED, f"{self.name} {reason} the capture of {url} at {at:%Y-%m-%d %H:%M}"
            )
        # The headers that were captured; the target of a redirect is the one at that time.
        original = [
            (name.removeprefix(_ORIGINAL), value)
            for name, value in fetched.headers
            if name.startswith(_ORIGINAL)
        ]
        names = {name for name, _ in original}
        location, kind = fetched.header("location"), fetched.header("content-type")
        if "location" not in names and location is not None:
            match = _REPLAY_PATH.match(location)
            original.append(("location", location if match is None else match[2]))
        if "content-type" not in names and kind is not None:
            original.append(("content-type", kind))
        head = ArchivedHead(fetched.status, tuple(original))
        # The archive sends some bodies with the codings of their capture and without the header.
        body = fetched.body
        is_gzip = head.values("content-encoding") == ["gzip"] and body[:2] == b"\x1f\x8b"
        if is_gzip and fetched.header("content-encoding") is None:
            body = decode_body(body, head, limits.decoded_bytes)
        captured_at = parse_http_date(fetched.header("memento-datetime") or "")
        return ArchivedResponse(
            fetched.status,
            tuple(line for line in head.headers if line[0] not in _TRANSFER),
            body,
            fetched.wire_bytes,
            at if captured_at is None else captured_at.astimezone(UTC),
        )


def _is_memento(fetched: FetchedResponse) -> bool:
    """Return whether a reply is a capture, whatever status it has."""
    return fetched.header("memento-datetime") is not None


def _is_exclusion(fetched: FetchedResponse) -> bool:
    error = (fetched.header("x-archive-wayback-runtime-error") or "").encode()
    is_refusal = fetched.status >= HTTPStatus.BAD_REQUEST and not _is_memento(fetched)
    return is_refusal and any(mark in fetched.body + error for mark in _EXCLUDED)


COMMON_CRAWL_INDEX_ADDRESS: Final = "https://index.commoncrawl.org"
COMMON_CRAWL_DATA_ADDRESS: Final = "https://data.commoncrawl.org"
# The index is one machine for everybody.
_COMMON_CRAWL_INDEX_DELAY_S: Final = 1.5
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
            fetched = await client.get(request, delay_s=_COMMON_CRAWL_INDEX_DELAY_S)
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
                raise SourceError(
                    f"Common Crawl sent no list of its crawls (status {fetched.status})"
                )
            self._indexes[address] = time.monotonic(), indexes
        return indexes


@dataclass(frozen=True, slots=True)
class CommonCrawl(WebArchive):
    """Common Crawl at the addresses of its index and of its files."""

    client: ArchiveClient
    lists: CrawlIndexList
    address: str = COMMON_CRAWL_INDEX_ADDRESS
    data_address: str = COMMON_CRAWL_DATA_ADDRESS

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
        # The crawl, its page and the captures of the page that the cursor has passed.
        index, page, skipped = ids[0], 0, 0
        if cursor is not None:
            match = _CURSOR.fullmatch(cursor)
            if match is None or match[1] not in ids:
                raise InvalidCursor
            index, page, skipped = match[1], int(match[2]), int(match[3])
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
        try:
            record = read_record(BytesIO(fetched.body), 0, len(fetched.body))
            if record.kind != "response" or capture_key(record.url) != capture_key(capture.url):
                raise FetchError(NOT_ARCHIVED, f"Common Crawl has no response of {capture.url}")
            response = read_response(record, limits)
            return replace(response, captured_at=response.captured_at or capture.captured_at)
        except BrokenRecord as error:
            raise FetchError("protocol", f"The archive's record is damaged: {error}.") from None

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
        return await self.client.get(request, delay_s=_COMMON_CRAWL_INDEX_DELAY_S)


def _crawl_index(entry: dict[str, Any]) -> CrawlIndex:
    name = str(entry["id"])
    start, end = parse_date(str(entry.get("from"))), parse_date(str(entry.get("to")))
    week = _WEEK.fullmatch(name)
    if week is not None and (start is None or end is None):
        try:
            at = datetime.fromisocalendar(int(week[1]), int(week[2]), 1).replace(tzinfo=UTC)
        except ValueError:
            return CrawlIndex(name, start, end)
        start, end = start or at - _CRAWL_SPAN, end or at + _CRAWL_SPAN
    return CrawlIndex(name, start, end)


NAMES: Final[Mapping[ArchiveSource, str]] = {
    "wayback": "the Wayback Machine",
    "commoncrawl": "Common Crawl",
}
_ADDRESSES: Final[Mapping[str, str]] = {
    "wayback": WAYBACK_ADDRESS,
    "commoncrawl": COMMON_CRAWL_INDEX_ADDRESS,
    "commoncrawl_data": COMMON_CRAWL_DATA_ADDRESS,
}


@dataclass(frozen=True, slots=True)
class WebArchives:
    """The archives that jobs and requests of a process ask."""

    lists: CrawlIndexList = field(default_factory=CrawlIndexList)

    def open(
        self,
        source: ArchiveSource,
        access: Callable[[str], Access],
        fetcher_for: Callable[[str], Fetcher],
        throttle: HostThrottle,
        *,
        patience_s: float | None = None,
    ) -> WebArchive:
        """Return an archive.

        Parameters
        ----------
        source
            Which one.
        access
            Returns the settings of a name: `wayback`, `commoncrawl` or `commoncrawl_data`.
        fetcher_for
            Returns the fetcher for an address in the settings.
        throttle
            Spaces the requests of all jobs.
        patience_s
            How long a request waits for pauses; by default as long as jobs wait.

        Raises
        ------
        MissingSetting
            An address in the settings is no URL.
        """
        address = _address(source, access)
        client = ArchiveClient(NAMES[source], fetcher_for(address), throttle)
        if patience_s is not None:
            client = replace(client, patience_s=patience_s)
        if source == "wayback":
            return WaybackMachine(client, address)
        return CommonCrawl(client, self.lists, address, _address("commoncrawl_data", access))


def _address(name: str, access: Callable[[str], Access]) -> str:
    url = access(name).url
    if url is None:
        return _ADDRESSES[name]
    try:
        return http_url(url).rstrip("/")
    except ValueError:
        raise MissingSetting(
            f"WEBDATA_{name.upper()}_URL must be an http:// or https:// URL"
        ) from None
