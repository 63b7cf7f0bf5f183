"""The Wayback Machine: its CDX server, and its replay of captures as they were sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.contract.replies import IndexOutcome
from webdata_nb.pacing.retry_policies import parse_http_date
from webdata_nb.page.errors import FetchError
from webdata_nb.service.archives.archive_client import ArchiveClient, is_no_server_error
from webdata_nb.service.archives.archived_response import (
    ArchivedHead,
    ArchivedResponse,
    decode_body,
)
from webdata_nb.service.archives.cdx import (
    CdxCapture,
    CdxQuery,
    UnreadableIndex,
    capture_key,
    format_timestamp,
    parse_timestamp,
    parse_wayback,
    wayback_query,
)
from webdata_nb.service.archives.web_archive import INDEX_LIMITS, IndexPage, WebArchive
from webdata_nb.service.errors import SourceError
from webdata_nb.service.foreign_services import read_error
from webdata_nb.service.web.request import FetchedResponse, FetchLimits, FetchRequest

ADDRESS: Final = "https://web.archive.org"
INDEX: Final = "wayback"
# Four fifths of what the Internet Archive allows: 60 queries and 600 captures in a minute.
_INDEX_DELAY_S: Final = 1.25
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
    address: str = ADDRESS

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
        fetched = await self.client.get(request, delay_s=_INDEX_DELAY_S)
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
            fetched = await self._replay(capture.url, at, limits)
            moved_to = _other_capture(fetched, capture.url)
            if moved_to is None:
                return self._archived(fetched, capture.url, at, limits)
            at = moved_to
        raise FetchError(NOT_ARCHIVED, f"{self.name} leads from one capture to another")

    def archive_url(self, capture: CdxCapture) -> str:
        """Return the address of the content as it was sent."""
        return self._address_of(capture.url, capture.captured_at)

    async def _replay(self, url: str, at: datetime, limits: FetchLimits) -> FetchedResponse:
        request = FetchRequest(self._address_of(url, at), limits=limits)
        return await self.client.get(request, delay_s=_REPLAY_DELAY_S, is_answer=_is_replay)

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
        head = ArchivedHead(fetched.status, _original_headers(fetched))
        return ArchivedResponse(
            fetched.status,
            tuple(line for line in head.headers if line[0] not in _TRANSFER),
            _body(fetched, head, limits),
            fetched.wire_bytes,
            _memento_time(fetched) or at,
        )


def _is_memento(fetched: FetchedResponse) -> bool:
    """Return whether a reply is a capture, whatever status it has."""
    return fetched.header("memento-datetime") is not None


def _is_replay(fetched: FetchedResponse) -> bool:
    return _is_memento(fetched) or _is_exclusion(fetched) or is_no_server_error(fetched)


def _is_exclusion(fetched: FetchedResponse) -> bool:
    error = (fetched.header("x-archive-wayback-runtime-error") or "").encode()
    is_refusal = fetched.status >= HTTPStatus.BAD_REQUEST and not _is_memento(fetched)
    return is_refusal and any(mark in fetched.body + error for mark in _EXCLUDED)


def _memento_time(fetched: FetchedResponse) -> datetime | None:
    at = parse_http_date(fetched.header("memento-datetime") or "")
    return None if at is None else at.astimezone(UTC)


def _other_capture(fetched: FetchedResponse, url: str) -> datetime | None:
    """Return the time of the capture of the same URL to which the archive itself redirects."""
    location = fetched.header("location")
    if _is_memento(fetched) or location is None:
        return None
    match = _REPLAY_PATH.match(location)
    if match is None or capture_key(match[2]) != capture_key(url):
        return None
    return parse_timestamp(match[1])


def _original_headers(fetched: FetchedResponse) -> tuple[tuple[str, str], ...]:
    """Return the headers that were captured; the target of a redirect is the one at that time."""
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
    return tuple(original)


def _body(fetched: FetchedResponse, head: ArchivedHead, limits: FetchLimits) -> bytes:
    """Return the body without content codings.

    The archive sends some bodies with the codings of their capture and without the header.
    """
    is_decoded = fetched.header("content-encoding") is not None
    is_gzip = head.values("content-encoding") == ["gzip"] and fetched.body[:2] == b"\x1f\x8b"
    if is_decoded or not is_gzip:
        return fetched.body
    return decode_body(fetched.body, head, limits.decoded_bytes)
