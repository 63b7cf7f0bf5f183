"""Renders one page in a browser context: navigation, waiting, serialization and screenshot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from webdata_nb.page.errors import FetchError, ScrapeError
from webdata_nb.page.urls import canonical_url, split_url
from webdata_nb.service.browser.chromium import render_error
from webdata_nb.service.browser.network_idle import NetworkIdle
from webdata_nb.service.browser.own_origin import OwnOriginRouter
from webdata_nb.service.browser.page_scripts import (
    DISABLE_WEBRTC,
    MEASURE_HEIGHT,
    SCROLL_TO_END,
    SEND_PROXY_CREDENTIALS,
    SERIALIZE_DOCUMENT,
    evaluate_isolated,
)
from webdata_nb.service.browser.rate_limit_signals import OverloadMonitor
from webdata_nb.service.browser.render_request import (
    MOST_PIXELS_HIGH,
    RenderedPage,
    RenderRequest,
    ScreenshotRequest,
)
from webdata_nb.service.browser.shutdown import CLOSE_S
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher
from webdata_nb.service.web.forward_proxy import ProxySession

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Response

MAX_CHARACTERS: Final = 20 * 1024 * 1024
"""The maximum length of a serialized document, equal to the byte limit of a fetched one."""
_T = TypeVar("_T")
_LOAD_TIMEOUT_S: Final = 8.0
_NETWORK_IDLE_TIMEOUT_S: Final = 3.0
_MAX_EVALUATIONS: Final = 3
_BODY_HEADERS: Final = frozenset(
    {"content-encoding", "content-length", "content-type", "transfer-encoding"}
)


class _Screenshot(NamedTuple):
    """A PNG, and the height of the page for a full-page screenshot."""

    png: bytes
    page_height: int | None = None


class Tab:
    """Renders one page in a fresh context.

    Parameters
    ----------
    context : BrowserContext
        A context for this page alone; the caller closes it.
    request : RenderRequest
        The request.
    document : FetchedResponse
        The response with the page's document.
    proxy_session : ProxySession
        The page's session at the proxy.
    report_step : callable
        Receives a description of each step.
    """

    def __init__(
        self,
        context: BrowserContext,
        request: RenderRequest,
        document: FetchedResponse,
        proxy_session: ProxySession,
        report_step: Callable[[str], None],
    ) -> None:
        self._context, self._request = context, request
        self._document, self._proxy_session = document, proxy_session
        self._report_step = report_step
        self._main_frame = _MainFrameResponse(document)

    async def render(self, fetcher: Fetcher) -> RenderedPage:
        """Open the page, wait for it and read it.

        Raises
        ------
        ScrapeError
            The page could not be opened or read.
        FetchError
            The page navigated to a forbidden address (`EgressDenied`) or an unknown host.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        page = await self._open(fetcher)
        try:
            document, screenshot = await _read_unless_crashed(page, self._read(page))
        except Error as error:
            # A forbidden redirect is the cause of the browser's error.
            if (refusal := self._main_frame.refusal(self._proxy_session)) is not None:
                raise refusal from error
            raise render_error(error, self._context.browser) from error
        return self._rendered_page(document, screenshot)

    async def _read(self, page: Page) -> tuple[dict[str, Any], _Screenshot | None]:
        """Wait for the page; return its serialized document and its screenshot."""
        network = NetworkIdle(page)
        loaded = await self._navigate(page)
        await self._wait_as_requested(page)
        if loaded:
            await network.wait(self._limit(_NETWORK_IDLE_TIMEOUT_S))
        document = await self._serialize(page)
        screenshot = self._request.screenshot
        if screenshot is None:
            return document, None
        return document, await self._take_screenshot(page, screenshot, network)

    async def _open(self, fetcher: Fetcher) -> Page:
        await self._context.add_init_script(DISABLE_WEBRTC)
        page = await self._context.new_page()
        await page.evaluate(SEND_PROXY_CREDENTIALS)
        self._context.on("page", _close_popup)
        self._main_frame.watch(page)
        if self._proxy_session.subresource_throttle is not None:
            throttle = self._proxy_session.subresource_throttle
            OverloadMonitor(self._context, throttle).watch(page)
        router = OwnOriginRouter(
            self._document,
            fetcher,
            headers=self._request.headers,
            cookies=self._request.cookies,
            proxy_session=self._proxy_session,
        )
        await router.attach(page)
        return page

    async def _navigate(self, page: Page) -> bool:
        """Load the document; return whether its load event fired within the time limit."""
        from playwright.async_api import TimeoutError as PlaywrightTimeout  # noqa: PLC0415 - an optional extra

        self._report_step("loading the page in the browser")
        _, separator, fragment = self._request.url.partition("#")
        url = self._document.final_url + separator + fragment
        await page.goto(url, wait_until="domcontentloaded", timeout=0)
        try:
            await page.wait_for_load_state("load", timeout=self._limit(_LOAD_TIMEOUT_S) * 1000)
        except PlaywrightTimeout:
            # An image that never arrives must not fail the page.
            return False
        return True

    def _limit(self, timeout_s: float) -> float:
        """Limit an optional wait to a quarter of the page's time."""
        return min(timeout_s, self._request.timeout_s / 4)

    async def _wait_as_requested(self, page: Page) -> None:
        """Wait for the selector or the time of the request."""
        wait_for = self._request.wait_for
        if isinstance(wait_for, str):
            self._report_step(f"waiting for {wait_for[:80]!r} to appear")
            await page.wait_for_selector(f"css={wait_for}", state="attached", timeout=0)
        elif wait_for is not None:
            self._report_step(f"waiting {wait_for} ms as asked")
            await asyncio.sleep(wait_for / 1000)

    async def _serialize(self, page: Page) -> dict[str, Any]:
        self._report_step("reading the page from the browser")
        document = await self._evaluate(page, SERIALIZE_DOCUMENT % MAX_CHARACTERS)
        if "chars" in document:
            size = f"{document['chars']:,} characters"
            raise ScrapeError("render", f"the page's scripts made a document of {size}")
        return document

    async def _evaluate(self, page: Page, script: str) -> dict[str, Any]:
        """Run a script in an isolated world; repeat it if the page navigates meanwhile."""
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        attempt = 1
        while True:
            try:
                session = await self._context.new_cdp_session(page)
                return await evaluate_isolated(session, script)
            except Error as error:
                attempt += 1
                if attempt > _MAX_EVALUATIONS or page.is_closed() or "rash" in error.message:
                    raise
                await page.wait_for_load_state("domcontentloaded", timeout=0)

    async def _take_screenshot(
        self, page: Page, request: ScreenshotRequest, network: NetworkIdle
    ) -> _Screenshot:
        self._report_step("taking the screenshot")
        if not request.full_page:
            return _Screenshot(await page.screenshot(type="png", scale="css", timeout=0))
        await self._evaluate(page, SCROLL_TO_END % MOST_PIXELS_HIGH)
        await network.wait(self._limit(_NETWORK_IDLE_TIMEOUT_S))
        width = (page.viewport_size or {"width": 0})["width"]
        height = int((await self._evaluate(page, MEASURE_HEIGHT))["height"])
        png = await page.screenshot(
            type="png",
            scale="css",
            full_page=True,
            clip={"x": 0, "y": 0, "width": width, "height": MOST_PIXELS_HIGH},
            timeout=0,
        )
        return _Screenshot(png, height)

    def _rendered_page(
        self, document: dict[str, Any], screenshot: _Screenshot | None
    ) -> RenderedPage:
        if (refusal := self._main_frame.refusal(self._proxy_session)) is not None:
            raise refusal
        try:
            final_url = canonical_url(document["url"])
        except FetchError:
            url = str(document["url"])[:80]
            raise ScrapeError("render", f"the page led to {url!r}, which is no page") from None
        return RenderedPage(
            url=self._document.url,
            final_url=final_url,
            status=self._main_frame.status,
            headers=tuple(
                line for line in self._main_frame.headers if line[0] not in _BODY_HEADERS
            ),
            content_type=f"{document['type']}; charset=utf-8",
            # Scripts can create lone surrogates, which UTF-8 cannot encode.
            html=str(document["html"]).encode("utf-8", "replace"),
            screenshot=None if screenshot is None else screenshot.png,
            redirects=tuple((hop.url, hop.status) for hop in self._document.redirects),
            page_height=None if screenshot is None else screenshot.page_height,
        )


class _MainFrameResponse:
    """The last navigation of the main frame: URL, status and headers."""

    def __init__(self, document: FetchedResponse) -> None:
        self.url = document.final_url
        self.status = document.status
        self.headers = document.headers

    def watch(self, page: Page) -> None:
        page.on("request", lambda request: self._on_request(page, request))
        page.on("response", lambda response: self._on_response(page, response))

    def refusal(self, proxy_session: ProxySession) -> FetchError | None:
        """Return the error of a navigation that the policy or the resolver refused."""
        try:
            url = split_url(self.url)
        except FetchError:
            return None
        refusal = proxy_session.refusals.get((url.host, url.port))
        return _egress_denied() if isinstance(refusal, EgressDenied) else refusal

    def _on_request(self, page: Page, request: Request) -> None:
        if _is_main(page, request):
            self.url = request.url

    def _on_response(self, page: Page, response: Response) -> None:
        if _is_main(page, response.request):
            self.status = response.status
            self.headers = tuple((name.lower(), value) for name, value in response.headers.items())


async def _read_unless_crashed(page: Page, reading: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of reading a page, or fail when its renderer crashes and cannot reply."""
    crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report_crash(_: Page) -> None:
        if not crashed.done():
            crashed.set_result(None)

    page.on("crash", report_crash)
    task = asyncio.ensure_future(reading)
    futures: set[asyncio.Future[Any]] = {task, crashed}
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ScrapeError("render", "the page could not be rendered (its renderer crashed)")
    finally:
        crashed.cancel()
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)
        if task.done() and not task.cancelled():
            task.exception()  # mark it as retrieved: its error or the crash is already raised


def _is_main(page: Page, request: Request) -> bool:
    return request.is_navigation_request() and request.frame == page.main_frame


def _egress_denied() -> EgressDenied:
    return EgressDenied("The page leads to an address that the network policy does not allow.")


async def _close_popup(page: Page) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    with contextlib.suppress(Error):
        await page.close()
