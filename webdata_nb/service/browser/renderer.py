"""Renders pages in a shared Chromium under the egress policy of the service.

Each page has its own browser context. All connections go through a loopback proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.browser.chromium import (
    CLOSE_S,
    START_S,
    BrowserProcess,
    BrowserProcesses,
    browser_missing,
    find_program,
    finishes_in_time,
    is_responsive,
    render_error,
    start_error,
    start_timeout,
)
from webdata_nb.service.browser.render_request import (
    DeviceScreen,
    RenderedPage,
    RenderRequest,
    ScreenshotRequest,
    check_name,
    find_screen,
)
from webdata_nb.service.browser.tab import Tab
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.runtime.processors import available_processors
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchRequest
from webdata_nb.service.web.forward_proxy import ForwardProxy, SubresourceThrottle, TrafficLimits
from webdata_nb.service.web.request import format_seconds
from webdata_nb.service.web.resolver import Lookup
from webdata_nb.service.web.throttle import HostThrottle

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

__all__ = ["Browser", "RenderRequest", "RenderedPage", "ScreenshotRequest"]

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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        try:
            import playwright.async_api  # noqa: F401, PLC0415 - an optional extra
        except ImportError:
            raise browser_missing() from None
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
        document = request.document or await self._fetch(request, screen)
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
        with process.proxy.open_session(
            self._traffic_limits, self._subresource_throttle(request, document)
        ) as session:
            options = {**self._defaults, **request.context_options(screen)}
            proxy = {
                "server": process.proxy.url,
                "username": session.username,
                "password": session.password,
            }
            async with self._context(process, {**options, "proxy": proxy}) as context:
                tab = Tab(context, request, document, session, progress.report_step)
                return await tab.render(self._fetcher)

    def _subresource_throttle(
        self, request: RenderRequest, document: FetchedResponse
    ) -> SubresourceThrottle | None:
        if self._throttle is None:
            return None
        return SubresourceThrottle(
            self._throttle,
            host_and_port(document.final_url),
            delay_s=request.delay_s,
            max_wait_s=min(_MAX_SUBRESOURCE_WAIT_S, request.timeout_s / 4),
        )

    async def _fetch(self, request: RenderRequest, screen: DeviceScreen) -> FetchedResponse:
        user_agent = {} if screen.user_agent is None else {"User-Agent": screen.user_agent}
        if any(name.lower() == "user-agent" for name in request.headers):
            user_agent = {}
        return await self._fetcher.fetch(
            FetchRequest(
                request.url,
                headers={**user_agent, **request.headers},
                cookies=request.cookies,
                timeout_s=request.timeout_s,
            )
        )

    async def _known_presets(self) -> Mapping[str, Any]:
        """Read the presets once from Playwright's driver; this needs no browser."""
        async with self._presets_lock:
            if self._presets is None:
                try:
                    from playwright.async_api import async_playwright  # noqa: PLC0415 - an extra
                except ImportError:
                    raise browser_missing() from None
                try:
                    async with asyncio.timeout(START_S), async_playwright() as playwright:
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
