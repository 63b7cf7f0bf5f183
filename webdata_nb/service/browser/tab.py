"""One page in the browser, from its document to its data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from webdata_nb.service.browser.chromium import render_error
from webdata_nb.service.browser.network_idle import NetworkIdle
from webdata_nb.service.browser.own_origin import OwnOriginRouter
from webdata_nb.service.browser.rate_limit_signals import OverloadMonitor
from webdata_nb.service.browser.render_request import (
    MOST_PIXELS_HIGH,
    RenderedPage,
    RenderRequest,
    ScreenshotRequest,
)
from webdata_nb.service.browser.shutdown import CLOSE_S, detach
from webdata_nb.service.errors import EgressDenied, FetchError, ScrapeError
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher
from webdata_nb.service.web.forward_proxy import PROBE_URL
from webdata_nb.service.web.proxy_session import ProxySession
from webdata_nb.service.web.urls import canonical_url, split_url

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Response

MOST_CHARS: Final = 20 * 1024 * 1024
"""The most characters that a document's tree may come to, as much as a fetched one's bytes."""
_T = TypeVar("_T")
_LOAD_S: Final = 8.0
_REST_S: Final = 3.0
_TRIES: Final = 3
_OF_THE_BODY: Final = frozenset(
    {"content-encoding", "content-length", "content-type", "transfer-encoding"}
)

# Connections between browsers would go around the proxy.
_NO_WEBRTC: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel"])
  delete globalThis[name];
"""
# Chromium answers no proxy's challenge for a picture of another host, or for a WebSocket: they
# come only once it knows the credential, which it is asked for here.
_SHOW_CREDENTIAL: Final = f"fetch({PROBE_URL!r}).then(() => true)"
# Shadow roots are written as templates, as a page would declare them; closed ones nobody sees.
_TREE: Final = """(() => {
  const roots = [];
  const gather = within => {
    for (const each of within.querySelectorAll("*"))
      if (each.shadowRoot) { roots.push(each.shadowRoot); gather(each.shadowRoot); }
  };
  const written = top => {
    if (document.contentType !== "text/html" || !top.getHTML) return top.outerHTML;
    gather(document);
    if (!roots.length) return top.outerHTML;
    const [open, close] = top.cloneNode(false).outerHTML.split(/(?=<\\/html>$)/i);
    return open + top.getHTML({shadowRoots: roots}) + close;
  };
  const root = document.documentElement ? written(document.documentElement) : "";
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
  if (root.length > %d) return {chars: root.length};
  return {html: type + root, type: document.contentType, url: location.href};
})()"""
# What is loaded only when it comes into view is brought into view once, then the top again.
_SCROLL: Final = """(async () => {
  const step = Math.max(innerHeight, 200);
  const end = () => Math.min(document.documentElement.scrollHeight, %d);
  for (let y = 0, n = 0; y < end() && n < 64; y += step, n++) {
    scrollTo({top: y, behavior: "instant"});
    await new Promise(seen => setTimeout(seen, 20));
  }
  scrollTo({top: 0, behavior: "instant"});
})()"""
# As Playwright measures a full page.
_HEIGHT: Final = """(() => {
  const tops = [document.documentElement, document.body].filter(Boolean);
  return {height: Math.max(0, ...tops.flatMap(
    top => [top.scrollHeight, top.offsetHeight, top.clientHeight]))};
})()"""


class _Screenshot(NamedTuple):
    """A PNG, and the height of the whole page if it is to show that."""

    png: bytes
    page_height: int | None = None


class Tab:
    """Renders one page in a fresh context.

    Parameters
    ----------
    context : BrowserContext
        The page's own; the caller closes it.
    request : RenderRequest
        What is wanted.
    document : Fetched
        The page's document.
    proxy_session : ProxySession
        The page's credential at the proxy.
    say : callable
        Told what is being waited for.
    """

    def __init__(
        self,
        context: BrowserContext,
        request: RenderRequest,
        document: FetchedResponse,
        proxy_session: ProxySession,
        say: Callable[[str], None],
    ) -> None:
        self._context, self._request = context, request
        self._document, self._proxy_session = document, proxy_session
        self._say = say
        self._landing = _MainFrameResponse(document)

    async def render(self, fetcher: Fetcher) -> RenderedPage:
        """Open the page, wait for it, read it.

        Raises
        ------
        ScrapeError
            When it could not be opened or read.
        FetchError
            When the page moved to a forbidden address (`EgressDenied`), or to a host name without
            an address.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        page = await self._open(fetcher)
        try:
            tree, picture = await _read_unless_crashed(page, self._read(page))
        except Error as error:
            # Where the page was sent somewhere forbidden, that is why.
            if (refusal := self._landing.refused_by(self._proxy_session)) is not None:
                raise refusal from error
            raise render_error(error, self._context.browser) from error
        return self._rendered(tree, picture)

    async def _read(self, page: Page) -> tuple[dict[str, Any], _Screenshot | None]:
        """Wait for the page; return its tree and its picture."""
        network = NetworkIdle(page)
        loaded = await self._go(page)
        await self._wait(page)
        if loaded:
            await network.wait(self._share(_REST_S))
        tree = await self._tree(page)
        shot = self._request.screenshot
        return tree, None if shot is None else await self._take_screenshot(page, shot, network)

    async def _open(self, fetcher: Fetcher) -> Page:
        await self._context.add_init_script(_NO_WEBRTC)
        page = await self._context.new_page()
        await page.evaluate(_SHOW_CREDENTIAL)
        self._context.on("page", _close_popup)
        self._landing.watch(page)
        if self._proxy_session.subresource_throttle is not None:
            throttle = self._proxy_session.subresource_throttle
            OverloadMonitor(self._context, throttle).watch(page)
        own = OwnOriginRouter(
            self._document,
            fetcher,
            headers=self._request.headers,
            cookies=self._request.cookies,
            proxy_session=self._proxy_session,
        )
        await own.attach(page)
        return page

    async def _go(self, page: Page) -> bool:
        """Open the document; tell whether all that belongs to it came in the time given."""
        from playwright.async_api import TimeoutError as Late  # noqa: PLC0415 - an optional extra

        self._say("loading the page in the browser")
        _, mark, fragment = self._request.url.partition("#")
        url = self._document.final_url + mark + fragment
        await page.goto(url, wait_until="domcontentloaded", timeout=0)
        try:
            await page.wait_for_load_state("load", timeout=self._share(_LOAD_S) * 1000)
        except Late:
            # One image that never comes must not cost the page.
            return False
        return True

    def _share(self, most_s: float) -> float:
        """Give the seconds to wait for what may never come: not too much of the page's time."""
        return min(most_s, self._request.timeout_s / 4)

    async def _wait(self, page: Page) -> None:
        """Wait for what the job waits for."""
        wait_for = self._request.wait_for
        if isinstance(wait_for, str):
            self._say(f"waiting for {wait_for[:80]!r} to appear")
            await page.wait_for_selector(f"css={wait_for}", state="attached", timeout=0)
        elif wait_for is not None:
            self._say(f"waiting {wait_for} ms as asked")
            await asyncio.sleep(wait_for / 1000)

    async def _tree(self, page: Page) -> dict[str, Any]:
        self._say("reading the page from the browser")
        tree = await self._evaluate(page, _TREE % MOST_CHARS)
        if "chars" in tree:
            size = f"{tree['chars']:,} characters"
            raise ScrapeError("render", f"the page's scripts made a document of {size}")
        return tree

    async def _evaluate(self, page: Page, script: str) -> dict[str, Any]:
        """Run a script out of the reach of the page's own; a page that moves on is asked anew."""
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        attempt = 1
        while True:
            try:
                session = await self._context.new_cdp_session(page)
                return await _evaluate_isolated(session, script)
            except Error as error:
                attempt += 1
                if attempt > _TRIES or page.is_closed() or "rash" in error.message:
                    raise
                await page.wait_for_load_state("domcontentloaded", timeout=0)

    async def _take_screenshot(
        self, page: Page, request: ScreenshotRequest, network: NetworkIdle
    ) -> _Screenshot:
        self._say("taking the screenshot")
        if not request.full_page:
            return _Screenshot(await page.screenshot(type="png", scale="css", timeout=0))
        await self._evaluate(page, _SCROLL % MOST_PIXELS_HIGH)
        await network.wait(self._share(_REST_S))
        width = (page.viewport_size or {"width": 0})["width"]
        height = int((await self._evaluate(page, _HEIGHT))["height"])
        png = await page.screenshot(
            type="png",
            scale="css",
            full_page=True,
            clip={"x": 0, "y": 0, "width": width, "height": MOST_PIXELS_HIGH},
            timeout=0,
        )
        return _Screenshot(png, height)

    def _rendered(self, tree: dict[str, Any], picture: _Screenshot | None) -> RenderedPage:
        if (refusal := self._landing.refused_by(self._proxy_session)) is not None:
            raise refusal
        try:
            final_url = canonical_url(tree["url"])
        except FetchError:
            shown = str(tree["url"])[:80]
            raise ScrapeError("render", f"the page led to {shown!r}, which is no page") from None
        return RenderedPage(
            url=self._document.url,
            final_url=final_url,
            status=self._landing.status,
            headers=tuple(line for line in self._landing.headers if line[0] not in _OF_THE_BODY),
            content_type=f"{tree['type']}; charset=utf-8",
            # A lone surrogate, which scripts can make, has no place in UTF-8.
            html=str(tree["html"]).encode("utf-8", "replace"),
            screenshot=None if picture is None else picture.png,
            redirects=tuple((hop.url, hop.status) for hop in self._document.redirects),
            page_height=None if picture is None else picture.page_height,
        )


class _MainFrameResponse:
    """Where the main frame went last, and what answered there."""

    def __init__(self, document: FetchedResponse) -> None:
        self.url = document.final_url
        self.status = document.status
        self.headers = document.headers

    def watch(self, page: Page) -> None:
        page.on("request", lambda request: self._asked(page, request))
        page.on("response", lambda response: self._answered(page, response))

    def refused_by(self, proxy_session: ProxySession) -> FetchError | None:
        """Return why nothing answered there that may: the policy, or a name without an address."""
        try:
            there = split_url(self.url)
        except FetchError:
            return None
        refusal = proxy_session.refusals.get((there.host, there.port))
        return _refused() if isinstance(refusal, EgressDenied) else refusal

    def _asked(self, page: Page, request: Request) -> None:
        if _is_main(page, request):
            self.url = request.url

    def _answered(self, page: Page, response: Response) -> None:
        if _is_main(page, response.request):
            self.status = response.status
            self.headers = tuple((k.lower(), v) for k, v in response.headers.items())


async def _read_unless_crashed(page: Page, reading: Coroutine[Any, Any, _T]) -> _T:
    """Return what reading a page gives; what a crashed renderer was asked it never answers."""
    crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def crash(_: Page) -> None:
        if not crashed.done():
            crashed.set_result(None)

    page.on("crash", crash)
    task = asyncio.ensure_future(reading)
    both: set[asyncio.Future[Any]] = {task, crashed}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ScrapeError("render", "the page could not be rendered (its renderer crashed)")
    finally:
        crashed.cancel()
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)
        if task.done() and not task.cancelled():
            task.exception()  # it has been told, or the crash was


def _is_main(page: Page, request: Request) -> bool:
    return request.is_navigation_request() and request.frame == page.main_frame


def _refused() -> EgressDenied:
    return EgressDenied("The page leads to an address that the network policy does not allow.")


async def _close_popup(page: Page) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    with contextlib.suppress(Error):
        await page.close()


async def _evaluate_isolated(session: CDPSession, script: str) -> dict[str, Any]:
    """Run a script in a world of its own, whose built-ins the page cannot have replaced."""
    try:
        tree = await session.send("Page.getFrameTree")
        world = await session.send(
            "Page.createIsolatedWorld",
            {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "webdata"},
        )
        answer = await session.send(
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
    return answer["result"].get("value") or {}
