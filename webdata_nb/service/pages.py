"""Loads pages for engines: fetched or rendered, and scraped."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic
from typing import Any, Final, Literal, Protocol

import msgspec
import orjson

from webdata_nb.contract.requests import FormatOptions, MarkdownMode
from webdata_nb.page.content.page_source import SOURCE, ConversionOptions, FetchedResponse, Redirect
from webdata_nb.page.content.quality import is_empty_without_javascript
from webdata_nb.page.errors import FetchError, PageError, ScrapeError
from webdata_nb.page.extract.results import EVIDENCE, ValueEvidence
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.page.sitemap import SITEMAP_FORMAT, ParsedSitemap
from webdata_nb.page.urls import split_url
from webdata_nb.service.browser.renderer import (
    MOST_PIXELS_HIGH,
    Browser,
    RenderedPage,
    RenderRequest,
    ScreenshotRequest,
)
from webdata_nb.service.errors import HostPaused
from webdata_nb.service.observability.logs import EventThrottle
from webdata_nb.service.runtime.event_loop import run_cooperatively
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.web.fetch import FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource, retry_delay_s
from webdata_nb.service.web.request import retry_after_s

# Rendering and formats

SCREENSHOT = "screenshot"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a browser renders a page; the defaults need no browser.

    `wait_for` is milliseconds or a CSS selector. `render` "auto" decides by the page's content,
    and False never uses a browser.
    """

    render: bool | Literal["auto"] | None = None
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    screenshot: ScreenshotRequest | None = None

    @property
    def is_mobile(self) -> bool:
        """Whether the page is requested as by a mobile device."""
        return self.mobile or self.mobile_device is not None

    def needs_browser(self, html: bytes) -> bool:
        """Return whether a browser must load the page."""
        if self.render is False:
            return False
        if self.render is True or self.wait_for is not None or self.is_mobile or self.screenshot:
            return True
        return self.render == "auto" and is_empty_without_javascript(html)


def render_options(
    formats: tuple[str, ...],
    options: FormatOptions | None,
    *,
    mobile: bool | None,
    mobile_device: str | None,
    wait_for: int | str | None = None,
    render: bool | Literal["auto"] | None = None,
) -> RenderOptions:
    """Return the render options of a request."""
    screenshot_options = None if options is None else options.screenshot
    shot = None
    if SCREENSHOT in formats:
        shot = ScreenshotRequest()
        if screenshot_options is not None:
            shot = ScreenshotRequest(
                full_page=bool(screenshot_options.full_page)
                or screenshot_options.capture == "full_page",
                width=screenshot_options.width,
                height=screenshot_options.height,
            )
    return RenderOptions(render, wait_for, bool(mobile), mobile_device, shot)


def page_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats that are made from the page's text: all but screenshots."""
    return tuple(name for name in formats if name != SCREENSHOT)


def markdown_mode(options: FormatOptions | None) -> MarkdownMode | None:
    """Return which content Markdown covers, where the request sets it for Markdown alone."""
    if options is None or options.markdown is None:
        return None
    return options.markdown.mode


# Visits
#
# The members of a row that come from its page are divided into shared and own parts. The evidence
# of extracted values is found in a page worker, which limits time and memory.


def source_of_values(scraped: Scraped | None) -> bytes:
    """Return the source of a page from which values were extracted, as JSON; else nothing."""
    source = None if scraped is None else scraped.formats.get(SOURCE)
    if not isinstance(source, str) or not source:
        return b""
    return orjson.dumps(source.encode("utf-8", "replace").decode())


# A multiple of three, so that the concatenated pieces are valid Base64.
BASE64_BYTES_PER_STEP: Final = 3 * 256 * 1024
DEFAULT_TIMEOUT_S: Final = 30.0
"""The seconds for a page, unless its request says otherwise."""

# Headers with which a server may answer 304.
_CONDITIONS: Final = frozenset({"if-none-match", "if-modified-since"})


class PageScraper(Protocol):
    """Extracts the data of fetched pages, in this process or in a pool of workers."""

    async def scrape(
        self, source: FetchedResponse, options: ConversionOptions, *, outlinks: bool = True
    ) -> Scraped:
        """Return the page's data; raises `ScrapeError`."""

    def start_soon(self) -> None:
        """Prepare for pages that will come soon, without waiting."""


class PageVisit(msgspec.Struct, frozen=True):
    """The visit of a page, first as fetched and then as scraped, or why it was not.

    Attributes
    ----------
    url, final_url
        The URL requested, and that which answered, after redirects.
    status
        The HTTP status; None without an answer.
    elapsed_s
        The seconds that the visit took, without the wait in the host's queue.
    fetched_at
        When the answer came.
    source, screenshot, page_height
        The page while it has yet to be scraped, and its height in CSS pixels where the screenshot
        shows all of it.
    scraped
        Its data.
    error, stopped, refused
        What failed; why a redirect was not followed; why the body was not read.
    rendered
        Whether the browser loaded it.
    hops, redirects
        The number of redirects of one attempt, and URL and status of each, with that at which the
        visit was stopped.
    not_modified
        Whether the server says that the page has not changed since the request's `validators`.
    headers
        Those of the reply that was scraped.
    claimed_hash
        The hash of the content that the page has according to the server, where it was fetched to
        check that.
    fetch_s
        The seconds until the page was there, without its conversion.
    rights
        What the page may be used for, as in its row.
    """

    url: str
    final_url: str
    status: int | None
    elapsed_s: float
    fetched_at: datetime
    scraped: Scraped | None = None
    error: PageError | None = None
    stopped: str | None = None
    refused: str | None = None
    rendered: bool = False
    hops: int = 0
    not_modified: bool = False
    redirects: tuple[Redirect, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    claimed_hash: str | None = None
    fetch_s: float = 0.0
    rights: Mapping[str, Any] | None = None
    source: FetchedResponse | None = None
    screenshot: bytes | None = None
    page_height: int | None = None

    def __repr__(self) -> str:
        """Leave out the page and its headers, which may hold secrets."""
        return (
            f"{type(self).__name__}(url={self.url!r}, status={self.status}, error={self.error!r})"
        )


def http_error(status: int) -> PageError:
    """Return the error that an HTTP status means for a row."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "unknown status"
    return PageError(f"http_{status}", f"HTTP {status} {phrase}")


class PagePipeline:
    """Fetches and scrapes pages, for all jobs of a process."""

    def __init__(self, fetcher: ResponseSource, scraper: PageScraper, browser: Browser) -> None:
        self._fetcher, self._scraper, self._browser = fetcher, scraper, browser
        self._retries = EventThrottle()

    def with_source(self, source: ResponseSource) -> PagePipeline:
        """Return a pipeline that fetches pages from another source."""
        return PagePipeline(source, self._scraper, self._browser)

    def prepare(self) -> None:
        """Start what the first pages of a job need, without waiting for it."""
        self._scraper.start_soon()

    async def fetch(self, request: FetchRequest, options: RenderOptions) -> PageVisit:
        """Fetch a page, and render it where needed; `source` is set where that succeeded.

        Errors are part of the result. The timeout of the request covers all attempts, but not the
        wait in the host's queue.
        """
        timeout_s = DEFAULT_TIMEOUT_S if request.timeout_s is None else request.timeout_s
        with self._fetcher.deadline(timeout_s) as deadline:
            try:
                request = await self._as_device(request, options, deadline)
                fetched = await self._fetch(request, deadline)
            except PageError as error:
                url, at, elapsed_s = request.url, datetime.now(UTC), deadline.elapsed_s
                hops = error.hops if isinstance(error, FetchError) else 0
                return PageVisit(url, url, None, elapsed_s, at, error=error, hops=hops)
            if fetched.stopped is not None or fetched.refused is not None:
                return _visit(request, fetched, deadline, stopped=fetched.stopped)
            if (
                request.validators is not None
                and fetched.status == HTTPStatus.NOT_MODIFIED
                and fetched.final_url == request.validators.url
            ):
                return _visit(request, fetched, deadline, not_modified=True)
            if (failure := _reply_failure(request, fetched.status)) is not None:
                return _visit(request, fetched, deadline, error=failure)
            try:
                return await self._rendered(request, options, fetched, deadline)
            except PageError as error:
                return _visit(request, fetched, deadline, error=error)

    async def _rendered(
        self,
        request: FetchRequest,
        options: RenderOptions,
        fetched: FetchedResponse,
        deadline: PageDeadline,
    ) -> PageVisit:
        """Return the page as rendered by the browser, or as fetched where that is not needed."""
        rendered = await self._render(request, options, fetched, deadline)
        if rendered is None:
            return _visit(request, fetched, deadline, source=fetched)
        # Of a document that is not HTML, only the screenshot is of use.
        if _is_html(fetched):
            if rendered.final_url != fetched.final_url:
                fetched = replace(fetched, final_url=rendered.final_url, headers=rendered.headers)
                stopped = await _hop_refusal(request, rendered.final_url, deadline)
                if stopped is not None:
                    return _visit(request, fetched, deadline, stopped=stopped)
            # The document after its scripts ran, in UTF-8 whatever the server's headers say.
            fetched = replace(fetched, body=rendered.html, content_type=rendered.content_type)
        visit = _visit(request, fetched, deadline, source=fetched)
        return msgspec.structs.replace(
            visit,
            rendered=True,
            screenshot=rendered.screenshot,
            page_height=rendered.page_height,
        )

    async def scrape(
        self, page: PageVisit, options: ConversionOptions, *, outlinks: bool = True
    ) -> PageVisit:
        """Extract the data of a fetched page, without network access; other visits are complete."""
        source, started_at = page.source, monotonic()
        if source is None:
            return page
        scraped, failure = None, None
        try:
            scraped = await self._scraper.scrape(source, options, outlinks=outlinks)
        except PageError as error:
            failure = error
        if scraped is not None and page.screenshot is not None:
            image = await run_cooperatively(_base64(page.screenshot))
            metadata = scraped.metadata
            if page.page_height is not None:
                metadata = {
                    **metadata,
                    "screenshot_truncated": page.page_height > MOST_PIXELS_HIGH,
                    "page_height": page.page_height,
                }
            formats = {**scraped.formats, SCREENSHOT: image}
            scraped = msgspec.structs.replace(scraped, formats=formats, metadata=metadata)
        return msgspec.structs.replace(
            page,
            elapsed_s=page.elapsed_s + monotonic() - started_at,
            scraped=scraped,
            error=failure,
            rendered=page.rendered and failure is None,
            headers=source.headers,
            fetch_s=page.elapsed_s,
            source=None,
            screenshot=None,
        )

    async def read_sitemap(self, fetched: FetchedResponse) -> ParsedSitemap:
        """Return the URLs of a sitemap, or its problem."""
        options = ConversionOptions(formats=(SITEMAP_FORMAT,), facts=frozenset())
        try:
            scraped = await self._scraper.scrape(fetched, options, outlinks=False)
        except ScrapeError as error:
            return ParsedSitemap(problem=str(error))
        return msgspec.convert(scraped.formats[SITEMAP_FORMAT], ParsedSitemap)

    async def read_llms_txt(self, fetched: FetchedResponse) -> ParsedSitemap:
        """Return the links of an llms.txt, or its problem."""
        options = ConversionOptions(formats=(), facts=frozenset({"metadata"}))
        try:
            scraped = await self._scraper.scrape(fetched, options)
        except ScrapeError as error:
            return ParsedSitemap(problem=str(error))
        if scraped.metadata["rung"] not in {"markdown", "text"}:
            return ParsedSitemap(problem=f"it is no Markdown ({fetched.content_type or 'no type'})")
        return ParsedSitemap(tuple(link.url for link in scraped.outlinks))

    async def _as_device(
        self, request: FetchRequest, options: RenderOptions, deadline: PageDeadline
    ) -> FetchRequest:
        """Add the User-Agent of the mobile device, since many servers have mobile pages."""
        if not options.is_mobile or any(name.lower() == "user-agent" for name in request.headers):
            return request
        try:
            async with asyncio.timeout(deadline.timeout_s):
                screen = await self._browser.screen(options.mobile_device, mobile=options.mobile)
        except TimeoutError:
            raise ScrapeError("render", "the browser's devices could not be read in time") from None
        if screen.user_agent is None:
            return request
        headers = {**request.headers, "User-Agent": screen.user_agent}
        return msgspec.structs.replace(request, headers=headers)

    async def _render(
        self,
        request: FetchRequest,
        options: RenderOptions,
        fetched: FetchedResponse,
        deadline: PageDeadline,
    ) -> RenderedPage | None:
        """Load the fetched page in the browser; return None where that is not needed."""
        if not _is_html(fetched):
            kind = (fetched.header("content-type") or "").lower()
            is_text = kind.startswith("text/") or (
                kind.startswith("application/") and ("json" in kind or "xml" in kind)
            )
            if options.screenshot is None or not is_text:
                return None
            # As plain text, which a browser shows instead of saving it.
            _, mark, charset = kind.partition("charset=")
            plain = f"text/plain; charset={charset}" if mark else "text/plain"
            headers = tuple(header for header in fetched.headers if header[0] != "content-type")
            fetched = replace(fetched, headers=(*headers, ("content-type", plain)))
        elif not options.needs_browser(fetched.body):
            return None
        render_request = RenderRequest(
            request.url,
            wait_for=options.wait_for,
            mobile=options.mobile,
            mobile_device=options.mobile_device,
            headers=request.headers,
            cookies=request.cookies,
            screenshot=options.screenshot,
            document=fetched,
            delay_s=request.delay_s,
        )
        while True:
            try:
                timeout_s = max(0.001, deadline.remaining_s)
                return await self._browser.render(replace(render_request, timeout_s=timeout_s))
            except ScrapeError as error:
                if error.kind != "render" or not deadline.restart_if_interrupted():
                    raise

    async def _fetch(self, request: FetchRequest, deadline: PageDeadline) -> FetchedResponse:
        """Fetch the document; retry transient errors within the deadline."""
        attempt = 0
        refused: FetchedResponse | None = None
        while True:
            attempt += 1
            fetched: FetchedResponse | None = None
            failure: FetchError | None = None
            try:
                fetched = await self._fetcher.fetch(request, deadline)
            except FetchError as error:
                failure = error
            if isinstance(failure, HostPaused) and refused is not None:
                return refused  # what the site said counts, not that nothing more was sent to it
            refused = fetched
            after = None if fetched is None else retry_after_s(fetched)
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
            self._retries.event("page_retried", host=split_url(request.url).host, cause=cause)
            await sleep(wait)
            deadline.restart_if_interrupted()


async def _hop_refusal(request: FetchRequest, url: str, deadline: PageDeadline) -> str | None:
    """Return why a script's redirect is not followed; None if it is."""
    if request.allow_hop is None:
        return None
    try:
        async with asyncio.timeout(max(0.001, deadline.remaining_s)):
            return await request.allow_hop(url)
    except TimeoutError:
        raise FetchError("timeout", f"robots.txt for {url!r} did not come in time.") from None


def _is_html(fetched: FetchedResponse) -> bool:
    return "html" in (fetched.header("content-type") or "text/html").lower()


def _base64(data: bytes) -> Steps[str]:
    """Encode a screenshot, which may have tens of megabytes."""
    pieces = []
    for start in range(0, len(data), BASE64_BYTES_PER_STEP):
        pieces.append(b64encode(data[start : start + BASE64_BYTES_PER_STEP]).decode())
        yield
    return "".join(pieces)


def _reply_failure(request: FetchRequest, status: int) -> PageError | None:
    """Return why a reply is not the page; None where it is."""
    if status >= HTTPStatus.BAD_REQUEST:
        return http_error(status)
    names = {name.lower() for name in request.headers}
    if status == HTTPStatus.NOT_MODIFIED:
        condition = "with a condition" if names & _CONDITIONS else "without a condition"
        message = (
            f"The server answered 304 (not modified), without the page, to a request {condition}."
        )
        return FetchError("protocol", message)
    if status == HTTPStatus.PARTIAL_CONTENT and "range" not in names:
        message = "The server answered 206 (partial content) to a request for the whole page."
        return FetchError("protocol", message)
    return None


def _visit(
    request: FetchRequest,
    fetched: FetchedResponse,
    deadline: PageDeadline,
    *,
    error: PageError | None = None,
    stopped: str | None = None,
    not_modified: bool = False,
    source: FetchedResponse | None = None,
) -> PageVisit:
    return PageVisit(
        request.url,
        fetched.final_url,
        fetched.status,
        deadline.elapsed_s,
        fetched.fetched_at,
        error=error,
        stopped=stopped,
        refused=fetched.refused,
        # The hop at which a fetch was stopped was not requested.
        hops=len(fetched.redirects) - (fetched.stopped is not None),
        not_modified=not_modified,
        redirects=fetched.redirects,
        source=source,
    )


_NO_URL: Final = "http://page.invalid/"


async def find_evidence(
    pages: PageScraper, page: str, url: str, data: Mapping[str, Any]
) -> list[ValueEvidence]:
    """Return the evidence of the values that were extracted from a page.

    Parameters
    ----------
    pages
        The page workers.
    page
        The source of the page.
    url
        Its URL; empty if it is unknown.
    data
        The extracted data.

    Raises
    ------
    PageError
        A worker failed at this page.
    """
    at = url or _NO_URL
    body = page.encode("utf-8", "replace")
    source = FetchedResponse(at, at, 200, "text/html; charset=utf-8", body, (), datetime.now(UTC))
    options = ConversionOptions(
        formats=(EVIDENCE,), facts=frozenset(), extracted=orjson.dumps(data).decode()
    )
    scraped = await pages.scrape(source, options, outlinks=False)
    return msgspec.convert(scraped.formats[EVIDENCE], list[ValueEvidence])
