"""The egress policy around a real Chromium: what a page may reach and see of its job."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.conftest import POLICY, look_up
from tests.service.addresses import NAME_TEXT
from tests.site.server import Site
from webdata_nb.page.errors import FetchError
from webdata_nb.service.browser import renderer
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.forward_proxy import TrafficLimits

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TRY_ALL = """<!DOCTYPE html><pre id="report"></pre><script>
const requests = {
  image: url => new Promise(done => {
    const image = new Image(); image.onload = () => done("came"); image.onerror = () => done("no");
    image.src = url;
  }),
  fetched: url => fetch(url, {mode: "no-cors"}).then(a => a.type + a.status, () => "no"),
  frame: url => new Promise(done => {
    const frame = document.createElement("iframe"); frame.onload = () => done("ended");
    frame.src = url; document.body.append(frame);
  }),
  socket: url => new Promise(done => {
    const opened = new WebSocket(url.replace("http", "ws"));
    opened.onopen = () => done("came"); opened.onerror = () => done("no");
  }),
};
(async () => {
  const report = {};
  for (const url of %s)
    for (const [name, request] of Object.entries(requests))
      report[name + " " + url] = await request(url);
  document.getElementById("report").textContent = JSON.stringify(report);
})()</script>"""
DATAGRAMS = """<pre id=report></pre><link rel=dns-prefetch href="//leak.test"><script>
const made = typeof RTCPeerConnection;
let candidates = 0;
const gathered = made === "undefined" ? Promise.resolve() : new Promise(done => {
  const peer = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:PORT"}]});
  peer.onicecandidate = found => found.candidate ? candidates++ : done();
  peer.createDataChannel("x");
  peer.createOffer().then(offer => peer.setLocalDescription(offer));
});
const open = typeof WebTransport === "undefined" ? Promise.reject("none")
  : new WebTransport("https://127.0.0.1:PORT/").ready;
gathered.then(() => open).then(() => "came", () => "no").then(transport =>
  report.textContent = JSON.stringify({made, candidates, transport}));
</script>"""
REPORT_SELECTOR = "#report:not(:empty)"


class Inside:
    """A server at an address that the policy does not admit; it counts who came."""

    def __init__(self) -> None:
        self.visitors = 0

    async def serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visitors += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
        writer.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def inside() -> AsyncIterator[tuple[Inside, int]]:
    counted = Inside()
    server = await asyncio.start_server(counted.serve, "127.0.0.2", 0)
    async with server:
        yield counted, server.sockets[0].getsockname()[1]


def report(html: bytes) -> dict[str, Any]:
    text = html.decode().partition('<pre id="report">')[2].partition("</pre>")[0]
    found: dict[str, Any] = json.loads(unescape(text))
    return found


async def test_a_page_reaches_what_is_admitted(
    browser: Browser, site: Site, other_site: Site
) -> None:
    other_site.page("/", "fine")
    url = site.page("/", TRY_ALL % json.dumps([other_site.url]))
    rendered = await browser.render(RenderRequest(url, wait_for=REPORT_SELECTOR))
    assert report(rendered.html)[f"fetched {other_site.url}"] == "opaque0"
    # The image is none, and the site speaks no WebSocket; but both were asked for.
    assert len(other_site.requests) == 4


@pytest.mark.smoke
async def test_nothing_forbidden_is_reached(
    browser: Browser, site: Site, inside: tuple[Inside, int]
) -> None:
    counted, port = inside
    direct = [f"http://127.0.0.2:{port}/", f"http://inside.test:{port}/", "http://metadata.test/"]
    direct += ["http://169.254.169.254/latest/meta-data/", f"http://localhost:{port}/"]
    turned = [site.redirect(f"/turn/{n}", to) for n, to in enumerate(direct)]
    url = site.page("/", TRY_ALL % json.dumps(direct + turned))
    rendered = await browser.render(RenderRequest(url, wait_for=REPORT_SELECTOR))
    answers = report(rendered.html)
    images = {name: answer for name, answer in answers.items() if name.startswith("image")}
    assert set(images.values()) == {"no"}
    assert not [name for name, answer in answers.items() if answer == "came"]
    assert b"secret" not in rendered.html
    assert counted.visitors == 0


def page_that_leads_to(target: str, site: Site, navigation: str) -> str:
    """Return the URL of a page that leads to `target`; `target` itself for "direct"."""
    site.redirect("/redirect", target)
    site.page("/script", f"<script>location = {target!r}</script>")
    site.page("/meta", f"<meta http-equiv=refresh content='0; url={target}'>")
    return target if navigation == "direct" else site.at(f"/{navigation}")


@pytest.mark.parametrize("navigation", ["direct", "redirect", "script", "meta"])
async def test_a_page_that_leads_to_a_forbidden_address_is_refused(
    browser: Browser, site: Site, inside: tuple[Inside, int], navigation: str
) -> None:
    counted, port = inside
    forbidden = f"http://inside.test:{port}/"
    url = page_that_leads_to(forbidden, site, navigation)
    with pytest.raises(FetchError) as caught:
        await browser.render(RenderRequest(url, wait_for=300))
    words = NAME_TEXT.format("inside.test")
    assert (caught.value.kind, str(caught.value)) == ("dns", words)
    assert counted.visitors == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("navigation", ["direct", "redirect", "script", "meta"])
async def test_a_forbidden_name_is_as_an_unknown_one(
    browser: Browser, site: Site, navigation: str, scheme: str
) -> None:
    messages = []
    for host in ("inside.test", "nobody.test"):
        url = page_that_leads_to(f"{scheme}://{host}:8081/", site, navigation)
        with pytest.raises(FetchError) as caught:
            await browser.render(RenderRequest(url, wait_for=300))
        failure = caught.value
        messages.append((type(failure), failure.kind, str(failure).replace(host, "a.test")))
    assert messages[0] == messages[1]
    assert messages[0][1] == "dns"


async def test_a_jobs_headers_go_to_its_own_origin_alone(
    browser: Browser, site: Site, other_site: Site
) -> None:
    site.redirect("/leaves", other_site.at("/arrived"))
    site.page("/data", "1")
    site.page("/seen", "1")
    other_site.page("/frame", f"<script>fetch('{site.at('/taken')}', {{mode: 'no-cors'}})</script>")
    page = site.page(
        "/",
        f"""<img src="/own"><img src="{other_site.at("/foreign")}"><img src="/leaves">
        <iframe src="{other_site.at("/frame")}"></iframe><pre id=report></pre>
        <script>fetch("/data", {{method: "POST", body: "sent"}})
          .then(() => new Promise(done => setTimeout(done, 300)))
          .then(() => report.textContent = JSON.stringify({{jar: document.cookie}}))</script>""",
        headers={"Set-Cookie": "theirs=1"},
    )
    request = RenderRequest(
        page, headers={"X-Job": "secret"}, cookies={"key": "secret"}, wait_for=REPORT_SELECTOR
    )
    rendered = await browser.render(request)

    def with_secret(of: Site) -> set[str]:
        return {hit.path for hit in of.requests if "secret" in str(dict(hit.headers))}

    assert with_secret(site) == {"/", "/own", "/leaves", "/data"}
    assert with_secret(other_site) == set()
    assert {"/foreign", "/arrived", "/frame"} <= set(other_site.paths)
    assert "/taken" in site.paths
    (posted,) = site.hits("/data")
    assert (posted.method, posted.body) == ("POST", b"sent")
    assert posted.headers["X-Job"] == "secret"
    assert posted.headers["Cookie"] in {"theirs=1; key=secret", "key=secret; theirs=1"}
    assert report(rendered.html) == {"jar": "theirs=1"}


async def test_a_jobs_headers_end_where_a_redirect_leaves_its_origin(
    browser: Browser, site: Site, other_site: Site
) -> None:
    other_site.page("/there", f"<img src='{site.at('/back')}'><img src='/local'>")
    url = site.redirect("/", other_site.at("/there"))
    await browser.render(RenderRequest(url, headers={"X-Job": "secret"}))
    assert site.hits("/")[0].headers["X-Job"] == "secret"
    assert set(site.paths) | set(other_site.paths) == {"/", "/back", "/there", "/local"}
    later = (*site.hits("/back"), *other_site.requests)
    assert not [hit for hit in later if "X-Job" in hit.headers]


async def test_pages_share_no_cookies(browser: Browser, site: Site) -> None:
    site.page("/", "<p>hello</p>", headers={"Set-Cookie": "seen=1"})
    site.page("/next", "<img src=/image>")
    await browser.render(RenderRequest(site.url))
    await browser.render(RenderRequest(site.at("/next")))
    assert "Cookie" not in site.hits("/image")[0].headers


@pytest.mark.parametrize("given_back", [False, True])
async def test_no_datagram_leaves_the_browser(
    browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch, given_back: bool
) -> None:
    """Nothing goes around the proxy, also where a page finds what was taken away from it."""
    if given_back:
        monkeypatch.setattr(renderer, "DISABLE_WEBRTC", "")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0)
        port = listener.getsockname()[1]
        url = site.page("/", DATAGRAMS.replace("PORT", str(port)))
        rendered = await browser.render(RenderRequest(url, wait_for=REPORT_SELECTOR))
        made = "function" if given_back else "undefined"
        assert report(rendered.html) == {"made": made, "candidates": 0, "transport": "no"}
        with pytest.raises(BlockingIOError):
            listener.recv(1)


async def test_a_page_may_cost_so_much_and_no_more(
    chromium: None,  # noqa: ARG001 - it must be there
    fetcher: Fetcher,
    site: Site,
) -> None:
    site.page("/large", b"x" * 3_000_000)
    url = site.page(
        "/",
        """<pre id=report></pre><script>
        fetch("/large").then(answer => answer.text()).then(text => text.length, () => "cut")
          .then(outcome => report.textContent = JSON.stringify({outcome}))</script>""",
    )
    small = TrafficLimits(wire_bytes=1_000_000)
    async with Browser(POLICY, fetcher, lookup=look_up, traffic_limits=small) as browser:
        rendered = await browser.render(RenderRequest(url, wait_for=REPORT_SELECTOR))
    assert report(rendered.html) == {"outcome": "cut"}
