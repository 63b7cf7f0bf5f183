"""Answers the requests of a crawl from the captures of an archive."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Self, TypeAlias

from webdata_nb.page.declared_refresh import refresh_target
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource
from webdata_nb.service.web.redirects import redirect_target
from webdata_nb.service.web.request import FetchedResponse, FetchLimits, FetchRequest, Redirect

if TYPE_CHECKING:
    from webdata_nb.service.archives.archive import Archive, Archives
    from webdata_nb.service.archives.warc import ArchivedResponse
    from webdata_nb.service.web.request import AllowHop


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
