"""Browser processes: they start late, crash alone, are replaced, and end with the service."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest

from tests.browser.conftest import POLICY, look_up
from tests.requirements import require_module
from tests.site.server import Site
from tests.wire.waiting import until
from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.browser.chromium import end_driver, remove_stale_folders
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.runtime.fair_scheduler import current_account, on_behalf_of
from webdata_nb.service.web.fetch import Fetcher

pytestmark = pytest.mark.slow

_TIMEOUT_S: Final = 120.0
_CHILD: Final = """
import asyncio, sys
from tests.browser.conftest import POLICY
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web.fetch import Fetcher

async def main():
    async with Fetcher(POLICY, user_agent="x") as fetcher, Browser(POLICY, fetcher) as browser:
        await browser.render(RenderRequest(sys.argv[1]))
        print("rendered", flush=True)
        await browser.render(RenderRequest(sys.argv[1], wait_for=600_000, timeout_s=900))

asyncio.run(main())
"""


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(POLICY, user_agent="webdata-tests/1.0", lookup=look_up) as opened:
        yield opened


@pytest.fixture
async def browser(chromium: None, fetcher: Fetcher) -> AsyncIterator[Browser]:  # noqa: ARG001 - it must be there
    async with Browser(POLICY, fetcher, lookup=look_up, pages_per_process=2) as opened:
        yield opened


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill processes; the end of one may end another."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def chromiums(kind: str | None = None) -> set[psutil.Process]:
    """Return our browsers' processes: the main ones, or those of one kind."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        types = [part.removeprefix("--type=") for part in line if part.startswith("--type=")]
        # The main process has no type, but the pipe on which it is told what to do.
        if (kind in types) if kind else ("--remote-debugging-pipe" in line and not types):
            found.add(process)
    return found


@pytest.mark.smoke
async def test_it_starts_with_the_first_page_and_ends_with_the_service(
    chromium: None,  # noqa: ARG001 - it must be there
    fetcher: Fetcher,
    site: Site,
) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with Browser(POLICY, fetcher) as browser:
        await browser.check_device("Pixel 9")
        assert chromiums() == set()
        await browser.render(RenderRequest(site.page("/", "<p>here</p>")))
        assert chromiums()
    await until(lambda: set(psutil.Process().children(recursive=True)) <= before)


async def test_it_is_replaced_after_some_pages(browser: Browser, site: Site) -> None:
    request = RenderRequest(site.page("/", "<p>here</p>"))
    lives = []
    for number in range(3):
        assert b"here" in (await browser.render(request)).html
        if number == 1:  # its second page was its last
            await until(lambda: chromiums() == set())
        else:
            lives.append({process.pid for process in chromiums()})
    first, second = lives
    assert first
    assert second
    assert first.isdisjoint(second)


async def test_pages_side_by_side_outlast_a_replacement(browser: Browser, site: Site) -> None:
    request = RenderRequest(site.page("/", "<p>here</p>"))
    rendered = await asyncio.gather(*(browser.render(request) for _ in range(5)))
    assert [b"here" in each.html for each in rendered] == [True] * 5


async def test_a_crashed_renderer_costs_its_own_page_alone(browser: Browser, site: Site) -> None:
    url = site.page("/", "<p>here</p><script src=/stuck></script>")
    with site.hold("/stuck"):
        crashing = asyncio.create_task(browser.render(RenderRequest(url)))
        await asyncio.to_thread(site.wait_for, "/stuck")
        kill_all(chromiums("renderer"))
        with pytest.raises(ScrapeError, match="could not be rendered") as caught:
            await crashing
    assert caught.value.kind == "render"
    rendered = await browser.render(RenderRequest(site.page("/next", "<p>next</p>")))
    assert b"next" in rendered.html


async def test_a_page_given_up_leaves_the_browser_as_it_was(browser: Browser, site: Site) -> None:
    url = site.page("/", "<script src=/stuck></script>")
    with site.hold("/stuck"):
        given_up = asyncio.create_task(browser.render(RenderRequest(url)))
        await asyncio.to_thread(site.wait_for, "/stuck")
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    main = chromiums()
    rendered = await browser.render(RenderRequest(site.page("/next", "<p>next</p>")))
    assert b"next" in rendered.html
    assert main


async def test_page_cancelled_again_while_it_closes_replaces_browser(
    chromium: None,  # noqa: ARG001 - it must be there
    fetcher: Fetcher,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from playwright.async_api import BrowserContext  # noqa: PLC0415 - an optional extra

    closing = asyncio.Event()

    async def never_closes(_: BrowserContext) -> None:
        closing.set()
        await asyncio.Event().wait()

    url = site.page("/", "<script src=/stuck></script>")
    async with Browser(POLICY, fetcher, lookup=look_up) as browser:
        with site.hold("/stuck"), monkeypatch.context() as patch:
            patch.setattr(BrowserContext, "close", never_closes)
            page = asyncio.create_task(browser.render(RenderRequest(url)))
            await asyncio.to_thread(site.wait_for, "/stuck")
            before = chromiums()
            page.cancel()
            await closing.wait()
            page.cancel()
            with pytest.raises(asyncio.CancelledError):
                await page
        rendered = await browser.render(RenderRequest(site.page("/next", "<p>next</p>")))
        assert b"next" in rendered.html
        await until(lambda: chromiums().isdisjoint(before))


async def test_requests_of_a_page_belong_to_its_own_account(
    chromium: None,  # noqa: ARG001 - it must be there
    fetcher: Fetcher,
    site: Site,
) -> None:
    lookups: list[tuple[str, str]] = []

    async def record(host: str) -> Sequence[str]:
        lookups.append((current_account(), host))
        return await look_up(host)

    port = urlsplit(site.url).port
    async with Browser(POLICY, fetcher, lookup=record) as browser:
        for account, host in (("alice", "other.test"), ("bob", "third.test")):
            url = site.page(f"/{account}", f"<img src=http://{host}:{port}/picture>")
            with on_behalf_of(account):
                await browser.render(RenderRequest(url))
    assert set(lookups) == {("alice", "other.test"), ("bob", "third.test")}


async def test_without_a_browser_the_page_says_how_to_get_one(fetcher: Fetcher, site: Site) -> None:
    pytest.importorskip("playwright")
    async with Browser(POLICY, fetcher, program=Path("/nonexistent/chromium")) as browser:
        with pytest.raises(ScrapeError, match="apt install chromium-headless-shell") as caught:
            await browser.render(RenderRequest(site.url))
        with pytest.raises(ScrapeError, match="apt install chromium-headless-shell"):
            await browser.check_installed()
    assert caught.value.kind == "browser_missing"


async def test_a_browser_that_is_installed_is_found_without_a_start(
    chromium: None,  # noqa: ARG001 - it must be there
    fetcher: Fetcher,
) -> None:
    async with Browser(POLICY, fetcher) as browser:
        await browser.check_installed()


@pytest.mark.smoke
async def test_without_playwright_too(
    fetcher: Fetcher, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    async with Browser(POLICY, fetcher) as browser:
        await browser.check_device("no such device")
        with pytest.raises(ScrapeError, match=r"pip install 'webdata_nb\[browser\]'"):
            await browser.check_installed()
        for request in (RenderRequest(site.url), RenderRequest(site.url, mobile=True)):
            with pytest.raises(ScrapeError, match=r"pip install 'webdata_nb\[browser\]'") as caught:
                await browser.render(request)
            assert caught.value.kind == "browser_missing"


async def test_a_program_that_is_no_browser_is_named(
    chromium: None,  # noqa: ARG001 - Playwright must be there
    fetcher: Fetcher,
    site: Site,
) -> None:
    async with Browser(POLICY, fetcher, program=Path("/bin/false")) as browser:
        with pytest.raises(ScrapeError, match="false could not be started") as caught:
            await browser.render(RenderRequest(site.url))
    assert caught.value.kind == "browser_missing"


def test_nothing_outlives_a_killed_parent(
    chromium: None,  # noqa: ARG001 - it must be there
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = site.page("/", "<p>here</p>")
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, url],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "rendered\n"
        family = psutil.Process(child.pid).children(recursive=True)
        assert len(family) > 3
        child.kill()
    _, alive = psutil.wait_procs(family, timeout=_TIMEOUT_S)
    assert alive == []
    # Nobody is left to remove the folder for downloads: the next service does.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert remove_stale_folders() == 1
    assert list(tmp_path.iterdir()) == []


async def test_a_driver_that_hangs_is_killed() -> None:
    module = require_module("playwright.async_api")
    known = set(psutil.Process().children())
    playwright = await module.async_playwright().start()
    [driver] = set(psutil.Process().children()) - known
    driver.suspend()
    await end_driver(playwright)
    await until(lambda: driver not in psutil.Process().children())
