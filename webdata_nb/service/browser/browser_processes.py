"""Starts, replaces and closes the Chromium processes that render pages, one at a time.

Chromium starts with the first page, is replaced after some hundred pages or a crash, and ends with
the service, even if that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.browser import profile_folders
from webdata_nb.service.browser.chromium import (
    BrowserStartError,
    browser_missing,
    launch,
    profile_path_of,
    remove_profile,
    start_error,
)
from webdata_nb.service.browser.shutdown import end_browser, end_driver, process_id_of
from webdata_nb.service.web.forward_proxy import ForwardProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Playwright

log = logging.getLogger(__name__)

# How long a browser and its driver may take to start.
START_S: Final = 60.0
_MAX_STARTS: Final = 3
# A profile that no process uses for this long does not belong to a browser that is starting.
_UNUSED_S: Final = 2.0
_MAX_LOOKS: Final = 5


class BrowserProcess:
    """One Chromium process with its driver and its proxy."""

    def __init__(
        self, chromium: Chromium, proxy: ForwardProxy, exit_stack: contextlib.AsyncExitStack
    ) -> None:
        self.chromium, self.proxy, self.exit_stack = chromium, proxy, exit_stack
        self.pages = self.active = 0
        self.needs_replacement = False

    @property
    def usable(self) -> bool:
        """Whether the process can render further pages."""
        return not self.needs_replacement and self.chromium.is_connected()


class BrowserProcesses:
    """The current browser process, and those that still render their last pages.

    Parameters
    ----------
    program : Path, optional
        The browser's executable; by default the system's.
    pages_per_process : int
        The number of pages after which the browser is replaced.
    new_proxy : callable
        Returns a proxy for a new browser.
    """

    def __init__(
        self,
        program: Path | None,
        pages_per_process: int,
        new_proxy: Callable[[], ForwardProxy],
    ) -> None:
        self._program = program
        self._pages_per_process = pages_per_process
        self._new_proxy = new_proxy
        self._current: asyncio.Task[BrowserProcess] | None = None
        self._processes: set[BrowserProcess] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._cleaning: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Close all browsers, also one that is still starting."""
        current, self._current = self._current, None
        if current is not None:
            # A browser cannot be closed before it has started.
            await asyncio.gather(current, return_exceptions=True)
        for process in tuple(self._processes):
            await self._close(process)
        for cleaning in self._cleaning:
            cleaning.cancel()
        await asyncio.gather(*self._closing, *self._cleaning, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def borrow(self) -> AsyncIterator[BrowserProcess]:
        """Use the current browser for a page; close a replaced browser after its last page."""
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

    async def _current_process(self) -> BrowserProcess:
        if self._current is None or not _is_usable(self._current):
            # Outside the context of the job that needs the browser first: the proxy's callbacks
            # inherit this context, and serve pages of all jobs.
            self._current = asyncio.create_task(self._start(), context=contextvars.Context())
        # The next page needs the browser even if this page's deadline expires during the start.
        return await asyncio.shield(self._current)

    async def _start(self) -> BrowserProcess:
        """Start a browser; try again if it or its driver is killed meanwhile."""
        for attempts_left in reversed(range(_MAX_STARTS)):
            started_at = time.time()
            try:
                async with asyncio.timeout(START_S):
                    return await self._start_process()
            except TimeoutError:
                raise start_timeout("the browser") from None
            except BrowserStartError as error:
                _run_in_background(_remove_unused_profiles(started_at), self._cleaning)
                if not attempts_left:
                    raise
                log.warning("%s; trying again", error)
        raise AssertionError("unreachable")

    async def _start_process(self) -> BrowserProcess:
        try:
            from playwright.async_api import async_playwright  # noqa: PLC0415 - an optional extra
        except ImportError:
            raise browser_missing() from None
        try:
            process = await self._open(lambda: async_playwright().start())
        except ScrapeError:
            raise
        except Exception as error:  # the end of the driver is a plain Exception
            raise start_error(error) from error
        self._processes.add(process)
        return process

    async def _open(self, start_driver: Callable[[], Awaitable[Playwright]]) -> BrowserProcess:
        async with contextlib.AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(self._new_proxy())
            after = await stack.enter_async_context(contextlib.AsyncExitStack())
            artifacts = profile_folders.create_folder()
            after.push_async_callback(remove_profile, artifacts)
            playwright = await start_driver()
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
            return BrowserProcess(chromium, proxy, stack.pop_all())

    async def _close(self, process: BrowserProcess) -> None:
        if process in self._processes:
            self._processes.discard(process)
            # A cancellation of the page must not interrupt the closing.
            closing = process.exit_stack.aclose()
            await asyncio.shield(_run_in_background(closing, self._closing))


def _run_in_background(
    work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]
) -> asyncio.Task[None]:
    """Run `work` as a task, which is one of `tasks` until it ends."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _remove_unused_profiles(created_after: float) -> None:
    """Remove the profile of a browser whose driver ended before it reported the path.

    The browser ends some time after its driver.
    """
    unused: set[Path] = set()
    for _ in range(_MAX_LOOKS):
        now_unused = set(await asyncio.to_thread(profile_folders.unused_profiles, created_after))
        for profile in unused & now_unused:
            await remove_profile(profile)
        unused = now_unused
        await asyncio.sleep(_UNUSED_S)


def start_timeout(program: str) -> ScrapeError:
    """Return the error of a start that exceeded `START_S`."""
    return ScrapeError("render", f"{program} did not start within {START_S:.0f} s")


def _is_usable(task: asyncio.Task[BrowserProcess]) -> bool:
    if not task.done():
        return True
    return not task.cancelled() and task.exception() is None and task.result().usable
