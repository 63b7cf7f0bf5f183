"""One page, from its URL to its data: wait for the host's turn, fetch, try again, scrape."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic
from typing import Final, Protocol

from webdata_nb.service.browser.render_request import MOST_PIXELS_HIGH
from webdata_nb.service.browser.renderer import Browser, Rendered, RenderRequest
from webdata_nb.service.content.source import ScrapeOptions, Source
from webdata_nb.service.documents.sitemap import SITEMAP, Listing, listing_of
from webdata_nb.service.errors import FetchError, PageError, ScrapeError
from webdata_nb.service.observability.logs import Repeats
from webdata_nb.service.pages.render_options import SCREENSHOT, RenderOptions
from webdata_nb.service.runtime.cooperative import in_turns
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.scrape.scraped import Scraped
from webdata_nb.service.web.fetch import FetchedResponse, FetchRequest
from webdata_nb.service.web.polite_fetcher import (
    PageDeadline,
    PoliteFetcher,
    retry_delay_s,
)
from webdata_nb.service.web.urls import split_url

# Bytes; a multiple of three, so that the pieces together are the Base64 of the whole.
BASE64_BYTES_PER_STEP: Final = 3 * 256 * 1024
AllowHop = Callable[[str], Awaitable[str | None]]


class PageScraper(Protocol):
    """Whatever turns bytes into data: this process, or a pool of workers."""

    async def scrape(
        self, source: Source, options: ScrapeOptions, *, outlinks: bool = True
    ) -> Scraped:
        """Return the page's data; raises `ScrapeError`."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to visit and what is wanted of it.

    `timeout_s` covers every attempt, but not the line at a host that wants its distance.
    """

    url: str
    options: ScrapeOptions
    timeout_s: float = 30.0
    delay_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    outlinks: bool = True
    look: RenderOptions = field(default_factory=RenderOptions)


@dataclass(frozen=True, slots=True)
class PageVisit:
    """What a visit came to: `scraped`, or `error`, or `stopped` (why a redirect was left).

    `hops` counts the redirects that were followed, those of one attempt.
    """

    url: str
    final_url: str
    status: int | None
    elapsed_s: float
    fetched_at: datetime
    scraped: Scraped | None = None
    error: PageError | None = None
    stopped: str | None = None
    rendered: bool = False
    hops: int = 0


def http_error(status: int) -> PageError:
    """Return the failure that an HTTP error status means for a row."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "unknown status"
    return PageError(f"http_{status}", f"HTTP {status} {phrase}")


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that came whole, still to be read; whoever has this need not fetch it again.

    `elapsed_s` are the seconds that it took, those in line left out. `page_height` is that of the
    whole page in CSS pixels, where the screenshot is of the full page.
    """

    url: str
    source: Source
    elapsed_s: float
    rendered: bool = False
    screenshot: bytes | None = None
    page_height: int | None = None


class PagePipeline:
    """Visits pages politely; one for all jobs of a process."""

    def __init__(self, fetcher: PoliteFetcher, pages: PageScraper, browser: Browser) -> None:
        self._fetcher, self._pages, self._browser = fetcher, pages, browser
        self._retries = Repeats()

    async def visit(self, errand: PageRequest, *, allow_hop: AllowHop | None = None) -> PageVisit:
        """Return what came of one page; only a cancellation is raised."""
        came = await self.arrive(errand, allow_hop=allow_hop)
        return came if isinstance(came, PageVisit) else await self.read(came, errand)

    async def arrive(
        self, errand: PageRequest, *, allow_hop: AllowHop | None = None
    ) -> FetchedPage | PageVisit:
        """Do what needs the network: return the page as it came, or why there is none."""
        with self._fetcher.deadline(errand.timeout_s) as deadline:
            return await self._arrive_within(errand, deadline, allow_hop)

    async def _arrive_within(
        self, errand: PageRequest, deadline: PageDeadline, allow_hop: AllowHop | None
    ) -> FetchedPage | PageVisit:
        try:
            errand = await self._as_device(errand)
            fetched = await self._fetch(errand, deadline, allow_hop)
        except PageError as error:
            at, took_s = datetime.now(UTC), deadline.elapsed_s
            hops = error.hops if isinstance(error, FetchError) else 0
            return PageVisit(errand.url, errand.url, None, took_s, at, error=error, hops=hops)
        at = datetime.now(UTC)
        if fetched.stopped is not None:
            return _visit(errand, fetched, deadline, at, stopped=fetched.stopped)
        if fetched.status >= HTTPStatus.BAD_REQUEST:
            return _visit(errand, fetched, deadline, at, error=http_error(fetched.status))
        came = FetchedPage(errand.url, _source(fetched, at), deadline.elapsed_s)
        try:
            return await self._rendered(errand, fetched, came, deadline, allow_hop)
        except PageError as error:
            return _visit(errand, fetched, deadline, at, error=error)

    async def _rendered(
        self,
        errand: PageRequest,
        fetched: FetchedResponse,
        came: FetchedPage,
        deadline: PageDeadline,
        allow_hop: AllowHop | None,
    ) -> FetchedPage | PageVisit:
        """Return a page as the browser leaves it, where it is to be rendered."""
        rendered = await self._render(errand, fetched, deadline)
        if rendered is None:
            return came
        if not _is_html(fetched):
            # Drawn for its picture: how a browser lays text out is no part of the document.
            return replace(
                came,
                elapsed_s=deadline.elapsed_s,
                rendered=True,
                screenshot=rendered.screenshot,
                page_height=rendered.page_height,
            )
        if rendered.final_url != fetched.final_url:
            fetched = replace(fetched, final_url=rendered.final_url)
            stopped = await _stopped(rendered.final_url, deadline, allow_hop)
            if stopped is not None:
                at = came.source.fetched_at
                return _visit(errand, fetched, deadline, at, stopped=stopped)
        # The document as scripts left it, and in UTF-8 whatever the server's headers say.
        source = replace(
            came.source,
            final_url=fetched.final_url,
            body=rendered.html,
            content_type=rendered.content_type,
        )
        return FetchedPage(
            errand.url,
            source,
            deadline.elapsed_s,
            rendered=True,
            screenshot=rendered.screenshot,
            page_height=rendered.page_height,
        )

    async def read(self, came: FetchedPage, errand: PageRequest) -> PageVisit:
        """Turn a page that came into its data, which asks nobody for anything."""
        source, begun = came.source, monotonic()
        scraped, failure = None, None
        try:
            scraped = await self._pages.scrape(source, errand.options, outlinks=errand.outlinks)
        except PageError as error:
            failure = error
        if scraped is not None and came.screenshot is not None:
            picture = await in_turns(_base64(came.screenshot))
            scraped = _with_screenshot(scraped, picture, came.page_height)
        return PageVisit(
            came.url,
            source.final_url,
            source.status,
            came.elapsed_s + monotonic() - begun,
            source.fetched_at,
            scraped=scraped,
            error=failure,
            rendered=came.rendered and failure is None,
            hops=len(source.redirects),
        )

    async def read_sitemap(self, fetched: FetchedResponse) -> Listing:
        """Return what a sitemap lists; what a page worker could not read is its problem."""
        source = _source(fetched, datetime.now(UTC))
        options = ScrapeOptions(formats=(SITEMAP,), facts=frozenset())
        try:
            scraped = await self._pages.scrape(source, options, outlinks=False)
        except ScrapeError as error:
            return Listing(problem=str(error))
        return listing_of(scraped.formats[SITEMAP])

    async def _as_device(self, errand: PageRequest) -> PageRequest:
        """Ask for the page as the device would, whose own variant many servers send."""
        look = errand.look
        if not look.on_a_phone or any(name.lower() == "user-agent" for name in errand.headers):
            return errand
        try:
            async with asyncio.timeout(errand.timeout_s):
                screen = await self._browser.screen(look.mobile_device, mobile=look.mobile)
        except TimeoutError:
            raise ScrapeError("render", "the browser's devices could not be read in time") from None
        if screen.user_agent is None:
            return errand
        return replace(errand, headers={**errand.headers, "User-Agent": screen.user_agent})

    async def _render(
        self, errand: PageRequest, fetched: FetchedResponse, deadline: PageDeadline
    ) -> Rendered | None:
        """Have the browser load the page that was fetched, where that is needed."""
        look = errand.look
        if not _is_html(fetched):
            if look.screenshot is None or not _is_text(fetched):
                return None
            fetched = _as_text(fetched)
        elif not look.needed(fetched.body):
            return None
        request = RenderRequest(
            errand.url,
            wait_for=look.wait_for,
            mobile=look.mobile,
            mobile_device=look.mobile_device,
            headers=errand.headers,
            cookies=errand.cookies,
            screenshot=look.screenshot,
            document=fetched,
            delay_s=errand.delay_s,
        )
        while True:
            try:
                timeout_s = max(0.001, deadline.remaining_s)
                return await self._browser.render(replace(request, timeout_s=timeout_s))
            except ScrapeError as error:
                if error.kind != "render" or not deadline.restart_if_interrupted():
                    raise

    async def _fetch(
        self, errand: PageRequest, deadline: PageDeadline, allow_hop: AllowHop | None
    ) -> FetchedResponse:
        """Fetch, again where that may help, within what the page is allowed."""
        attempt = 0
        while True:
            attempt += 1
            fetched, failure = await self._attempt(errand, deadline, allow_hop)
            after = None if fetched is None else fetched.retry_after_s
            wait = retry_delay_s(
                attempt,
                status=None if fetched is None else fetched.status,
                kind="" if failure is None else failure.kind,
                retry_after_s=after,
                remaining_s=deadline.remaining_s,
            )
            if wait is None:
                if fetched is None:
                    raise failure or FetchError("protocol", "no answer")
                return fetched
            cause = f"http_{fetched.status}" if fetched else failure.kind if failure else ""
            self._retries.event("page_retried", host=split_url(errand.url).host, cause=cause)
            await sleep(wait)
            deadline.restart_if_interrupted()

    async def _attempt(
        self, errand: PageRequest, deadline: PageDeadline, allow_hop: AllowHop | None
    ) -> tuple[FetchedResponse | None, FetchError | None]:
        request = FetchRequest(errand.url, headers=errand.headers, cookies=errand.cookies)
        try:
            fetched = await self._fetcher.fetch(
                request, deadline, delay_s=errand.delay_s, allow_hop=allow_hop
            )
        except FetchError as failure:
            return None, failure
        return fetched, None


def _with_screenshot(scraped: Scraped, picture: str, page_height: int | None) -> Scraped:
    """Add a screenshot, and of a full page in the metadata whether it has the whole of it."""
    formats = {**scraped.formats, SCREENSHOT: picture}
    if page_height is None:
        return replace(scraped, formats=formats)
    shown = {
        "screenshot_truncated": page_height > MOST_PIXELS_HIGH,
        "page_height": page_height,
    }
    return replace(scraped, formats=formats, metadata={**scraped.metadata, **shown})


async def _stopped(url: str, deadline: PageDeadline, allow_hop: AllowHop | None) -> str | None:
    """Return why a page that scripts led to is left; None where it may be read."""
    if allow_hop is None:
        return None
    try:
        async with asyncio.timeout(max(0.001, deadline.remaining_s)):
            return await allow_hop(url)
    except TimeoutError:
        raise FetchError("timeout", f"robots.txt for {url!r} did not come in time.") from None


def _is_html(fetched: FetchedResponse) -> bool:
    return "html" in (fetched.header("content-type") or "text/html").lower()


def _is_text(fetched: FetchedResponse) -> bool:
    kind = (fetched.header("content-type") or "").lower()
    if kind.startswith("application/"):
        return "json" in kind or "xml" in kind
    return kind.startswith("text/")


def _as_text(fetched: FetchedResponse) -> FetchedResponse:
    """Return a document that is no HTML as one that a browser shows, and does not save."""
    _, mark, charset = (fetched.header("content-type") or "").lower().partition("charset=")
    kind = f"text/plain; charset={charset}" if mark else "text/plain"
    kept = tuple(line for line in fetched.headers if line[0] != "content-type")
    return replace(fetched, headers=(*kept, ("content-type", kind)))


def _source(fetched: FetchedResponse, at: datetime) -> Source:
    return Source(
        url=fetched.url,
        final_url=fetched.final_url,
        status=fetched.status,
        content_type=fetched.header("content-type"),
        body=fetched.body,
        redirects=tuple((hop.url, hop.status) for hop in fetched.redirects),
        fetched_at=at,
        headers=fetched.headers,
    )


def _base64(data: bytes) -> Steps[str]:
    """Write a screenshot, which may be tens of megabytes, in Base64."""
    pieces = []
    for start in range(0, len(data), BASE64_BYTES_PER_STEP):
        pieces.append(b64encode(data[start : start + BASE64_BYTES_PER_STEP]).decode())
        yield
    return "".join(pieces)


def _visit(
    errand: PageRequest,
    fetched: FetchedResponse,
    deadline: PageDeadline,
    at: datetime,
    *,
    error: PageError | None = None,
    stopped: str | None = None,
) -> PageVisit:
    return PageVisit(
        errand.url,
        fetched.final_url,
        fetched.status,
        deadline.elapsed_s,
        at,
        error=error,
        stopped=stopped,
        # The hop at which a fetch was stopped was not requested.
        hops=len(fetched.redirects) - (fetched.stopped is not None),
    )
