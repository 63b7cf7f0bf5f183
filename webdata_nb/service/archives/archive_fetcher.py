"""Answers the requests of a crawl from the captures of an archive.

Of a web archive, the capture of a URL that is nearest to a date answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from webdata_nb.contract.choices import CaptureMatch
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.page.declared_refresh import refresh_target
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url, url_origin
from webdata_nb.service.archives.cdx import (
    CdxCapture,
    CdxQuery,
    capture_key,
    pack_captures,
    unpack_captures,
)
from webdata_nb.service.archives.warc import ArchivedResponse
from webdata_nb.service.archives.web_archives import WebArchive
from webdata_nb.service.errors import NotIndexed, SourceError
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource
from webdata_nb.service.web.redirects import redirect_target
from webdata_nb.service.web.request import FetchedResponse, FetchLimits, FetchRequest, Redirect

if TYPE_CHECKING:
    from webdata_nb.service.archives.archive import Archive, Archives
    from webdata_nb.service.web.request import AllowHop


UNAVAILABLE: Final = "archive_unavailable"
"""The kind of failure of a page that the archive did not give, although it may have it."""

# Of a host or a URL; they take some 30 MB.
MAX_CAPTURES_LISTED: Final = 50_000
# Of all hosts and URLs of a crawl together.
MAX_CAPTURES_KEPT: Final = 4 * MAX_CAPTURES_LISTED
# A reply of the Wayback Machine, and no less than a page of Common Crawl.
_PAGE: Final = 15_000
# An index that goes on without captures would never end.
_MAX_PAGES: Final = 200
# URLs of another host than that of the start which are looked up one by one.
_SINGLE_LOOKUPS: Final = 3
_MAX_LOOKUPS: Final = 20_000
# Narrower windows for a URL with too many captures, each a tenth of the one before.
_NARROWER_WINDOWS: Final = 4

CapturesByKey = dict[str, list[CdxCapture]]


@dataclass(slots=True)
class CaptureLists:
    """The captures of hosts and of single URLs; those that were used last, within a limit.

    The name of a list is a host or the key of a URL. A host with too many captures has None.
    """

    _lists: OrderedDict[str, CapturesByKey | None] = field(default_factory=OrderedDict)
    captures: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self._lists

    def get(self, name: str) -> CapturesByKey | None:
        """Return a list; None without one, or where there are too many captures."""
        if name in self._lists:
            self._lists.move_to_end(name)
        return self._lists.get(name)

    def add(self, name: str, captures: CapturesByKey | None) -> None:
        """Add a list, and drop the ones that were not used for the longest time."""
        self._lists[name] = captures
        self.captures += _size(captures)
        while self.captures > MAX_CAPTURES_KEPT and len(self._lists) > 1:
            self.captures -= _size(self._lists.popitem(last=False)[1])


@dataclass(frozen=True, slots=True)
class DatedCaptures:
    """The captures of an archive at about a time.

    The captures of a host are listed once; a host with too many is asked for each URL.

    Parameters
    ----------
    archive
        The archive.
    as_of
        The time: of the captures of a URL the nearest one counts.
    max_distance
        Between a capture and that time at most; captures beyond do not count.
    start_url
        The URL of a crawl's start, whose host is listed at once.
    lists
        What the archive has listed so far.
    pin
        Stores the list of the start's host, for `restore` when the crawl resumes.
    """

    archive: WebArchive
    as_of: datetime
    max_distance: timedelta
    start_url: str
    lists: CaptureLists = field(default_factory=CaptureLists)
    pin: Callable[[bytes], Awaitable[None]] | None = None
    _lookups: dict[str, int] = field(default_factory=dict)
    # Why the archive shows no captures, by host.
    _excluded: dict[str, str] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, url: str, limits: FetchLimits) -> ArchivedResponse:
        """Return the response of a URL that was captured nearest to the time.

        Raises
        ------
        FetchError
            Of kind ``not_archived`` where there is none within the distance, and of kind
            ``archive_unavailable`` where the archive cannot be asked.
        """
        try:
            capture = await self._nearest(url)
            response = await self.archive.read(capture, limits)
        except SourceError as error:
            raise FetchError(UNAVAILABLE, str(error)) from None
        at = response.captured_at
        if at is not None and not self._is_near(at):
            raise FetchError(
                NOT_ARCHIVED,
                f"{self.archive.name} has a capture of {url} at {at:%Y-%m-%d %H:%M} only, and "
                f"none {self._window}",
            )
        return response

    def restore(self, pinned: bytes) -> None:
        """Use the list of the start's host that an earlier attempt pinned."""
        self.lists.add(_host(self.start_url), self._nearest_of_each(unpack_captures(pinned)))

    async def _nearest(self, url: str) -> CdxCapture:
        candidates = await self._candidates(url)
        # A capture of the same URL with http may be a redirect to that with https.
        exact = [capture for capture in candidates if capture.url == url]
        others = [capture for capture in candidates if not _is_redirect(capture)]
        near = [capture for capture in exact or others if self._is_near(capture.captured_at)]
        if not near:
            reason = f"{self.archive.name} has no capture of {url} {self._window}"
            detail = self._excluded.get(_host(url), reason)
            if self.lists.get(_host(url)) is not None:
                raise NotIndexed(detail)
            raise FetchError(NOT_ARCHIVED, detail)
        return min(near, key=self._distance)

    def _distance(self, capture: CdxCapture) -> tuple[timedelta, datetime]:
        # Of two that are equally far, the earlier one.
        return abs(capture.captured_at - self.as_of), capture.captured_at

    def _is_near(self, at: datetime) -> bool:
        return abs(at - self.as_of) <= self.max_distance

    @property
    def _window(self) -> str:
        days = self.max_distance / timedelta(days=1)
        unit = "day" if days == 1 else "days"
        return f"within {days:g} {unit} of {self.as_of:%Y-%m-%d %H:%M}"

    async def _candidates(self, url: str) -> list[CdxCapture]:
        """Return the captures of a URL in the window."""
        key = capture_key(url)
        if key is None:
            return []
        host = _host(url)
        if (by_key := self.lists.get(host)) is not None:
            return by_key.get(key, [])
        async with self._lock:
            if host not in self.lists and self._lists_host(host):
                await self._list_host(host, url)
            if (by_key := self.lists.get(host)) is not None:
                return by_key.get(key, [])
            if (by_key := self.lists.get(key)) is None:
                by_key = {key: await self._captures_of_url(url, key)}
                self.lists.add(key, by_key)
            return by_key[key]

    def _lists_host(self, host: str) -> bool:
        if host == _host(self.start_url):
            return True
        count = self._lookups.get(host, 0) + 1
        self._lookups[host] = count
        if len(self._lookups) > _MAX_LOOKUPS:
            del self._lookups[next(iter(self._lookups))]
        return count > _SINGLE_LOOKUPS

    async def _list_host(self, host: str, url: str) -> None:
        listed = await self._list(f"{url_origin(url)}/", "host", self.max_distance)
        by_key = None if listed is None else self._nearest_of_each(listed)
        if self.pin is not None and by_key is not None and host == _host(self.start_url):
            captures = chain.from_iterable(by_key.values())
            await self.pin(await asyncio.to_thread(pack_captures, captures))
        self.lists.add(host, by_key)

    def _nearest_of_each(self, captures: Iterable[CdxCapture]) -> CapturesByKey:
        """Return the captures that may be read: the nearest of each URL, redirects apart."""
        nearest: dict[tuple[str, bool], CdxCapture] = {}
        for capture in captures:
            best = nearest.setdefault((capture.url, _is_redirect(capture)), capture)
            if self._distance(capture) < self._distance(best):
                nearest[capture.url, _is_redirect(capture)] = capture
        by_key: CapturesByKey = {}
        for capture in nearest.values():
            by_key.setdefault(capture_key(capture.url) or "", []).append(capture)
        return by_key

    async def _captures_of_url(self, url: str, key: str) -> list[CdxCapture]:
        distance = self.max_distance
        for _ in range(1 + _NARROWER_WINDOWS):
            listed = await self._list(url, "exact", distance)
            if listed is not None:
                # A capture in a narrower window is nearer than all beyond it.
                found = self._nearest_of_each(listed).get(key, [])
                if found or distance == self.max_distance:
                    return found
                break
            distance /= 10
        raise FetchError(
            UNAVAILABLE,
            f"{self.archive.name} has too many captures of {url} to find the nearest one: try a "
            "smaller max_distance",
        )

    async def _list(
        self, url: str, match: CaptureMatch, distance: timedelta
    ) -> list[CdxCapture] | None:
        """Return the captures that match; None if there are too many.

        Raises
        ------
        SourceError
            The index does not answer, or not to its end.
        """
        query = CdxQuery(url, match, self.as_of - distance, self.as_of + distance)
        captures: list[CdxCapture] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.archive.list_captures(query, limit=_PAGE, cursor=cursor)
            if page.outcome == "unavailable":
                raise SourceError(f"{self.archive.name}, {page.index}: {page.detail}")
            if page.outcome == "excluded":
                self._excluded[_host(url)] = page.detail
            captures += page.captures
            if page.cursor is None and len(captures) <= MAX_CAPTURES_LISTED:
                return captures
            if len(captures) >= MAX_CAPTURES_LISTED:
                return None
            if page.cursor == cursor:
                raise SourceError(f"{self.archive.name}, {page.index}: it repeats a page")
            cursor = page.cursor
        raise SourceError(f"the index of {self.archive.name} has no end")


def _is_redirect(capture: CdxCapture) -> bool:
    status = capture.status or 0
    return HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST


def _host(url: str) -> str:
    """Return the host of a URL as archives tell hosts apart."""
    return (capture_key(url) or "").partition("/")[0]


def _size(captures: CapturesByKey | None) -> int:
    return 1 + sum(map(len, (captures or {}).values()))


ReadCapture: TypeAlias = "Callable[[str, FetchLimits, float], Awaitable[ArchivedResponse]]"
"""Returns the response that was captured of a URL, in so many seconds; raises `FetchError`."""


class SingleAttemptDeadline(PageDeadline):
    """A deadline that leaves no time for a second attempt: the record would be the same."""

    @property
    def remaining_s(self) -> float:
        """No seconds."""
        return 0.0


class ArchiveFetcher(ResponseSource):
    """Returns the responses that an archive has, and follows its redirects."""

    def __init__(self, read: ReadCapture) -> None:
        self._read = read

    @classmethod
    def of_file(cls, archive: Archive, archives: Archives) -> Self:
        """Return a fetcher that reads an archive file."""

        def read(url: str, limits: FetchLimits, timeout_s: float) -> Awaitable[ArchivedResponse]:
            return archives.response(archive, url, limits, timeout_s=timeout_s)

        return cls(read)

    @contextmanager
    def deadline(self, timeout_s: float) -> Iterator[PageDeadline]:
        """Start the deadline of a page, which is read once."""
        yield SingleAttemptDeadline(timeout_s)

    async def fetch(
        self,
        request: FetchRequest,
        deadline: PageDeadline,
        *,
        delay_s: float = 0.0,  # noqa: ARG002 - the site is not asked
        allow_hop: AllowHop | None = None,
        queued: bool = True,  # noqa: ARG002
    ) -> FetchedResponse:
        """Return the response of a URL, after its redirects; raises `FetchError`."""
        limits, started_at = request.limits or FetchLimits(), time.perf_counter()
        requested = url = canonical_url(request.url)
        hops: list[Redirect] = []
        stopped: str | None = None
        try:
            while True:
                remaining_s = max(0.001, deadline.timeout_s - deadline.elapsed_s)
                archived = await self._read(url, limits, remaining_s)
                target = redirect_target(url, archived.status, archived.header("location"))
                if target is None and archived.status == HTTPStatus.OK:
                    target = refresh_target(url, archived.header("refresh"), archived.body)
                    if any(hop.url == target for hop in hops):
                        break  # no duty, unlike a circle of redirects
                if target is None:
                    break
                hops.append(Redirect(url, archived.status))
                _check_hops(hops, target, limits)
                url = target
                stopped = None if allow_hop is None else await allow_hop(url)
                if stopped is not None:
                    break
        except FetchError as failure:
            failure.hops = len(hops)
            raise
        elapsed_s = time.perf_counter() - started_at
        return _fetched(requested, url, archived, hops, elapsed_s=elapsed_s, stopped=stopped)


def _check_hops(hops: list[Redirect], target: str, limits: FetchLimits) -> None:
    if len(hops) > limits.redirects:
        raise FetchError("redirects", f"The page redirects more than {limits.redirects} times.")
    if any(hop.url == target for hop in hops):
        raise FetchError("redirects", f"The page redirects in a circle, to {target!r}.")


def _fetched(
    requested: str,
    final_url: str,
    archived: ArchivedResponse,
    hops: list[Redirect],
    *,
    elapsed_s: float,
    stopped: str | None,
) -> FetchedResponse:
    return FetchedResponse(
        url=requested,
        final_url=final_url,
        status=archived.status,
        headers=archived.headers,
        body=b"" if stopped else archived.body,
        wire_bytes=archived.stored_bytes,
        redirects=tuple(hops),
        elapsed_s=elapsed_s,
        stopped=stopped,
        captured_at=archived.captured_at,
    )
