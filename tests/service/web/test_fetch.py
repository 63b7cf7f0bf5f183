from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.service.web.decompression_bombs import BOMBS, MIB
from tests.service.web.wire import (
    Answer,
    WireServer,
    page,
    then_close,
    then_hang,
    then_reset,
)
from webdata_nb.page.content.page_source import FetchedResponse, Redirect
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchLimits, FetchRequest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


async def failure(fetcher: Fetcher, request: FetchRequest | str) -> FetchError:
    fetch_request = FetchRequest(request) if isinstance(request, str) else request
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(fetch_request)
    return caught.value


async def test_page_is_fetched(server: WireServer, fetcher: Fetcher) -> None:
    url = server.page("/a", b"<p>hello", "Content-Type: text/html", "X-Twice: 1", "x-twice: 2")
    fetched = await fetcher.fetch(FetchRequest(url + "?q=1#part"))
    assert fetched.url == fetched.final_url == url + "?q=1"
    assert (fetched.status, fetched.body, fetched.wire_bytes) == (200, b"<p>hello", 8)
    assert fetched.header("CONTENT-TYPE") == "text/html"
    assert fetched.header("x-none") is None
    assert [pair for pair in fetched.headers if pair[0] == "x-twice"] == [
        ("x-twice", "1"),
        ("x-twice", "2"),
    ]
    assert (fetched.redirects, fetched.stopped) == ((), None)


async def test_request_headers(server: WireServer, fetcher: Fetcher) -> None:
    await fetcher.fetch(FetchRequest(server.page("/a b|c'ü", b"x")))
    sent = server.last
    assert (sent.method, sent.target) == ("GET", "/a%20b|c'%C3%BC")
    assert sent.headers == {
        "host": f"127.0.0.1:{server.port}",
        "user-agent": "webdata-tests/1.0",
        "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "accept-encoding": "gzip, deflate, br, zstd",
    }


async def test_job_headers_and_cookies_are_sent(server: WireServer, fetcher: Fetcher) -> None:
    request = FetchRequest(
        server.page("/", b"x"),
        headers={"X-Token": "t", "user-agent": "mine", "Accept-Language": "de"},
        cookies={"a": "1", "b": "x=y z"},
        accept="application/json",
    )
    await fetcher.fetch(request)
    sent = server.last.headers
    assert (sent["x-token"], sent["user-agent"], sent["accept-language"]) == ("t", "mine", "de")
    assert sent["cookie"] == "a=1; b=x=y z"
    assert sent["accept"] == "application/json"


async def test_job_accept_header_takes_precedence(server: WireServer, fetcher: Fetcher) -> None:
    request = FetchRequest(server.page("/", b"x"), headers={"accept": "a/b"}, accept="c/d")
    await fetcher.fetch(request)
    assert server.last.headers["accept"] == "a/b"


async def test_cookie_header_and_cookies_are_combined(server: WireServer, fetcher: Fetcher) -> None:
    request = FetchRequest(server.page("/", b"x"), headers={"cookie": "a=1"}, cookies={"b": "2"})
    await fetcher.fetch(request)
    assert server.last.headers["cookie"] == "a=1; b=2"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "other.test"},
        {"Content-Length": "5"},
        {"transfer-encoding": "chunked"},
        {"Connection": "keep-alive"},
        {"Proxy-Authorization": "Basic x"},
        {"X-Split": "secret\r\nX-Other: 1"},
        {"X\r\nY": "secret"},
        {"X Y": "secret"},
        {"": "secret"},
        {"X-Nul": "secret\0"},
    ],
)
async def test_reserved_headers_are_refused(
    server: WireServer, fetcher: Fetcher, headers: dict[str, str]
) -> None:
    with pytest.raises(EgressDenied) as caught:
        await fetcher.fetch(FetchRequest(server.page("/", b"x"), headers=headers))
    assert "secret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize("cookies", [{"a": "1; b=2"}, {"a": "1\r\nX: y"}, {"a b": "1"}, {"": "1"}])
async def test_invalid_cookies_are_refused(
    server: WireServer, fetcher: Fetcher, cookies: dict[str, str]
) -> None:
    with pytest.raises(EgressDenied):
        await fetcher.fetch(FetchRequest(server.page("/", b"x"), cookies=cookies))
    assert server.requests == []


async def test_cookies_are_not_kept_between_pages(server: WireServer, fetcher: Fetcher) -> None:
    url = server.page("/", b"x", "Set-Cookie: session=1; Path=/")
    for _ in range(2):
        await fetcher.fetch(
            FetchRequest(url, headers={"X-Once": "1"} if not server.requests else {})
        )
    assert "cookie" not in server.last.headers
    assert "x-once" not in server.last.headers
    assert server.connections == 1


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "304 Not Modified", "429 Slow"])
async def test_error_status_is_a_result(server: WireServer, fetcher: Fetcher, status: str) -> None:
    fetched = await fetcher.fetch(FetchRequest(server.page("/", b"", status=status)))
    assert fetched.status == int(status[:3])


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"hello" * 9000, mtime=0)),
        ("deflate", zlib.compress(b"hello" * 9000)),
    ],
)
async def test_compressed_page_is_decoded(
    server: WireServer, fetcher: Fetcher, coding: str, body: bytes
) -> None:
    fetched = await fetcher.fetch(
        FetchRequest(server.page("/", body, f"Content-Encoding: {coding}"))
    )
    assert fetched.body == b"hello" * 9000
    assert fetched.wire_bytes == len(body)


async def test_empty_body_needs_no_decoding(server: WireServer, fetcher: Fetcher) -> None:
    fetched = await fetcher.fetch(FetchRequest(server.page("/", b"", "Content-Encoding: gzip")))
    assert fetched.body == b""


async def test_chunked_page(server: WireServer, fetcher: Fetcher) -> None:
    server.answers["/"] = (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    )
    fetched = await fetcher.fetch(FetchRequest(server.url()))
    assert (fetched.body, fetched.wire_bytes) == (b"hello!", 6)


async def test_page_without_length_ends_with_connection(
    server: WireServer, fetcher: Fetcher
) -> None:
    server.answers["/"] = then_close(b"HTTP/1.0 200 OK\r\n\r\nhello")
    assert (await fetcher.fetch(FetchRequest(server.url()))).body == b"hello"


async def test_post_and_head(server: WireServer, fetcher: Fetcher) -> None:
    url = server.page("/", b"done")
    await fetcher.fetch(FetchRequest(url, method="POST", body=b'{"a": 1}'))
    assert (server.last.method, server.last.body) == ("POST", b'{"a": 1}')
    server.answers["/"] = HEAD + b"Content-Length: 99999999\r\n\r\n"
    fetched = await fetcher.fetch(FetchRequest(url, method="HEAD"))
    assert (fetched.status, fetched.body) == (200, b"")


@pytest.mark.parametrize(
    ("stage", "data"),
    [
        ("before the status", b""),
        ("within the status", b"HTTP/1.1 20"),
        ("within a header", HEAD + b"Content-Len"),
        ("within the body", HEAD + b"Content-Length: 100\r\n\r\nhalf a page"),
        ("before the last chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        ("within a chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhello"),
    ],
)
@pytest.mark.parametrize("end", [then_close, then_reset])
async def test_cut_connection_fails(
    server: WireServer,
    fetcher: Fetcher,
    stage: str,
    data: bytes,
    end: Callable[[bytes], Answer],
) -> None:
    server.answers["/"] = end(data)
    for _ in range(3):
        error = await failure(fetcher, server.url())
        assert error.kind == "reset", stage
        assert "closed the connection before its answer was complete" in str(error)
    assert (await fetcher.fetch(FetchRequest(server.page("/well", b"whole")))).body == b"whole"


BODY = b"<html>" * 1000


def in_pieces(*pieces: bytes) -> Answer:
    """Say this with pauses in which the client reads."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)

    return answer


@pytest.mark.parametrize("status", ["304 Not Modified", "204 No Content"])
@pytest.mark.parametrize(
    "headers", [(), ("Transfer-Encoding: chunked",), ("Content-Length: 6000",)]
)
@pytest.mark.parametrize("in_one", [True, False])
async def test_a_body_that_http_forbids_is_no_response(
    server: WireServer, fetcher: Fetcher, status: str, headers: tuple[str, ...], *, in_one: bool
) -> None:
    head = "\r\n".join((f"HTTP/1.1 {status}", *headers, "ETag: 1", "", "")).encode()
    server.answers["/"] = head + BODY if in_one else in_pieces(head[:20], head[20:], BODY)
    for _ in range(3):
        fetched = await fetcher.fetch(FetchRequest(server.url()))
        assert (fetched.status, fetched.body) == (int(status[:3]), b"")
        assert fetched.header("etag") == "1"
        assert (await fetcher.fetch(FetchRequest(server.page("/page", b"page")))).body == b"page"


async def test_a_reply_to_head_has_no_body(server: WireServer, fetcher: Fetcher) -> None:
    url = server.page("/", BODY)
    for _ in range(3):
        fetched = await fetcher.fetch(FetchRequest(url, method="HEAD"))
        assert (fetched.status, fetched.body) == (200, b"")
    assert (await fetcher.fetch(FetchRequest(url))).body == BODY


async def test_connections_without_forbidden_bodies_are_used_again(
    server: WireServer, fetcher: Fetcher
) -> None:
    server.answers["/same"] = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    server.answers["/hints"] = b"HTTP/1.1 103 Hints\r\n\r\n" + HEAD + b"Content-Length: 1\r\n\r\na"
    server.answers["/head"] = HEAD + b"Content-Length: 10\r\n\r\n"
    for path, method in (("/same", "GET"), ("/hints", "GET"), ("/head", "HEAD"), ("/same", "GET")):
        await fetcher.fetch(FetchRequest(server.url(path), method=method))
    assert server.connections == 1


async def test_truncated_compressed_page_fails(server: WireServer, fetcher: Fetcher) -> None:
    half = gzip.compress(b"hello" * 9000)[:-20]
    error = await failure(fetcher, server.page("/", half, "Content-Encoding: gzip"))
    assert error.kind == "decode"
    assert "ends before its end mark" in str(error)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        HEAD + b"Content-Length: nonsense\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nXYZ\r\nhello\r\n0\r\n\r\n",
        HEAD + b"X-Large: " + b"a" * 100_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100)) + b"\r\n",
        HEAD + b"X: 1\r\n" * 1000 + b"\r\n",
    ],
)
async def test_invalid_http_fails(server: WireServer, fetcher: Fetcher, data: bytes) -> None:
    server.answers["/"] = then_close(data)
    error = await failure(fetcher, server.url())
    assert error.kind == "protocol"
    assert "aaa" not in str(error)


async def test_long_header_is_accepted(server: WireServer, fetcher: Fetcher) -> None:
    long = "default-src 'self' " * 1500
    fetched = await fetcher.fetch(FetchRequest(server.page("/", b"x", f"X-Policy: {long}")))
    assert fetched.header("x-policy") == long.strip()


async def test_header_values_in_latin1(server: WireServer, fetcher: Fetcher) -> None:
    server.answers["/"] = HEAD + b"X-Name: caf\xe9\r\nContent-Length: 0\r\n\r\n"
    assert (await fetcher.fetch(FetchRequest(server.url()))).header("x-name") == "café"


@pytest.mark.parametrize("path", ["/announced", "/chunked"])
async def test_wire_limit(server: WireServer, fetcher: Fetcher, path: str) -> None:
    server.page("/announced", b"a" * 2_000_000)
    chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    server.answers["/chunked"] = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 30
    limits = FetchLimits(wire_bytes=1_000_000)
    error = await failure(fetcher, FetchRequest(server.url(path), limits=limits))
    assert error.kind == "too_large"
    assert "1,000,000 bytes" in str(error)


async def test_decoded_limit_applies_without_coding(server: WireServer, fetcher: Fetcher) -> None:
    request = FetchRequest(server.page("/", b"a" * 100), limits=FetchLimits(decoded_bytes=99))
    assert (await failure(fetcher, request)).kind == "too_large"


@pytest.mark.parametrize("name", BOMBS)
async def test_compression_bomb_is_stopped(server: WireServer, fetcher: Fetcher, name: str) -> None:
    coding, pieces = BOMBS[name]

    async def explode(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + f"Content-Encoding: {coding}\r\n\r\n".encode())
        for piece in pieces():
            writer.write(piece)
            await writer.drain()
        writer.close()

    server.answers["/"] = explode
    request = FetchRequest(server.url(), limits=FetchLimits(decoded_bytes=5 * MIB))
    assert (await failure(fetcher, request)).kind == "too_large"


async def test_unknown_coding_fails(server: WireServer, fetcher: Fetcher) -> None:
    error = await failure(fetcher, server.page("/", b"x", "Content-Encoding: dcz"))
    assert (error.kind, "'dcz'" in str(error)) == ("decode", True)


@pytest.mark.parametrize(
    ("data", "timeout_s", "what"),
    [
        (b"", 0.2, "did not answer within 0.2 s"),
        (HEAD, 0.2, "did not answer within 0.2 s"),
        (HEAD + b"Content-Length: 9\r\n\r\nhell", 2.0, r"whole page within 2 s \(4 bytes"),
    ],
)
async def test_deadline_covers_every_stage(
    server: WireServer, fetcher: Fetcher, data: bytes, timeout_s: float, what: str
) -> None:
    server.answers["/"] = then_hang(data)
    with pytest.raises(FetchError, match=what) as caught:
        await fetcher.fetch(FetchRequest(server.url(), timeout_s=timeout_s))
    assert caught.value.kind == "timeout"


async def test_slow_body_does_not_outlast_deadline(server: WireServer, fetcher: Fetcher) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.01)

    server.answers["/"] = drip
    assert (await failure(fetcher, FetchRequest(server.url(), timeout_s=0.2))).kind == "timeout"


async def test_limits_set_deadline(server: WireServer, fetcher: Fetcher) -> None:
    server.answers["/"] = then_hang(b"")
    request = FetchRequest(server.url(), limits=FetchLimits(timeout_s=0.1))
    assert "within 0.1 s" in str(await failure(fetcher, request))


async def test_timeout_of_allow_hop_is_not_the_deadline(
    server: WireServer, fetcher: Fetcher
) -> None:
    async def overloaded(url: str) -> str | None:
        raise TimeoutError(url)

    url = server.redirect("/", "/next")
    with pytest.raises(TimeoutError, match="/next"):
        await fetcher.fetch(FetchRequest(url, allow_hop=overloaded))


async def test_refused_connection_fails(fetcher: Fetcher) -> None:
    async with WireServer() as gone:
        url = gone.url()
    error = await failure(fetcher, url)
    assert error.kind == "connect"
    assert "127.0.0.1 could not be reached" in str(error)


@pytest.mark.parametrize("end", [then_close, then_reset])
async def test_stale_connection_is_replaced(
    server: WireServer, fetcher: Fetcher, end: Callable[[bytes], Answer]
) -> None:
    server.answers["/"] = [page(b"first"), end(b""), page(b"second")]
    url = server.url()
    assert (await fetcher.fetch(FetchRequest(url))).body == b"first"
    assert (await fetcher.fetch(FetchRequest(url))).body == b"second"
    assert len(server.requests) == 3


async def test_post_is_never_sent_twice(server: WireServer, fetcher: Fetcher) -> None:
    server.answers["/"] = [page(b"first"), then_close(b""), page(b"second")]
    request = FetchRequest(server.url(), method="POST", body=b"once")
    await fetcher.fetch(request)
    assert (await failure(fetcher, request)).kind == "reset"
    assert len(server.requests) == 2


async def test_connections_are_reused(server: WireServer, fetcher: Fetcher) -> None:
    url = server.page("/", b"x" * 45_000)
    for _ in range(5):
        await fetcher.fetch(FetchRequest(url))
    assert server.connections == 1


async def test_concurrent_pages(server: WireServer, fetcher: Fetcher) -> None:
    urls = [server.page(f"/{n}", b"%d" % n) for n in range(40)]
    fetched = await asyncio.gather(*(fetcher.fetch(FetchRequest(url)) for url in urls))
    assert [one.body for one in fetched] == [b"%d" % n for n in range(40)]


async def test_cancelled_fetch_closes_connection(server: WireServer, fetcher: Fetcher) -> None:
    requested = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        requested.set()
        await writer.wait_closed()

    server.answers["/"] = hang
    task = asyncio.create_task(fetcher.fetch(FetchRequest(server.url())))
    await requested.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await fetcher.fetch(FetchRequest(server.page("/well", b"x")))).body == b"x"


async def test_environment_proxies_are_ignored(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Fetcher(EgressPolicy("local"), user_agent="x") as fetcher:
        assert (await fetcher.fetch(FetchRequest(server.page("/", b"x")))).body == b"x"


async def test_invalid_url_fails(fetcher: Fetcher) -> None:
    assert (await failure(fetcher, "example.com")).kind == "bad_url"


async def test_fetcher_works_only_inside_its_block() -> None:
    fetcher = Fetcher(EgressPolicy("local"), user_agent="x")
    with pytest.raises(RuntimeError, match="async with"):
        await fetcher.fetch(FetchRequest("http://example.com/"))
    async with fetcher:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await fetcher.fetch(FetchRequest("http://example.com/"))


def test_values_are_frozen() -> None:
    fetched = FetchedResponse("u", "u", 200, None, b"", (Redirect("u", 302),), datetime.now(UTC))
    with pytest.raises(AttributeError):
        fetched.status = 404  # type: ignore[misc]
