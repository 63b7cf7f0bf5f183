"""Renders pages in a shared Chromium under the egress policy of the service.

Each page has its own browser context. All connections go through a loopback proxy. Requests to the
page's own origin go through the service's fetcher. The document was fetched before the browser
opens it, and is not requested again. A job's headers and cookies never enter the browser, so no
redirect, frame or script can send them elsewhere: the fetcher sends the requests that may contain
them, hop by hop.

Overload replies delay the page's later requests to those hosts. The forward proxy can delay
connections, but does not see the replies inside TLS. The browser does.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import msgspec

from webdata_nb.pacing.retry_policies import parse_retry_after
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import BadInput, FetchError, ScrapeError
from webdata_nb.page.urls import canonical_url, host_and_port, split_url, url_origin
from webdata_nb.service.browser.chromium import (
    CLOSE_S,
    START_S,
    BrowserProcess,
    BrowserProcesses,
    browser_missing,
    detach,
    find_program,
    finishes_in_time,
    import_playwright,
    is_responsive,
    render_error,
    start_error,
    start_timeout,
)
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.runtime.process import available_processors
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.forward_proxy import (
    PROBE_URL,
    PROXY_REPLY_HEADER,
    ForwardProxy,
    ProxySession,
    SubresourceThrottle,
    TrafficLimits,
)
from webdata_nb.service.web.request import format_seconds
from webdata_nb.service.web.resolver import Lookup
from webdata_nb.service.web.throttle import HostThrottle

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Response, Route

# Requests and rendered pages
#
# Screens are those of Playwright's device presets, by name.


DESKTOP_WIDTH: Final = 1280
DESKTOP_HEIGHT: Final = 720
_PHONES: Final = ("Pixel 10", "Pixel 9", "Pixel 8", "Pixel 7")
"""The devices for `mobile` without a name; the newest that the installed Playwright has."""
_SUGGESTIONS: Final = 3


class Viewport(msgspec.Struct, frozen=True):
    """The size of a page's window, in CSS pixels."""

    width: int = DESKTOP_WIDTH
    height: int = DESKTOP_HEIGHT


class DeviceScreen(msgspec.Struct, frozen=True):
    """The screen for which a page is laid out; the fields are those of Playwright's presets.

    Attributes
    ----------
    viewport : Viewport
        The size of the window.
    device_scale_factor : float
        Device pixels per CSS pixel.
    is_mobile, has_touch : bool
        Whether the viewport follows ``<meta name=viewport>``, and whether it supports touch.
    user_agent : str, optional
        The device's user agent; by default the browser's.
    """

    viewport: Viewport = Viewport()
    device_scale_factor: float = 1.0
    is_mobile: bool = False
    has_touch: bool = False
    user_agent: str | None = None


def check_name(name: str, presets: Mapping[str, Any]) -> None:
    """Check the name of a device before a job starts.

    Raises
    ------
    BadInput
        The device is unknown; the message lists similar names.
    """
    if name in presets:
        return
    by_lower = {preset.lower(): preset for preset in presets}
    close = get_close_matches(name.lower(), by_lower, n=_SUGGESTIONS, cutoff=0.4)
    hint = f"the closest names are {', '.join(repr(by_lower[match]) for match in close)}"
    if not close:
        hint = f"one is {_PHONES[-1]!r}"
    raise BadInput(
        f"no device preset is called {name[:80]!r}; {hint}", loc=("body", "mobile_device")
    )


def find_screen(name: str | None, presets: Mapping[str, Any], *, mobile: bool) -> DeviceScreen:
    """Return the screen of a device; without a name a phone's if `mobile`, else a desktop's.

    Raises
    ------
    BadInput
        The device is unknown.
    """
    if name is None and not mobile:
        return DeviceScreen()
    if name is None:
        name = next(phone for phone in _PHONES if phone in presets)
    check_name(name, presets)
    return msgspec.convert(presets[name], DeviceScreen)


MOST_PIXELS_HIGH: Final = 16_384
"""The maximum height of a screenshot; some programs cannot open higher images."""


@dataclass(frozen=True, slots=True)
class ScreenshotRequest:
    """The screenshot to take; sizes are in CSS pixels.

    Attributes
    ----------
    full_page : bool
        Whether to show the whole page, up to 16,384 pixels, and not only the viewport.
    width, height : int, optional
        The viewport; by default the one of the device.
    """

    full_page: bool = False
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One page to render.

    Attributes
    ----------
    url : str
        An absolute http or https URL; scripts see its fragment.
    timeout_s : float
        The deadline in seconds for the whole page.
    wait_for : int or str, optional
        Milliseconds to wait once the page has loaded, or a CSS selector to wait for.
    mobile : bool
        Render for a phone.
    mobile_device : str, optional
        One of Playwright's device presets; without one, `mobile` takes a current phone's.
    headers, cookies : mapping of str to str
        The job's own; sent to the page's own origin only.
    screenshot : ScreenshotRequest, optional
        The screenshot to take.
    document : Fetched, optional
        The page's document, if it was fetched already; it is not requested again. The caller
        must have fetched it with the user agent of the device.
    delay_s : float
        The seconds that the page's host wants between requests.
    """

    url: str
    timeout_s: float = 30.0
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    screenshot: ScreenshotRequest | None = None
    document: FetchedResponse | None = None
    delay_s: float = 0.0

    def context_options(self, screen: DeviceScreen) -> dict[str, Any]:
        """Return the options of the browser context; a size of the screenshot has precedence."""
        shot = self.screenshot or ScreenshotRequest()
        viewport = Viewport(
            shot.width or screen.viewport.width, shot.height or screen.viewport.height
        )
        headers = {name.lower(): value for name, value in self.headers.items()}
        options: dict[str, Any] = msgspec.to_builtins(
            msgspec.structs.replace(
                screen,
                viewport=viewport,
                user_agent=headers.get("user-agent", screen.user_agent),
            )
        )
        if options["user_agent"] is None:
            del options["user_agent"]
        return {
            **options,
            "screen": options["viewport"],
            "service_workers": "block",
            "accept_downloads": False,
            "permissions": [],
        }


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page after its scripts ran.

    Attributes
    ----------
    url : str
        The requested URL, canonical.
    final_url : str
        The URL after redirects and scripts, canonical.
    status : int
        The HTTP status of the document at `final_url`.
    headers : tuple of (str, str)
        Its header lines, names in lower case, without those that describe its body.
    content_type : str
        The media type of `html`.
    html : bytes
        The document's tree after its scripts ran, serialised in UTF-8.
    screenshot : bytes, optional
        A PNG with one pixel per CSS pixel.
    redirects : tuple of (str, int)
        The URL and status of each HTTP redirect on the way.
    page_height : int, optional
        The height of the whole page in CSS pixels, for a screenshot of the full page.
    """

    url: str
    final_url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    content_type: str
    html: bytes
    screenshot: bytes | None
    redirects: tuple[tuple[str, int], ...]
    page_height: int | None = None


__all__ = ["Browser", "RenderRequest", "RenderedPage", "ScreenshotRequest"]


IDLE_S: Final = 0.15
"""Longer than a script needs between a response and its next request, even on a busy machine."""


class NetworkIdle:
    """Tracks the requests of a page and its frames.

    Playwright's "networkidle" always waits half a second, three times as long as most pages need.
    """

    def __init__(self, page: Page) -> None:
        self._requests: set[Request] = set()
        self._changed = asyncio.Event()
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_request_end)
        page.on("requestfailed", self._on_request_end)

    async def wait(self, limit_s: float) -> None:
        """Wait until no request was under way for `IDLE_S`, at most `limit_s` seconds."""
        try:
            async with asyncio.timeout(limit_s):
                while not await self._is_idle():
                    pass
        except TimeoutError:
            # A page that polls is never idle.
            return

    async def _is_idle(self) -> bool:
        self._changed.clear()
        if self._requests:
            await self._changed.wait()
            return False
        try:
            async with asyncio.timeout(IDLE_S):
                await self._changed.wait()
        except TimeoutError:
            return True
        return False

    def _on_request(self, request: Request) -> None:
        self._requests.add(request)
        self._changed.set()

    def _on_request_end(self, request: Request) -> None:
        self._requests.discard(request)
        self._changed.set()


# WebRTC connections would bypass the proxy.
DISABLE_WEBRTC: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel"])
  delete globalThis[name];
"""
# Chromium does not answer a proxy's authentication challenge for an image of another host or for a
# WebSocket, so it has to authenticate before the page opens.
SEND_PROXY_CREDENTIALS: Final = f"fetch({PROBE_URL!r}).then(() => true)"


def _script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.js").read_text("utf-8").removesuffix("\n")


# Open shadow roots are serialized as declarative templates; closed ones are not accessible.
SERIALIZE_DOCUMENT: Final = _script("serialize_document")
# Scrolling triggers lazy loading; the page ends at its top again.
SCROLL_TO_END: Final = _script("scroll_to_end")
# The height of a full-page screenshot by Playwright.
MEASURE_HEIGHT: Final = _script("measure_height")


async def evaluate_isolated(session: CDPSession, script: str) -> dict[str, Any]:
    """Run a script in an isolated world, whose built-ins the page cannot replace."""
    try:
        frame_tree = await session.send("Page.getFrameTree")
        world = await session.send(
            "Page.createIsolatedWorld",
            {"frameId": frame_tree["frameTree"]["frame"]["id"], "worldName": "webdata"},
        )
        reply = await session.send(
            "Runtime.evaluate",
            {
                "expression": script,
                "contextId": world["executionContextId"],
                "returnByValue": True,
                "awaitPromise": True,
            },
        )
    finally:
        await detach(session)
    return reply["result"].get("value") or {}


class OverloadMonitor:
    """Reports replies to the throttle, and delays the requests to overloaded hosts.

    Parameters
    ----------
    context : BrowserContext
        The context of the page.
    throttle : SubresourceThrottle
        Delays the requests of the page.
    """

    def __init__(self, context: BrowserContext, throttle: SubresourceThrottle) -> None:
        self._context, self._throttle = context, throttle
        self._delayed_hosts: set[str] = set()

    def watch(self, page: Page) -> None:
        """Report the replies to a page from now on."""
        page.on("response", self._report)

    async def _report(self, response: Response) -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        name, value = PROXY_REPLY_HEADER
        if response.headers.get(name.lower()) == value:
            return
        try:
            host = host_and_port(response.url)
        except FetchError:  # not from the network, such as data: and blob:
            return
        after_s = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        is_overloaded = await self._throttle.report(host, response.status, after_s)
        if not is_overloaded or host in self._delayed_hosts:
            return
        # Delay every later request to the host, also on an open connection.
        self._delayed_hosts.add(host)
        # URLs omit the default port of their scheme.
        hostname, _, port = host.rpartition(":")
        schemes = {"80": "http|ws", "443": "https|wss"}.get(port)
        default_port = "" if schemes is None else f"|({schemes})://{re.escape(hostname)}/"
        pattern = rf"^((https?|wss?)://{re.escape(host)}/{default_port})"
        with contextlib.suppress(Error):
            await self._context.route(re.compile(pattern, re.IGNORECASE), self._delay)

    async def _delay(self, route: Route, request: Request) -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        with contextlib.suppress(Error):
            try:
                await self._throttle.wait(host_and_port(request.url))
            except FetchError:
                await route.abort("blockedbyclient")
            else:
                await route.fallback()


_DROPPED_RESPONSE_HEADERS: Final = frozenset(
    {
        *("connection", "content-disposition", "content-encoding", "content-length"),
        *("keep-alive", "proxy-authenticate", "proxy-connection", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)
_DROPPED_REQUEST_HEADERS: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "expect"),
    }
)


class OwnOriginRouter:
    """Intercepts the requests of one page to its own origin.

    Parameters
    ----------
    document : Fetched
        The page's document.
    fetcher : Fetcher
        Sends the requests with the job's headers and cookies.
    headers, cookies : mapping of str to str
        Those of the job.
    proxy_session : ProxySession
        Accounts for the traffic of the fetcher too.
    """

    def __init__(
        self,
        document: FetchedResponse,
        fetcher: Fetcher,
        *,
        headers: Mapping[str, str],
        cookies: Mapping[str, str],
        proxy_session: ProxySession,
    ) -> None:
        self._document = document
        self._fetcher = fetcher
        self._headers, self._cookies = headers, cookies
        self._proxy_session = proxy_session
        self._origin = url_origin(document.final_url)
        # As in the fetcher, a redirect to another origin removes the job's headers for good.
        visited_origins = {url_origin(hop.url) for hop in document.redirects}
        self._has_credentials = bool(headers or cookies) and visited_origins <= {self._origin}
        self._served = False

    async def attach(self, page: Page) -> None:
        """Start to intercept the page's requests."""
        if self._has_credentials:
            own_urls = re.compile(f"^{re.escape(self._origin)}/", re.IGNORECASE)
            await page.context.route(own_urls, self._handle)
        else:
            exactly = re.compile(f"^{re.escape(self._document.final_url)}(#.*)?$")
            await page.route(exactly, self._handle, times=1)

    async def _handle(self, route: Route, request: Request) -> None:
        if not self._served and request.is_navigation_request():
            self._served = True
            await _fulfill(route, self._document)
        elif self._has_credentials and self._is_sent_by_page(request):
            await self._send(route, request)
        else:
            await route.continue_()

    def _is_sent_by_page(self, request: Request) -> bool:
        """Return whether the page itself sends a request, and not a frame of another origin."""
        frame = request.frame
        sender = frame
        if request.is_navigation_request() and frame.parent_frame is not None:
            sender = frame.parent_frame
        try:
            return url_origin(sender.url) == self._origin
        except FetchError:
            return False

    async def _send(self, route: Route, request: Request) -> None:
        """Send a request through the fetcher, with the job's headers and the browser's cookies."""
        browser_headers = {
            k: v for k, v in request.headers.items() if k.lower() not in _DROPPED_REQUEST_HEADERS
        }
        job_names = {name.lower() for name in self._headers}
        headers = {k: v for k, v in browser_headers.items() if k.lower() not in job_names} | dict(
            self._headers
        )
        jar = await request.frame.page.context.cookies(request.url)
        cookies = {
            cookie["name"]: cookie["value"]
            for cookie in jar
            if cookie.get("name") and "value" in cookie
        }
        try:
            if self._proxy_session.subresource_throttle is not None:
                await self._proxy_session.subresource_throttle.wait(host_and_port(request.url))
            fetched = await self._fetcher.fetch(
                FetchRequest(
                    request.url,
                    headers=headers,
                    cookies={**cookies, **self._cookies},
                    method=request.method,
                    body=request.post_data_buffer,
                    follow_redirects=False,
                )
            )
            self._proxy_session.add_traffic(fetched.wire_bytes)
        except FetchError:
            await route.abort("blockedbyclient")
            return
        await _fulfill(route, fetched)


async def _fulfill(route: Route, fetched: FetchedResponse) -> None:
    headers: dict[str, str] = {}
    for name, value in fetched.headers:
        if name not in _DROPPED_RESPONSE_HEADERS:
            # Playwright splits the cookies of several lines again.
            glue = "\n" if name == "set-cookie" else ", "
            headers[name] = f"{headers[name]}{glue}{value}" if name in headers else value
    await route.fulfill(status=fetched.status, headers=headers, body=fetched.body)


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
        from playwright.async_api import TimeoutError as PlaywrightTimeout  # noqa: PLC0415 - an optional extra

        network = NetworkIdle(page)
        self._report_step("loading the page in the browser")
        _, separator, fragment = self._request.url.partition("#")
        url = self._document.final_url + separator + fragment
        await page.goto(url, wait_until="domcontentloaded", timeout=0)
        loaded = True
        try:
            await page.wait_for_load_state("load", timeout=self._limit(_LOAD_TIMEOUT_S) * 1000)
        except PlaywrightTimeout:
            # An image that never arrives must not fail the page.
            loaded = False
        # Wait for the selector or the time of the request.
        wait_for = self._request.wait_for
        if isinstance(wait_for, str):
            self._report_step(f"waiting for {wait_for[:80]!r} to appear")
            await page.wait_for_selector(f"css={wait_for}", state="attached", timeout=0)
        elif wait_for is not None:
            self._report_step(f"waiting {wait_for} ms as asked")
            await asyncio.sleep(wait_for / 1000)
        if loaded:
            await network.wait(self._limit(_NETWORK_IDLE_TIMEOUT_S))
        self._report_step("reading the page from the browser")
        document = await self._evaluate(page, SERIALIZE_DOCUMENT % MAX_CHARACTERS)
        if "chars" in document:
            size = f"{document['chars']:,} characters"
            raise ScrapeError("render", f"the page's scripts made a document of {size}")
        screenshot = self._request.screenshot
        if screenshot is None:
            return document, None
        return document, await self._take_screenshot(page, screenshot, network)

    def _limit(self, timeout_s: float) -> float:
        """Limit an optional wait to a quarter of the page's time."""
        return min(timeout_s, self._request.timeout_s / 4)

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
        if isinstance(refusal, EgressDenied):
            return EgressDenied(
                "The page leads to an address that the network policy does not allow."
            )
        return refusal

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


async def _close_popup(page: Page) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    with contextlib.suppress(Error):
        await page.close()


PAGES_PER_PROCESS: Final = 200
# How long closing a page and its browser may take after the page's deadline.
END_S: Final = 6 * CLOSE_S
_MAX_SUBRESOURCE_WAIT_S: Final = 5.0
# A page whose browser crashed is retried in the next one: another page may be the cause.
_MAX_BROWSERS_PER_PAGE: Final = 3


class Browser:
    """Renders pages; one per process, opened with `async with`.

    The browser starts with the first page.

    Parameters
    ----------
    policy : EgressPolicy
        The addresses that a page may reach.
    fetcher : Fetcher
        Fetches documents and all requests with a job's headers or cookies, under the same policy.
    program : Path, optional
        The browser's executable; by default the system's.
    max_concurrent : int, optional
        Pages rendered at the same time; by default one per processor.
    pages_per_process : int
        The number of pages after which the browser is replaced.
    traffic_limits : TrafficLimits
        Limits of the traffic of one page.
    lookup, upstream, ca_bundle : optional
        See `ForwardProxy`.
    user_agent : str, optional
        The user agent unless a device or a header sets one; by default the browser's own.
    throttle : HostThrottle, optional
        Paces the requests for subresources; None for no limit.

    Examples
    --------
    >>> from webdata_nb.service.web.egress_policy import EgressPolicy
    >>> async def portrait(url: str) -> bytes | None:
    ...     policy = EgressPolicy("team")
    ...     async with (
    ...         Fetcher(policy, user_agent="example/1.0") as fetcher,
    ...         Browser(policy, fetcher) as browser,
    ...     ):
    ...         request = RenderRequest(url, screenshot=ScreenshotRequest())
    ...         return (await browser.render(request)).screenshot
    """

    def __init__(
        self,
        policy: EgressPolicy,
        fetcher: Fetcher,
        *,
        program: Path | None = None,
        max_concurrent: int | None = None,
        pages_per_process: int = PAGES_PER_PROCESS,
        traffic_limits: TrafficLimits = TrafficLimits(),  # noqa: B008 - frozen, so one default serves all
        lookup: Lookup | None = None,
        upstream: str | None = None,
        ca_bundle: Path | None = None,
        user_agent: str | None = None,
        throttle: HostThrottle | None = None,
    ) -> None:
        self._fetcher, self._throttle = fetcher, throttle
        self._defaults = {} if user_agent is None else {"user_agent": user_agent}
        self._program = program
        self._slots = FairSemaphore(max_concurrent or available_processors())
        self._traffic_limits = traffic_limits
        new_proxy = partial(
            ForwardProxy, policy, lookup=lookup, upstream=upstream, ca_bundle=ca_bundle
        )
        self._processes = BrowserProcesses(program, pages_per_process, new_proxy)
        self._presets: Mapping[str, Any] | None = None
        self._bundled_program: Path | None = None  # where Playwright installs its own browser
        self._presets_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._processes.aclose()

    async def check_device(self, name: str) -> None:
        """Check the name of a device preset before a job starts, without a browser.

        Without Playwright every name passes, and each page reports the missing browser.

        Raises
        ------
        BadInput
            There is no such device; the message suggests similar names.
        """
        with contextlib.suppress(ScrapeError):
            check_name(name, await self._known_presets())

    async def check_installed(self) -> None:
        """Check that a browser is installed before a job starts, without starting it.

        Raises
        ------
        ScrapeError
            Of kind ``browser_missing``, if Playwright or Chromium is not installed.
        """
        import_playwright()
        program = self._program or await asyncio.to_thread(find_program)
        if program is None:
            await self._known_presets()
            program = self._bundled_program
        if program is None or not program.is_file():
            raise browser_missing()

    async def screen(
        self, mobile_device: str | None = None, *, mobile: bool = False
    ) -> DeviceScreen:
        """Return the screen and the user agent of a page.

        Raises
        ------
        BadInput
            There is no such device.
        ScrapeError
            Of kind ``browser_missing``, if a device is requested and Playwright is not installed.
        """
        preset = mobile or mobile_device is not None
        presets = await self._known_presets() if preset else {}
        return find_screen(mobile_device, presets, mobile=mobile)

    async def render(self, request: RenderRequest) -> RenderedPage:
        """Render one page.

        Raises
        ------
        ScrapeError
            Of kind ``browser_missing`` or ``render``.
        FetchError
            The document could not be fetched.
        EgressDenied
            The policy forbids the address of the document, or of a navigation of the page.
        BadInput
            There is no such device.
        """
        progress = _RenderStep()
        try:
            with waiting_for("the browser", request.timeout_s + END_S):
                async with asyncio.timeout(request.timeout_s) as deadline:
                    return await self._render(request, progress)
        except TimeoutError:
            if deadline.expired():
                timeout = format_seconds(request.timeout_s)
                message = f"{progress.step} took longer than the page's {timeout} s"
                raise ScrapeError("render", message) from None
            raise

    async def _render(self, request: RenderRequest, progress: _RenderStep) -> RenderedPage:
        screen = await self.screen(request.mobile_device, mobile=request.mobile)
        document = request.document
        if document is None:
            user_agent = {} if screen.user_agent is None else {"User-Agent": screen.user_agent}
            if any(name.lower() == "user-agent" for name in request.headers):
                user_agent = {}
            document = await self._fetcher.fetch(
                FetchRequest(
                    request.url,
                    headers={**user_agent, **request.headers},
                    cookies=request.cookies,
                    timeout_s=request.timeout_s,
                )
            )
        for browsers_left in reversed(range(_MAX_BROWSERS_PER_PAGE)):
            progress.step = "waiting for a free browser"
            async with self._slots, self._processes.borrow() as process:
                try:
                    return await self._render_in(process, request, document, screen, progress)
                except ScrapeError as error:
                    # The browser may have been killed, or another page may have crashed it.
                    if error.kind != "render" or await is_responsive(process.chromium):
                        raise
                    process.needs_replacement = True
                    if not browsers_left:
                        raise ScrapeError("render", "the browser crashed over this page") from error
        raise AssertionError("unreachable")

    async def _render_in(
        self,
        process: BrowserProcess,
        request: RenderRequest,
        document: FetchedResponse,
        screen: DeviceScreen,
        progress: _RenderStep,
    ) -> RenderedPage:
        throttle: SubresourceThrottle | None = None
        if self._throttle is not None:
            throttle = SubresourceThrottle(
                self._throttle,
                host_and_port(document.final_url),
                delay_s=request.delay_s,
                max_wait_s=min(_MAX_SUBRESOURCE_WAIT_S, request.timeout_s / 4),
            )
        with process.proxy.open_session(self._traffic_limits, throttle) as session:
            options = {**self._defaults, **request.context_options(screen)}
            proxy = {
                "server": process.proxy.url,
                "username": session.username,
                "password": session.password,
            }
            async with self._context(process, {**options, "proxy": proxy}) as context:
                tab = Tab(context, request, document, session, progress.report_step)
                return await tab.render(self._fetcher)

    async def _known_presets(self) -> Mapping[str, Any]:
        """Read the presets once from Playwright's driver; this needs no browser."""
        async with self._presets_lock:
            if self._presets is None:
                start_driver = import_playwright()
                try:
                    async with asyncio.timeout(START_S), start_driver() as playwright:
                        self._presets = dict(playwright.devices)
                        self._bundled_program = Path(playwright.chromium.executable_path)
                except TimeoutError:
                    raise start_timeout("the browser's driver") from None
                except Exception as error:  # the end of the driver is a plain Exception
                    raise start_error(error) from error
            return self._presets

    @contextlib.asynccontextmanager
    async def _context(
        self, process: BrowserProcess, options: Mapping[str, Any]
    ) -> AsyncIterator[BrowserContext]:
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        context: BrowserContext | None = None
        try:
            context = await process.chromium.new_context(**options)
            yield context
        except Error as error:
            raise render_error(error, process.chromium) from error
        finally:
            # A browser that does not open or close a context in time is replaced. So is one in
            # which a cancellation interrupts the closing: the page may still be running there.
            closed = False
            try:
                closed = context is not None and await finishes_in_time(context.close())
            finally:
                process.needs_replacement = process.needs_replacement or not closed


@dataclass(slots=True)
class _RenderStep:
    """The current step of a page, for the message if its deadline expires."""

    step: str = "fetching the page"

    def report_step(self, step: str) -> None:
        self.step = step
