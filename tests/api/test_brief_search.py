"""What a search without pages costs on the wire: its start, whose answer holds the result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest
from aiohttp import web

from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.toolkit.api import search_df
from webdata_nb.toolkit.jobs import sources


class Wire:
    """The requests that a session sends to its service, leases and handshakes aside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, str]] = []
        self.second_request = threading.Event()
        send = httpx.AsyncHTTPTransport.handle_async_request

        async def seen(
            transport: httpx.AsyncHTTPTransport, request: httpx.Request
        ) -> httpx.Response:
            if request.url.path.startswith("/v1/"):
                self.sent.append((request.method, request.url.raw_path.decode()))
                if request.method == "GET":
                    self.second_request.set()
            return await send(transport, request)

        monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", seen)


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Site() as site:
        monkeypatch.setenv("WEBDATA_HOME", str(home))
        monkeypatch.setenv("WEBDATA_SEARXNG_URL", site.url)
        for engine in ENGINES:
            monkeypatch.setenv(f"WEBDATA_{engine.upper()}", "searxng")
        yield site


def answer(request: web.BaseRequest) -> web.Response:
    query = parse_qs(request.query_string)["q"][0]
    rows = [{"url": f"https://x.test/{query}/{n}", "title": f"{n}", "content": ""} for n in "ab"]
    return web.json_response({"results": rows})


def test_brief_search_needs_one_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.under("/search", answer)
    # As long as a machine under load may take: how long is not the matter here.
    monkeypatch.setattr(sources, "START_WAIT_S", 30)
    wire = Wire(monkeypatch)
    one = search_df("one", formats=[], num_results=2, cache=False, progress=False)
    assert list(one["url"]) == ["https://x.test/one/a", "https://x.test/one/b"]
    assert wire.sent == [("POST", "/v1/search?wait=30")]
    three = search_df(
        ["two", "three", "four"], formats=[], num_results=2, cache=False, progress=False
    )
    assert list(three["rank"]) == [1, 2] * 3
    assert wire.sent == [("POST", "/v1/search?wait=30")] * 4
    assert len(site.requests) == 4


def test_longer_search_needs_second_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.to_thread(wire.second_request.wait, 60)
        return answer(request)

    site.under("/search", slow)
    # Longer than any machine takes to answer once it is asked again.
    monkeypatch.setattr(sources, "_LONG_POLL_S", 30)
    one = search_df("one", formats=[], num_results=2, cache=False, progress=False)
    assert len(one) == 2
    [start, status] = wire.sent
    assert start == ("POST", f"/v1/search?wait={sources.START_WAIT_S}")
    assert status[0] == "GET"
    assert status[1].startswith("/v1/search/")
    assert "wait=30" in status[1]
