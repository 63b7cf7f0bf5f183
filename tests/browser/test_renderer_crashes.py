"""Renderers that die of their page, browsers that stop answering: each costs its page alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from tests.browser.conftest import POLICY, look_up
from tests.browser.test_life import chromiums
from tests.site.server import Site
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.scrape import chromium as chromium_module
from webdata_nb.service.scrape.render import Browser, RenderRequest
from webdata_nb.service.web.fetch import Fetcher

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
    options = [each for each in chromium_module._ARGUMENTS if not each.startswith("--js-flags")]
    monkeypatch.setattr(chromium_module, "_ARGUMENTS", (*options, SMALL))
    async with (
        Fetcher(POLICY, user_agent="webdata-tests/1.0", lookup=look_up) as fetcher,
        Browser(POLICY, fetcher, lookup=look_up, at_once=2) as opened,
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
        for process in chromiums("renderer"):
            process.kill()
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
