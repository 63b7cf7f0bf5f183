"""Renders pages in a shared Chromium under the egress policy of the service.

Each page has its own browser context. All connections go through a loopback proxy. Chromium starts
with the first page, is replaced after some hundred pages or a crash, and ends with the service,
even if that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb.service.browser import profile_folders
from webdata_nb.service.browser.chromium import (
    browser_missing,
    find_program,
    is_responsive,
    launch,
    profile_path_of,
    remove_profile,
    render_error,
)
from webdata_nb.service.browser.devices import DeviceScreen, check_name, find_screen
from webdata_nb.service.browser.render_request import RenderedPage, RenderRequest, ScreenshotRequest
from webdata_nb.service.browser.shutdown import (
    CLOSE_S,
    end_browser,
    end_driver,
    finishes_in_time,
    process_id_of,
)
from webdata_nb.service.browser.tab import Tab
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchRequest
from webdata_nb.service.web.forward_proxy import ForwardProxy
from webdata_nb.service.web.proxy_session import TrafficLimits
from webdata_nb.service.web.request import format_seconds
from webdata_nb.service.web.resolver import Lookup
from webdata_nb.service.web.subresource_throttle import SubresourceThrottle
from webdata_nb.service.web.throttle import Throttle
from webdata_nb.service.web.urls import host_and_port

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext

__all__ = ["Browser", "RenderRequest", "RenderedPage", "ScreenshotRequest"]

PAGES_PER_PROCESS: Final = 200
# How long a browser and its driver may take to start.
START_S: Final = 60.0
# How long closing a page and its browser may take after the page's deadline.
END_S: Final = 6 * CLOSE_S
_MAX_WAIT_S: Final = 5.0
# A page whose browser ended is opened in the next one: another page may have caused the end.
_MAX_BROWSERS_PER_PAGE: Final = 3


class Browser:
    """Renders pages; one per process, opened with `async with`.

    The browser starts with the first page.

    Parameters
    ----------
    policy : EgressPolicy
        What a page may reach.
    fetcher : Fetcher
        Fetches documents, and all that carries a job's headers or cookies; of the same policy.
    program : Path, optional
        The browser to use; by default the system's.
    max_concurrent : int, optional
        The most pages rendered at one time; by default one a processor.
    pages_per_process : int
        After how many pages the browser is replaced.
    traffic_limits : TrafficLimits
        Limits of the traffic of one page.
    lookup, upstream, ca_bundle : optional
        As `ForwardProxy` takes them.
    user_agent : str, optional
        What the browser calls itself where neither a device nor a header says otherwise; by
        default its own name.
    throttle : Throttle, optional
        Knows when a host may be asked for a page's files; without one, at any time.

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
        throttle: Throttle | None = None,
    ) -> None:
        self._fetcher, self._throttle = fetcher, throttle
        self._defaults = {} if user_agent is None else {"user_agent": user_agent}
        self._program = program
        self._slots = FairSemaphore(max_concurrent or os.cpu_count() or 1)
        self._pages_per_process = pages_per_process
        self._traffic_limits = traffic_limits
        self._new_proxy: Callable[[], ForwardProxy] = lambda: ForwardProxy(
            policy, lookup=lookup, upstream=upstream, ca_bundle=ca_bundle
        )
        self._current: asyncio.Task[_BrowserProcess] | None = None
        self._processes: set[_BrowserProcess] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._presets: Mapping[str, Any] | None = None
        self._own_program: Path | None = None  # where Playwright would have installed one
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        current, self._current = self._current, None
        if current is not None:
            # A browser cannot be closed before it has started.
            await asyncio.gather(current, return_exceptions=True)
        for process in tuple(self._processes):
            await self._close(process)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def check_device(self, name: str) -> None:
        """Check the name of a device preset before a job starts, without a browser.

        Without Playwright no name is known to be wrong, and each page reports what is missing.

        Raises
        ------
        BadInput
            When there is no such device; names those that are spelt most like it.
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
            program = self._own_program
        if program is None or not program.is_file():
            raise browser_missing()

    async def screen(
        self, mobile_device: str | None = None, *, mobile: bool = False
    ) -> DeviceScreen:
        """Give the screen, and the user agent, that a page is rendered with.

        Raises
        ------
        BadInput
            When there is no such device.
        ScrapeError
            Of kind ``browser_missing``, when a device is asked for and Playwright is not there.
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
            When the document did not arrive.
        EgressDenied
            When the policy forbids the document's address, or one that the page moved on to.
        BadInput
            When there is no such device.
        """
        progress = _Progress()
        try:
            with waiting_for("the browser", request.timeout_s + END_S):
                async with asyncio.timeout(request.timeout_s) as deadline:
                    return await self._render(request, progress)
        except TimeoutError:
            if deadline.expired():
                had_s = format_seconds(request.timeout_s)
                late = f"{progress.what} took longer than the page's {had_s} s"
                raise ScrapeError("render", late) from None
            raise

    async def _render(self, request: RenderRequest, progress: _Progress) -> RenderedPage:
        screen = await self.screen(request.mobile_device, mobile=request.mobile)
        document = request.document or await self._fetch(request, screen)
        for left in reversed(range(_MAX_BROWSERS_PER_PAGE)):
            progress.what = "waiting for a free browser"
            async with self._slots, self._borrow_process() as process:
                try:
                    return await self._render_in(process, request, document, screen, progress)
                except ScrapeError as error:
                    # The browser may have been killed, or another page may have crashed it.
                    if error.kind != "render" or await is_responsive(process.chromium):
                        raise
                    process.needs_replacement = True
                    if not left:
                        raise ScrapeError("render", "the browser crashed over this page") from error
        raise AssertionError("unreachable")

    async def _render_in(
        self,
        process: _BrowserProcess,
        request: RenderRequest,
        document: FetchedResponse,
        screen: DeviceScreen,
        progress: _Progress,
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
                tab = Tab(context, request, document, session, progress.say)
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
            max_wait_s=min(_MAX_WAIT_S, request.timeout_s / 4),
        )

    async def _fetch(self, request: RenderRequest, screen: DeviceScreen) -> FetchedResponse:
        agent = {} if screen.user_agent is None else {"User-Agent": screen.user_agent}
        if any(name.lower() == "user-agent" for name in request.headers):
            agent = {}
        return await self._fetcher.fetch(
            FetchRequest(
                request.url,
                headers={**agent, **request.headers},
                cookies=request.cookies,
                timeout_s=request.timeout_s,
            )
        )

    async def _known_presets(self) -> Mapping[str, Any]:
        """Read the presets once from Playwright's driver; this needs no browser."""
        async with self._reading:
            if self._presets is None:
                try:
                    from playwright.async_api import async_playwright  # noqa: PLC0415 - an extra
                except ImportError:
                    raise browser_missing() from None
                try:
                    async with asyncio.timeout(START_S), async_playwright() as playwright:
                        self._presets = dict(playwright.devices)
                        self._own_program = Path(playwright.chromium.executable_path)
                except TimeoutError:
                    raise _start_timeout("the browser's driver") from None
            return self._presets

    @contextlib.asynccontextmanager
    async def _context(
        self, process: _BrowserProcess, options: Mapping[str, Any]
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

    @contextlib.asynccontextmanager
    async def _borrow_process(self) -> AsyncIterator[_BrowserProcess]:
        """Use the current browser for a page; close a worn browser after its last page."""
        process = await self._current_process()
        process.pages += 1
        process.active += 1
        process.needs_replacement = (
            process.needs_replacement or process.pages >= self._pages_per_process
        )
        try:
            yield process
        finally:
            process.active -= 1
            if not process.active and not process.usable:
                await self._close(process)

    async def _current_process(self) -> _BrowserProcess:
        if self._current is None or not _is_usable(self._current):
            # Outside the context of the job that needs the browser first: the proxy's callbacks
            # inherit this context, and serve pages of all jobs.
            self._current = asyncio.create_task(self._start(), context=contextvars.Context())
        # The next page needs the browser even if this page's deadline expires during the start.
        return await asyncio.shield(self._current)

    async def _start(self) -> _BrowserProcess:
        try:
            async with asyncio.timeout(START_S):
                return await self._start_process()
        except TimeoutError:
            raise _start_timeout("the browser") from None

    async def _start_process(self) -> _BrowserProcess:
        try:
            from playwright.async_api import async_playwright  # noqa: PLC0415 - an optional extra
        except ImportError:
            raise browser_missing() from None
        async with contextlib.AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(self._new_proxy())
            after = await stack.enter_async_context(contextlib.AsyncExitStack())
            artifacts = profile_folders.create_folder()
            after.push_async_callback(remove_profile, artifacts)
            playwright = await async_playwright().start()
            stack.push_async_callback(end_driver, playwright)
            chromium = await launch(
                playwright,
                self._program,
                proxy_url=proxy.url,
                artifacts=artifacts,
                fingerprint=proxy.fingerprint,
            )
            profile, pid = await profile_path_of(chromium), await process_id_of(chromium)
            stack.push_async_callback(end_browser, chromium, pid, profile)
            if profile is not None:
                profile_folders.record_profile(artifacts, profile)
                after.push_async_callback(remove_profile, profile)
            process = _BrowserProcess(chromium, proxy, stack.pop_all())
        self._processes.add(process)
        return process

    async def _close(self, process: _BrowserProcess) -> None:
        if process in self._processes:
            self._processes.discard(process)
            # A cancellation of the page must not interrupt the closing.
            task = asyncio.create_task(process.exit_stack.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            await asyncio.shield(task)


class _BrowserProcess:
    """One Chromium process with its driver and its proxy."""

    def __init__(
        self, chromium: Chromium, proxy: ForwardProxy, exit_stack: contextlib.AsyncExitStack
    ) -> None:
        self.chromium, self.proxy, self.exit_stack = chromium, proxy, exit_stack
        self.pages = self.active = 0
        self.needs_replacement = False

    @property
    def usable(self) -> bool:
        return not self.needs_replacement and self.chromium.is_connected()


@dataclass(slots=True)
class _Progress:
    """What a page waits for; part of the message if its deadline expires."""

    what: str = "fetching the page"

    def say(self, what: str) -> None:
        self.what = what


def _is_usable(task: asyncio.Task[_BrowserProcess]) -> bool:
    if not task.done():
        return True
    return not task.cancelled() and task.exception() is None and task.result().usable


def _start_timeout(what: str) -> ScrapeError:
    return ScrapeError("render", f"{what} did not start within {START_S:.0f} s")
