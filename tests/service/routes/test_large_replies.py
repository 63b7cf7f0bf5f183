"""Large replies: compressed for those who ask over a network, and not sent again unchanged."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.service.conftest import BASE, Api
from tests.service.routes.test_search import article, magazine
from tests.site.server import Site
from webdata_nb.service.http.compression import MIN_BYTES, CompressionMiddleware, accepts_gzip
from webdata_nb.service.http.connections import ConnectionLimiter
from webdata_nb.service.server import Server, listen

REMOTE_ADDRESS = ("192.0.2.7", 40_000)
PAGES = 30
PROSE = "The tide tables of the harbour, and when the ferries leave. "


@asynccontextmanager
async def remote_client(
    api: Api, client: tuple[str, int] = REMOTE_ADDRESS
) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the same service at another address; it asks for gzip like any httpx."""
    transport = httpx.ASGITransport(api.running.app, client=client)
    headers = {"Authorization": api.http.headers["Authorization"]}
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as http:
        yield http


async def crawl(api: Api, site: Site) -> str:
    links = [f"/{n}" for n in range(150)]  # the receipt has them all
    site.page("/", article("Home", "All pages.", *links))
    for link in links:
        site.page(link, article(f"Page {link}", f"{link} {PROSE * 20}"))
    return f"/v1/crawl/{(await api.run_job('crawl', url=site.url, max_pages=PAGES + 1))['job_id']}"


async def raw(http: httpx.AsyncClient, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Ask, and return the body as it was sent."""
    async with http.stream("GET", path, headers=headers) as response:
        return response, b"".join([piece async for piece in response.aiter_raw()])


async def test_large_replies_are_compressed_over_a_network_alone(api: Api, site: Site) -> None:
    path = await crawl(api, site)
    paths = (path, f"{path}/receipt", f"{path}/export?format=json", f"{path}/export?format=csv")
    async with remote_client(api) as http, remote_client(api, ("::ffff:127.0.0.1", 9)) as near:
        for each in paths:
            plain, body = await raw(http, each, **{"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers
            for _ in range(3):  # from the database, and from memory
                packed, sent = await raw(http, each, **{"Accept-Encoding": "br, gzip"})
                assert packed.headers["content-encoding"] == "gzip"
                assert gzip.decompress(sent) == body
                assert len(sent) < len(body) / 2
                assert packed.headers["etag"] == plain.headers["etag"]
            for client in (api.http, near):
                local, same = await raw(client, each, **{"Accept-Encoding": "gzip"})
                assert "content-encoding" not in local.headers
                assert same == body
            for answer in (plain, packed, local):
                assert answer.headers["vary"] == "Accept-Encoding"
                assert answer.headers["cache-control"] == "no-store"


async def test_small_replies_archives_and_streams_are_sent_as_they_are(
    api: Api, site: Site
) -> None:
    path = await crawl(api, site)
    async with remote_client(api) as http:
        for each in ("/healthz", f"{path}?include_data=false", f"{path}/export?format=zip"):
            assert "content-encoding" not in (await http.get(each)).headers
        events = await http.get(f"{path}/events")
        assert events.headers["content-type"].startswith("text/event-stream")
        assert not {"content-encoding", "etag"} & set(events.headers)
        head = await http.head(path)
        assert "content-encoding" not in head.headers
        assert head.headers["etag"] == (await http.get(path)).headers["etag"]


async def test_unchanged_reply_is_a_304(api: Api, site: Site) -> None:
    path = await crawl(api, site)
    reads = (
        path,
        f"{path}?include_data=false",
        f"{path}/receipt",
        *(f"{path}/export?format={name}" for name in ("json", "csv", "zip")),
    )
    for each in reads:
        first = await api.http.get(each)
        etag = first.headers["etag"]
        assert etag.startswith('W/"')
        for known in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
            again = await api.http.get(each, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b""), each
            assert again.headers["etag"] == etag
            assert again.headers["vary"] == "Accept-Encoding"
            assert again.headers["cache-control"] == "no-store"
            assert not {name for name in again.headers if name.startswith("content-")}
        for known in ('"other"', etag.strip('W/"'), ""):
            again = await api.http.get(each, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (200, first.content), each
    tags = [(await api.http.get(each)).headers["etag"] for each in reads]
    assert len(set(tags)) == len(tags)


async def test_changed_list_has_another_etag(api: Api, site: Site) -> None:
    magazine(site)
    for _ in range(15):
        await api.run_job("crawl", url=site.url, max_pages=1)
    first = await api.http.get("/v1/jobs")
    assert len(first.content) > MIN_BYTES
    known = {"If-None-Match": first.headers["etag"]}
    assert (await api.http.get("/v1/jobs", headers=known)).status_code == 304
    await api.run_job("crawl", url=site.url, max_pages=1)
    assert (await api.http.get("/v1/jobs", headers=known)).status_code == 200


async def test_running_job_is_never_a_304(api: Api, site: Site) -> None:
    site.page("/", article("Home", "Waits.", "/slow"))
    site.page("/slow", "never", delay=60)
    job_id = await api.start_job("crawl", {"url": site.url})
    for path in (f"/v1/crawl/{job_id}", f"/v1/crawl/{job_id}?include_data=false"):
        reply = await api.http.get(path, headers={"If-None-Match": '"anything"'})
        assert (reply.status_code, "etag" in reply.headers) == (200, False)
    await api.post(f"/v1/jobs/{job_id}/cancel")


async def test_error_replies_are_never_a_304(api: Api) -> None:
    for path, status in (("/v1/crawl/none", 404), ("/v1/jobs?limit=x", 422)):
        reply = await api.http.get(path, headers={"If-None-Match": "*"})
        assert reply.status_code == status
        assert reply.json()["detail"]
        assert reply.headers["cache-control"] == "no-store"
    unauthorized = await api.http.get(
        "/v1/jobs", headers={"Authorization": "", "If-None-Match": "*"}
    )
    assert unauthorized.status_code == 401


async def test_a_proxy_names_the_client_whose_replies_are_compressed(api: Api, site: Site) -> None:
    path = await crawl(api, site)
    bearer = {"Authorization": api.http.headers["Authorization"]}
    with listen("127.0.0.1", 0) as sock:
        server = Server(api.running.app, ConnectionLimiter())
        task = asyncio.create_task(server.serve(sockets=[sock]))
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=base, headers=bearer) as http:
            direct = await http.get(path)
            through = await http.get(path, headers={"X-Forwarded-For": REMOTE_ADDRESS[0]})
            head = await http.head(path, headers={"X-Forwarded-For": REMOTE_ADDRESS[0]})
            known = {"If-None-Match": direct.headers["etag"]}
            unchanged = [await http.get(path, headers=known) for _ in range(3)]
        server.should_exit = True
        await task
    assert "content-encoding" not in direct.headers
    assert through.headers["content-encoding"] == "gzip"
    assert through.content == direct.content
    assert (head.status_code, head.content) == (200, b"")
    assert {(each.status_code, each.content) for each in unchanged} == {(304, b"")}


@pytest.mark.parametrize("size", [0, 1, MIN_BYTES - 1, MIN_BYTES, 70_000, 3_000_000])
@pytest.mark.parametrize("streamed", [False, True])
async def test_compressed_replies_round_trip(size: int, *, streamed: bool) -> None:
    body = random.Random(size).randbytes(size)

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, size, 200_000):
            yield body[begin : begin + 200_000]
            yield b""

    def answer() -> Response:
        if streamed:
            return StreamingResponse(pieces(), media_type="application/json")
        return Response(body, media_type="application/json")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer()(scope, receive, send)

    transport = httpx.ASGITransport(CompressionMiddleware(app), client=REMOTE_ADDRESS)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
        reply = await http.get("/")
        assert reply.content == body
        large = size >= MIN_BYTES or (streamed and size > 0)
        assert ("content-encoding" in reply.headers) == large


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("*", True),
        ("br;q=1, *;q=0", False),
        ("gzip;q=x", False),
        ("x-gzip-like", False),
    ],
)
def test_accept_encoding(header: str, *, accepted: bool) -> None:
    assert accepts_gzip(header) == accepted


async def test_reply_with_etag_is_not_hashed(
    api: Api, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await crawl(api, site)
    hashed: list[int] = []

    def tag(body: bytes) -> str:
        hashed.append(len(body))
        return "W/x"

    monkeypatch.setattr("webdata_nb.service.http.compression.etag_of", tag)
    for _ in range(3):  # from the database, and from memory
        assert (await api.http.get(path)).headers["etag"] != "W/x"
    assert hashed == []
    assert (await api.http.get("/openapi.json")).headers["etag"] == "W/x"
