"""The requests of rendered pages wait for paused hosts, and report overload."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.conftest import POLICY, look_up
from tests.service.conftest import open_service
from tests.service.web.test_tls import CERTIFICATES, presenting
from tests.service.web.wire import WireServer
from tests.site.server import Site
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.throttle import HostThrottle

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

REPORT_SELECTOR = "#report:not(:empty)"
ONE_BY_ONE = """<!DOCTYPE html><pre id="report"></pre><script>
(async () => {
  const results = [];
  for (const url of URLS)
    results.push(await fetch(url).then(reply => reply.status, () => "blocked"));
  // The overload reply takes effect after a moment.
  const last = UNTIL;
  while (last && await fetch(last).then(() => true, () => false))
    await new Promise(rested => setTimeout(rested, 20));
  if (last) results.push("blocked");
  report.textContent = JSON.stringify(results);
})();
</script>"""
OPEN = {"Access-Control-Allow-Origin": "*"}
BUSY = {**OPEN, "Retry-After": "900"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def own_fetcher(chromium: None) -> AsyncIterator[Fetcher]:  # noqa: ARG001 - it must be there
    bundle = CERTIFICATES / "ca.pem"
    async with Fetcher(POLICY, user_agent="x", lookup=look_up, ca_bundle=bundle) as open_service:
        yield open_service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def throttled_browser(own_fetcher: Fetcher) -> AsyncIterator[tuple[Browser, HostThrottle]]:
    throttle = HostThrottle()
    async with Browser(
        POLICY, own_fetcher, lookup=look_up, ca_bundle=CERTIFICATES / "ca.pem", throttle=throttle
    ) as browser:
        yield browser, throttle


async def fetch_results(
    browser: Browser, site: Site, *urls: str, until: str | None = None, **options: Any
) -> list[Any]:
    script = ONE_BY_ONE.replace("URLS", json.dumps(urls)).replace("UNTIL", json.dumps(until))
    page = site.page("/", script)
    request = RenderRequest(page, wait_for=REPORT_SELECTOR, timeout_s=60.0, **options)
    text = (await browser.render(request)).html.decode().partition('<pre id="report">')[2]
    found: list[Any] = json.loads(unescape(text.partition("</pre>")[0]))
    return found


async def test_paused_host_receives_no_requests(
    throttled_browser: tuple[Browser, HostThrottle], site: Site, other_site: Site
) -> None:
    busy = other_site.page("/busy", "", status=429, headers=BUSY).replace("127.0.0.1", "other.test")
    after = other_site.page("/after", "", headers=OPEN).replace("127.0.0.1", "other.test")
    assert await fetch_results(throttled_browser[0], site, busy, until=after) == [429, "blocked"]
    seen = other_site.paths
    # The next page knows it from the start.
    assert await fetch_results(throttled_browser[0], site, after, after) == ["blocked"] * 2
    assert other_site.paths == seen


async def test_overload_reply_over_tls_is_detected(own_fetcher: Fetcher, site: Site) -> None:
    async with (
        Browser(
            POLICY,
            own_fetcher,
            lookup=look_up,
            ca_bundle=CERTIFICATES / "ca.pem",
            throttle=HostThrottle(),
        ) as browser,
        WireServer(tls=presenting("site.pem")) as server,
    ):
        lines = [f"{name}: {value}" for name, value in BUSY.items()]
        server.page("/fine", b"", *lines[:1])
        server.page("/busy", b"", *lines, status="503 Service Unavailable")
        fine, busy = (server.url(path, host="site.test") for path in ("/fine", "/busy"))
        # The connection is there already: what is held is the request.
        statuses = await fetch_results(browser, site, fine, busy, until=f"{fine}?again")
        assert statuses == [200, 503, "blocked"]
        assert server.connections == 1


async def test_requests_wait_for_short_pause(
    throttled_browser: tuple[Browser, HostThrottle], site: Site, other_site: Site
) -> None:
    _, throttle = throttled_browser
    await throttle.report_overload("site.test", 0.4)
    url = other_site.page("/", "", headers=OPEN).replace("127.0.0.1", "site.test")
    assert await fetch_results(throttled_browser[0], site, url) == [200]


async def test_requests_with_job_headers_wait_for_pause(
    throttled_browser: tuple[Browser, HostThrottle], site: Site
) -> None:
    own, more = site.page("/own", "", status=429, headers=BUSY), site.page("/more", "")
    statuses = await fetch_results(
        throttled_browser[0], site, own, until=more, headers={"X-Job": "secret"}
    )
    assert statuses == [429, "blocked"]


async def test_failures_of_subresources_do_not_count(
    throttled_browser: tuple[Browser, HostThrottle], site: Site, other_site: Site
) -> None:
    broken = [other_site.page(f"/{n}", "", status=500, headers=OPEN) for n in range(20)]
    fine = other_site.page("/fine", "", headers=OPEN)
    urls = [url.replace("127.0.0.1", "third.test") for url in (*broken, fine)]
    assert await fetch_results(throttled_browser[0], site, *urls) == [500] * 20 + [200]


async def test_pages_of_a_job_share_host_state(
    chromium: None,  # noqa: ARG001 - it must be there
    tmp_path: Path,
    site: Site,
    other_site: Site,
) -> None:
    pictures = other_site.page("/busy", "", status=429, headers=BUSY)
    other = pictures.replace("127.0.0.1", "localhost")
    first = site.page("/", f"<h1>One</h1><img src={other}><a href=/two>two</a>")
    site.page("/two", f"<h1>Two</h1><img src={other}>")
    async with open_service(tmp_path / "data") as api:
        options = {"render": True}
        reply = await api.run_job("crawl", url=first, max_pages=2, scrape_options=options)
    assert [row["success"] for row in reply["data"]] == [True, True]
    assert other_site.paths == ("/busy",)


async def test_ca_bundle_of_a_job_reaches_browser(
    chromium: None,  # noqa: ARG001 - it must be there
    tmp_path: Path,
) -> None:
    async with (
        WireServer(tls=presenting("site.pem")) as server,
        open_service(tmp_path / "data", ca_bundle=str(CERTIFICATES / "ca.pem")) as api,
    ):
        script = b"document.querySelector('main').append('written by a script')"
        server.page("/app.js", script, "Content-Type: text/javascript")
        url = server.page(
            "/", b"<main></main><script src=/app.js></script>", "Content-Type: text/html"
        )
        options = {"render": True, "only_main_content": False}
        reply = await api.run_job("crawl", url=url, max_pages=1, scrape_options=options)
    assert "written by a script" in reply["data"][0]["markdown"]
