"""Renderers that die of their page, browsers that stop answering: each costs its page alone."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.browser.conftest import POLICY, look_up
from tests.browser.test_browser_processes import chromiums, kill_all
from tests.site.server import Site
from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.browser import chromium as chromium_module
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web.fetch import Fetcher

pytestmark = pytest.mark.slow

# Out of memory soon after the page came to rest, which is when it is being read.
HUNGRY = """<!DOCTYPE html><p>hungry</p><script>
const kept = [];
setInterval(() => { for (let n = 0; n < 40; n++) kept.push(new Array(20000).fill({n})); }, 0);
</script>"""
SMALL = "--js-flags=--max-old-space-size=48"


@pytest.fixture
async def browser(
    chromium: None,  # noqa: ARG001 - it must be there
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Browser]:
    options = [
        each for each in chromium_module._LAUNCH_ARGUMENTS if not each.startswith("--js-flags")
    ]
    monkeypatch.setattr(chromium_module, "_LAUNCH_ARGUMENTS", (*options, SMALL))
    async with (
        Fetcher(POLICY, user_agent="webdata-tests/1.0", lookup=look_up) as fetcher,
        Browser(POLICY, fetcher, lookup=look_up, max_concurrent=2) as opened,
    ):
        yield opened


async def test_pages_that_run_out_of_memory_leave_rendering_as_it_was(
    browser: Browser, site: Site
) -> None:
    hungry = RenderRequest(site.page("/hungry", HUNGRY), wait_for=60_000, timeout_s=20.0)
    soon = replace(hungry, wait_for=None)
    async with asyncio.timeout(120):
        for request in (hungry, soon, hungry, soon):
            # Where it is read in time, it is a page like any other.
            with suppress(ScrapeError):
                await browser.render(request)
        rendered = await browser.render(RenderRequest(site.page("/", "<p>well</p>")))
    assert b"well" in rendered.html


async def test_a_renderer_that_is_killed_fails_its_page_at_once(
    browser: Browser, site: Site
) -> None:
    for number in range(2):
        url = site.page(f"/{number}", f"<script src=/stuck/{number}></script>")
        site.hold(f"/stuck/{number}")
        waiting = asyncio.create_task(browser.render(RenderRequest(url, timeout_s=300.0)))
        await asyncio.to_thread(site.wait_for, f"/stuck/{number}", timeout=60)
        kill_all(chromiums("renderer"))
        async with asyncio.timeout(60):
            with pytest.raises(ScrapeError, match="could not be rendered"):
                await waiting
    rendered = await browser.render(RenderRequest(site.page("/", "<p>here</p>")))
    assert b"here" in rendered.html


async def test_a_browser_that_does_not_answer_is_replaced(browser: Browser, site: Site) -> None:
    url = site.page("/", "<p>here</p>")
    await browser.render(RenderRequest(url))
    stopped = chromiums()
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    async with asyncio.timeout(120):
        with pytest.raises(ScrapeError, match="took longer than the page's 3 s"):
            await browser.render(RenderRequest(url, timeout_s=3.0))
        assert b"here" in (await browser.render(RenderRequest(url))).html
    assert stopped
    _, alive = psutil.wait_procs(stopped, timeout=30)
    assert alive == []


@pytest.mark.parametrize("victim", ["browser", "driver"])
async def test_pages_whose_browser_is_killed_are_opened_in_another(
    browser: Browser, site: Site, victim: str
) -> None:
    urls = [site.page(f"/{n}", f"<p>page {n}</p><script src=/slow/{n}></script>") for n in range(2)]
    gates = [site.hold(f"/slow/{n}") for n in range(2)]
    rendering = [
        asyncio.create_task(browser.render(RenderRequest(url, timeout_s=120.0))) for url in urls
    ]
    for n in range(2):
        await asyncio.to_thread(site.wait_for, f"/slow/{n}", timeout=60)
    kill_all(chromiums() if victim == "browser" else drivers())
    for gate in gates:
        gate.release()
    async with asyncio.timeout(120):
        rendered = await asyncio.gather(*rendering)
        assert b"page 0" in (await browser.render(RenderRequest(urls[0]))).html
    assert [f"page {n}".encode() in each.html for n, each in enumerate(rendered)] == [True, True]


async def test_a_page_that_ends_every_browser_fails(browser: Browser, site: Site) -> None:
    requests = 0

    def page(_request: object) -> str:
        nonlocal requests
        requests += 1
        kill_all(chromiums())
        return "let seen = 1;"

    url = site.page("/", "<p>page</p><script src=/kill></script>")
    site.page("/kill", page)
    async with asyncio.timeout(120):
        with pytest.raises(ScrapeError, match="the browser crashed over this page"):
            await browser.render(RenderRequest(url, timeout_s=100.0))
    assert requests == 3


@pytest.mark.parametrize("delay_s", [0.0, 0.15, 0.3])
async def test_a_browser_that_is_killed_during_its_start_is_started_again(
    browser: Browser, site: Site, delay_s: float
) -> None:
    url = site.page("/", "<p>page</p>")
    profiles = browser_profiles()
    rendering = asyncio.create_task(browser.render(RenderRequest(url, timeout_s=100.0)))
    killed: list[psutil.Process] = []
    for _ in range(2):
        killed.append(await first_driver(but=killed))
        await asyncio.sleep(delay_s)
        kill_all(killed[-1:])
    async with asyncio.timeout(120):
        assert b"page" in (await rendering).html
        while len(browser_profiles() - profiles) > 1:  # noqa: ASYNC110 - that of the last browser
            await asyncio.sleep(0.05)


async def test_a_browser_that_never_starts_fails_the_page(browser: Browser, site: Site) -> None:
    url = site.page("/", "<p>page</p>")
    rendering = asyncio.create_task(browser.render(RenderRequest(url, timeout_s=100.0)))
    killed = 0
    async with asyncio.timeout(120):
        while not rendering.done():
            kill_all(running := drivers())
            killed += len(running)
            await asyncio.sleep(0.01)
        with pytest.raises(ScrapeError, match="could not be started"):
            await rendering
    assert killed >= 3


async def first_driver(*, but: list[psutil.Process]) -> psutil.Process:
    async with asyncio.timeout(60):
        while not (running := [each for each in drivers() if each not in but]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return running[0]


def browser_profiles() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("playwright_chromiumdev_profile-*"))


def drivers() -> list[psutil.Process]:
    """Return the processes of Playwright's driver."""
    return [child for child in psutil.Process().children() if is_driver(child)]


def is_driver(process: psutil.Process) -> bool:
    try:
        return "run-driver" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False
