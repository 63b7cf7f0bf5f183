"""A CA bundle and a real Chromium: what the service trusts a page's files may come from."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.service.web.test_tls import CERTIFICATES, presenting
from tests.service.web.test_upstream_proxy import TunnelProxy
from tests.service.web.wire import WireServer
from tests.site.server import Site
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

REPORT_SELECTOR = "#report:not(:empty)"
ASK = """<!DOCTYPE html><pre id="report"></pre><script>
const socket = url => new Promise(done => {
  const made = new WebSocket(url);
  made.onopen = () => done("open");
  made.onerror = () => done("no");
});
const ask = url => url.startsWith("ws") ? socket(url)
  : fetch(url).then(answer => answer.text()).catch(() => "no");
Promise.all(URLS.map(ask)).then(all => { report.textContent = JSON.stringify(all); });
</script>"""
OPEN = "Access-Control-Allow-Origin: *"


async def resolve_to_loopback(_host: str) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def sockets(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve WebSockets; give the port."""

    async def greet(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    app = web.Application()
    app.router.add_get("/", greet)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["ca.pem", None])
async def trusting(
    request: pytest.FixtureRequest,
    chromium: None,  # noqa: ARG001 - it must be there
) -> AsyncIterator[tuple[Browser, bool]]:
    policy = EgressPolicy("local")
    bundle = None if request.param is None else CERTIFICATES / Path(request.param)
    async with (
        Fetcher(policy, user_agent="x", lookup=resolve_to_loopback, ca_bundle=bundle) as fetcher,
        Browser(policy, fetcher, lookup=resolve_to_loopback, ca_bundle=bundle) as browser,
    ):
        yield browser, bundle is not None


async def answers(browser: Browser, site: Site, *urls: str) -> list[Any]:
    page = site.page("/", ASK.replace("URLS", json.dumps(urls)))
    rendered = await browser.render(RenderRequest(page, wait_for=REPORT_SELECTOR, timeout_s=60.0))
    text = rendered.html.decode().partition('<pre id="report">')[2].partition("</pre>")[0]
    found: list[Any] = json.loads(unescape(text))
    return found


async def test_files_come_from_a_site_of_the_bundles_authority(
    trusting: tuple[Browser, bool], site: Site
) -> None:
    browser, has_bundle = trusting
    async with WireServer(tls=presenting("site.pem")) as server:
        server.page("/a", b"first", OPEN)
        server.page("/b", b"second", OPEN)
        urls = [server.url(path, host="site.test") for path in ("/a", "/b")]
        urls += [server.url("/a", host=host) for host in ("site.test.", "127.0.0.1")]
        results = await answers(browser, site, *urls)
        paths = sorted(server.paths())
    assert results == (["first", "second", "first", "first"] if has_bundle else ["no"] * 4)
    assert paths == (["/a", "/a", "/a", "/b"] if has_bundle else [])


@pytest.mark.parametrize(
    ("certificate", "host"), [("expired.pem", "site.test"), ("site.pem", "other.test")]
)
async def test_a_bundle_is_no_leave_to_trust_everything(
    trusting: tuple[Browser, bool], site: Site, certificate: str, host: str
) -> None:
    async with WireServer(tls=presenting(certificate)) as server:
        server.page("/", b"secret", OPEN)
        assert await answers(trusting[0], site, server.url(host=host)) == ["no"]
        assert server.requests == []


@pytest.mark.parametrize("secure", [True, False])
async def test_a_web_socket_goes_through_beside_a_bundle(
    trusting: tuple[Browser, bool], site: Site, secure: bool
) -> None:
    browser, has_bundle = trusting
    async with sockets(presenting("site.pem") if secure else None) as port:
        scheme = "wss" if secure else "ws"
        results = await answers(browser, site, f"{scheme}://site.test:{port}/")
    assert results == ["open" if has_bundle or not secure else "no"]


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_a_bundle_and_a_proxy_of_ones_own(
    chromium: None,  # noqa: ARG001 - it must be there
    secure: bool,
) -> None:
    policy, bundle = EgressPolicy("local"), CERTIFICATES / "ca.pem"
    identity = presenting("site.pem")
    async with (
        WireServer(tls=identity) as server,
        TunnelProxy(server, tls=identity if secure else None) as proxy,
        Fetcher(
            policy, user_agent="x", proxy=proxy.url, ca_bundle=bundle, lookup=resolve_to_loopback
        ) as fetcher,
        Browser(
            policy, fetcher, upstream=proxy.url, ca_bundle=bundle, lookup=resolve_to_loopback
        ) as browser,
    ):
        page = server.page(
            "/", ASK.replace("URLS", '["/file"]').encode(), "Content-Type: text/html"
        )
        server.page("/file", b"came")
        url = page.replace(f"127.0.0.1:{server.port}", "site.test")
        rendered = await browser.render(
            RenderRequest(url, wait_for=REPORT_SELECTOR, timeout_s=60.0)
        )
    assert b'["came"]' in rendered.html
    assert [head.split()[:2] for head in proxy.heads] == [["CONNECT", "site.test:443"]] * 2
