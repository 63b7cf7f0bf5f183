"""Requests of a rendered page: kind x spelling of the address x mode, in a real Chromium.

As in `tests/service/test_egress.py`: where the policy says no, the proxy, which is the browser's
only network, connects to nothing; and a local browser shows that each kind of request works.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio

from tests.service.addresses import (
    INNER_HOSTS,
    METADATA_HOSTS,
    POLICY_TEXT,
    PRIVATE_HOSTS,
    inside,
    look_up,
    refusal,
)
from tests.service.conftest import open_service
from tests.service.outgoing_connections import record_connections
from tests.service.routes.teams import member
from tests.site.server import Site
from webdata_nb.page.errors import FetchError
from webdata_nb.service.browser.renderer import Browser, RenderRequest
from webdata_nb.service.web import resolver
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

Mode = Literal["team", "local"]
POLICIES = {
    "team": EgressPolicy("team", (ip_network("127.0.0.1/32"),)),
    "local": EgressPolicy("local"),
}
REFUSED = {
    "team": {**INNER_HOSTS, **PRIVATE_HOSTS, **METADATA_HOSTS},
    "local": METADATA_HOSTS,
}
REPORT_SELECTOR = "#report:not(:empty)"
PROBE_SCRIPT = """<!DOCTYPE html><pre id="report"></pre><script>
const element = (name, url) => new Promise(done => {
  const made = document.createElement(name);
  made.onload = made.onerror = done;
  made.src = url;
  document.body.append(made);
});
const requests = {
  image: url => element("img", url),
  script: url => element("script", url),
  frame: url => element("iframe", url),
  fetch: url => fetch(url, {mode: "no-cors"}),
  post: url => fetch(url, {mode: "no-cors", method: "POST", body: "sent"}),
  worker: url => new Promise(done => {
    const code = `fetch(${JSON.stringify(url)}, {mode: "no-cors"})
      .then(() => postMessage(1), () => postMessage(1))`;
    const made = new Worker(URL.createObjectURL(new Blob([code])));
    made.onmessage = made.onerror = done;
  }),
  socket: url => new Promise(done => {
    const made = new WebSocket(url.replace("http", "ws")); made.onopen = made.onerror = done;
  }),
};
Promise.all(URLS.map(url => requests["KIND"](url).catch(() => 0)))
  .then(all => { report.textContent = `${all.length} asked`; });
</script>"""
REQUEST_KINDS = ("image", "script", "frame", "fetch", "post", "worker", "socket")


def probe_page(kind: str, urls: Sequence[str]) -> str:
    return PROBE_SCRIPT.replace("KIND", kind).replace("URLS", json.dumps(list(urls)))


async def look_up_later(host: str) -> Sequence[str]:
    return look_up(host)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browsers(chromium: None) -> AsyncIterator[dict[str, Browser]]:  # noqa: ARG001 - it must be there
    async with AsyncExitStack() as stack:
        found = {}
        for mode, policy in POLICIES.items():
            fetcher = Fetcher(policy, user_agent="t/1", lookup=look_up_later)
            await stack.enter_async_context(fetcher)
            browser = Browser(policy, fetcher, lookup=look_up_later)
            found[mode] = await stack.enter_async_context(browser)
        yield found


def request(url: str, **options: Any) -> RenderRequest:
    return RenderRequest(url, wait_for=REPORT_SELECTOR, timeout_s=60.0, **options)


@pytest.mark.parametrize("mode", REFUSED)
@pytest.mark.parametrize("kind", REQUEST_KINDS)
async def test_no_subresource_comes_from_a_forbidden_address(
    browsers: dict[str, Browser], site: Site, mode: Mode, kind: str
) -> None:
    async with inside() as inner:
        direct = [inner.url(host) for host in REFUSED[mode].values()]
        redirects = [site.redirect(f"/to/{n}", url) for n, url in enumerate(direct)]
        page = site.page("/", probe_page(kind, direct + redirects))
        with record_connections() as addresses:
            # A page that a job's headers go to is asked for its own files by the fetcher.
            for options in ({}, {"headers": {"X-Job": "own"}}):
                rendered = await browsers[mode].render(request(page, **options))
                assert f"{2 * len(direct)} asked".encode() in rendered.html
    if kind != "socket":  # which follows no redirect, and this site speaks no WebSocket
        assert {hit.path for hit in site.requests} >= {f"/to/{n}" for n in range(len(direct))}
    assert addresses <= {"127.0.0.1"}
    assert inner.callers == []


@pytest.mark.parametrize("kind", REQUEST_KINDS)
async def test_each_request_kind_works_in_a_local_browser(
    browsers: dict[str, Browser], site: Site, kind: str
) -> None:
    async with inside() as inner:
        urls = [inner.url(host) for host in (INNER_HOSTS["mapped"], INNER_HOSTS["name"])]
        page = site.page("/", probe_page(kind, urls))
        with record_connections() as addresses:
            await browsers["local"].render(request(page))
    assert "127.0.0.9" in addresses
    assert len(inner.callers) >= len(urls)


MOVES = {
    "script": "<script>location = {url!r}</script>",
    "meta": "<meta http-equiv=refresh content='0; url={url}'>",
    "form": "<form method=post action={url!r}></form><script>document.forms[0].submit()</script>",
}
KINDS = ("decimal", "mapped-name", "private-name", "metadata", "metadata-v6", "metadata-name")


@pytest.mark.parametrize(
    ("mode", "kind"), [(mode, kind) for mode in REFUSED for kind in KINDS if kind in REFUSED[mode]]
)
@pytest.mark.parametrize("move", MOVES)
async def test_no_page_moves_on_to_a_forbidden_address(
    browsers: dict[str, Browser], site: Site, mode: Mode, kind: str, move: str
) -> None:
    async with inside() as inner:
        host = REFUSED[mode][kind]
        url = inner.url(host)
        page = site.page("/", MOVES[move].format(url=url))
        with record_connections() as addresses, pytest.raises(FetchError) as caught:
            await browsers[mode].render(RenderRequest(page, wait_for=500))
    words = "The page leads to an address that the network policy does not allow."
    named = (error := refusal(mode, host)) != POLICY_TEXT
    # A declared refresh is followed before the page is rendered.
    assert str(caught.value) == (error if named or move == "meta" else words)
    assert caught.value.kind == ("dns" if named else "refused")
    assert addresses <= {"127.0.0.1"}
    assert inner.callers == []


@pytest.fixture
def names() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolver, "_system_addresses", look_up)
        yield


@pytest.mark.usefixtures("names", "chromium")
@pytest.mark.parametrize("mode", ["team", "local"])
async def test_a_job_renders_under_the_policy_of_its_service(
    tmp_path: Path, site: Site, mode: Mode
) -> None:
    networks = ("127.0.0.1/32",) if mode == "team" else ()
    headers = await member(tmp_path, "alice") if mode == "team" else {}
    async with inside() as inner, open_service(tmp_path, mode, allow_networks=networks) as api:
        api.http.headers.update(headers)
        page = site.page("/", f"<p>Words.<img src='{inner.url('inside.test')}'>")
        with record_connections() as addresses:
            options = {"render": True}
            reply = await api.run_job("crawl", url=page, max_pages=1, scrape_options=options)
    assert [row["success"] for row in reply["data"]] == [True], reply
    assert (inner.callers == []) is (mode == "team")
    assert ("127.0.0.9" in addresses) is (mode == "local")
