"""The forward proxy: authentication, egress policy, forwarding, limits."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import ssl
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network

import pytest

from tests.service.web.test_tls import CERTIFICATES, presenting
from tests.service.web.wire import WireServer, page, then_close, then_hang
from webdata_nb.page.errors import FetchError
from webdata_nb.service.runtime.fair_scheduler import current_account, on_behalf_of
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.forward_proxy import ForwardProxy, ProxySession, TrafficLimits

NAMES = {
    "site.test": ["127.0.0.1"],
    "mixed.test": ["127.0.0.1", "10.0.0.1"],
    "private.test": ["10.0.0.1"],
    "metadata.test": ["169.254.169.254"],
}
POLICY = EgressPolicy("team", (ip_network("127.0.0.1/32"),))
FORBIDDEN = """
    private.test mixed.test metadata.test 10.0.0.1 127.0.0.2 169.254.169.254 [::1]
    [::ffff:169.254.169.254] 0x7f000002 2852039166 0
"""


async def look_up(host: str) -> Sequence[str]:
    if host not in NAMES:
        raise OSError(-2, "Name or service not known")
    return NAMES[host]


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    async with ForwardProxy(POLICY, lookup=look_up) as running:
        yield running


def credential(session: ProxySession) -> str:
    pair = f"{session.username}:{session.password}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}"


async def connect(proxy: ForwardProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = proxy.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def ask(proxy: ForwardProxy, *lines: str, body: bytes = b"") -> bytes:
    """Send lines to the proxy and return its whole reply."""
    reader, writer = await connect(proxy)
    writer.write("\r\n".join((*lines, "", "")).encode("latin-1") + body)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def get(proxy: ForwardProxy, session: ProxySession, url: str, *lines: str) -> bytes:
    return await ask(proxy, f"GET {url} HTTP/1.1", credential(session), *lines)


@pytest.mark.parametrize(
    "line",
    [
        "X-None: given",
        "Proxy-Authorization: Basic ",
        "Proxy-Authorization: Basic ????",
        "Proxy-Authorization: Basic bm8tY29sb24=",
        "Proxy-Authorization: Bearer NAME:PASSWORD",
        "Proxy-Authorization: Basic " + base64.b64encode(b"NAME:wrong").decode(),
        "Proxy-Authorization: Basic " + base64.b64encode(b"NAME:").decode(),
    ],
)
async def test_requests_without_credential_are_rejected(
    proxy: ForwardProxy, server: WireServer, line: str
) -> None:
    with proxy.open_session() as session:
        sent = line.replace("NAME", session.username).replace("PASSWORD", session.password)
        for first in (f"GET {server.url()} HTTP/1.1", f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"):
            answer = await ask(proxy, first, sent)
            assert status(answer) == 407
            assert b"Proxy-Authenticate: Basic" in answer
    assert server.connections == 0


async def test_credential_ends_with_session(proxy: ForwardProxy, server: WireServer) -> None:
    server.page("/", b"page")
    with proxy.open_session() as session, proxy.open_session() as neighbour:
        assert status(await get(proxy, session, server.url())) == 200
    assert status(await get(proxy, session, server.url())) == 407
    assert neighbour.username != session.username


async def test_hop_by_hop_headers_are_removed(proxy: ForwardProxy, server: WireServer) -> None:
    server.page("/a", b"the page", "X-Kept: yes", "Keep-Alive: timeout=5", "Connection: keep-alive")
    with proxy.open_session() as session:
        answer = await get(
            proxy,
            session,
            server.url("/a?b=c", host="site.test"),
            "Host: elsewhere.test",
            "Connection: keep-alive, X-Hop",
            "X-Hop: gone",
            "X-Own: kept",
            "Proxy-Connection: keep-alive",
        )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b"the page"
    assert b"X-Kept: yes" in head
    assert b"Connection: close" in head
    assert b"eep-" not in head
    assert server.last.target == "/a?b=c"
    assert server.last.headers == {
        "host": f"site.test:{server.port}",
        "connection": "close",
        "x-own": "kept",
    }


async def test_nothing_after_request_body_is_forwarded(
    proxy: ForwardProxy, server: WireServer
) -> None:
    server.page("/", b"got it")
    with proxy.open_session() as session:
        answer = await ask(
            proxy,
            f"POST {server.url()} HTTP/1.1",
            credential(session),
            "Content-Length: 4",
            body=b"sentGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        )
    assert server.paths() == ["/"]
    assert server.last.body == b"sent"
    # What follows is the end of the connection, with the answer or before it came.
    assert answer == b"" or answer.endswith(b"got it")


async def test_tunnel_relays_both_directions(proxy: ForwardProxy, server: WireServer) -> None:
    server.answers["/"] = page(b"through the tunnel")
    with proxy.open_session() as session:
        reader, writer = await connect(proxy)
        head = f"CONNECT site.test:{server.port} HTTP/1.1\r\n{credential(session)}\r\n\r\n"
        writer.write(head.encode())
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"tunnel")).endswith(b"through the tunnel")
        writer.close()
        assert session.wire_bytes > 100
    assert server.paths() == ["/", "/"]


async def test_end_of_session_closes_tunnels(proxy: ForwardProxy, server: WireServer) -> None:
    with proxy.open_session() as session:
        reader, writer = await connect(proxy)
        head = f"CONNECT site.test:{server.port} HTTP/1.1\r\n{credential(session)}\r\n\r\n"
        writer.write(head.encode())
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(60):
            assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("host", FORBIDDEN.split())
async def test_forbidden_targets_are_refused_without_explanation(
    proxy: ForwardProxy, server: WireServer, host: str
) -> None:
    for first in ("GET http://{}:{}/ HTTP/1.1", "CONNECT {}:{} HTTP/1.1"):
        with proxy.open_session() as session:
            answer = await ask(proxy, first.format(host, server.port), credential(session))
            known = b"502 Bad Gateway" if host in NAMES else b"403 Forbidden"
            assert answer.split(b"\r\n")[0] == b"HTTP/1.1 " + known
            assert answer.endswith(b"\r\n\r\n")
            assert len(session.refusals) == 1
            if host in NAMES:
                unknown = first.format("unknown.test", server.port)
                assert answer == await ask(proxy, unknown, credential(session))
                kinds = {(type(each), each.kind) for each in session.refusals.values()}
                assert kinds == {(FetchError, "dns")}
    assert server.connections == 0


@pytest.mark.parametrize("port", [22, 25, 6379, 5432, 445])
async def test_ports_of_other_protocols_are_refused(proxy: ForwardProxy, port: int) -> None:
    with proxy.open_session() as session:
        answer = await ask(proxy, f"CONNECT site.test:{port} HTTP/1.1", credential(session))
    assert status(answer) == 403


@pytest.mark.parametrize(
    "first",
    [
        "GET / HTTP/1.1",
        "GET https://site.test/ HTTP/1.1",
        "GET ftp://site.test/ HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "CONNECT http://site.test/ HTTP/1.1",
        "CONNECT user@site.test:443 HTTP/1.1",
        "CONNECT site.test:99999 HTTP/1.1",
        "CONNECT site.test:443#x HTTP/1.1",
    ],
)
async def test_invalid_targets_are_bad_requests(proxy: ForwardProxy, first: str) -> None:
    with proxy.open_session() as session:
        assert status(await ask(proxy, first, credential(session))) == 400


@pytest.mark.parametrize(
    "line",
    [
        "Transfer-Encoding: chunked",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: +1",
        "Content-Length: 1, 1",
        "No colon",
        "Space : before",
        " folded: line",
        "X: bare\nHost: break",
        "X: nul\0",
        "X-Large: " + "x" * 70_000,
        "\r\n".join(["X: y"] * 300),
    ],
)
async def test_ambiguous_requests_are_rejected(
    proxy: ForwardProxy, server: WireServer, line: str
) -> None:
    with proxy.open_session() as session:
        answer = await ask(proxy, f"POST {server.url()} HTTP/1.1", credential(session), line)
    assert status(answer) == 400
    assert server.connections == 0


@pytest.mark.parametrize(
    "response", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"]
)
async def test_malformed_response_ends_connection(
    proxy: ForwardProxy, server: WireServer, response: bytes
) -> None:
    server.answers["/"] = then_close(response)
    with proxy.open_session() as session:
        assert await get(proxy, session, server.url()) == b""


async def test_interim_responses_are_dropped(proxy: ForwardProxy, server: WireServer) -> None:
    server.answers["/"] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + page(b"the page")
    with proxy.open_session() as session:
        answer = await get(proxy, session, server.url())
    assert status(answer) == 200
    assert answer.endswith(b"the page")


async def test_unreachable_target_is_a_bad_gateway(proxy: ForwardProxy) -> None:
    closed = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    with proxy.open_session() as session:
        assert status(await get(proxy, session, f"http://127.0.0.1:{port}/")) == 502
        assert status(await get(proxy, session, "http://unknown.test/")) == 502
        assert list(session.refusals) == [("unknown.test", 80)]


async def test_bytes_of_a_page_are_limited(proxy: ForwardProxy, server: WireServer) -> None:
    server.page("/", b"x" * 500_000)
    with proxy.open_session(TrafficLimits(wire_bytes=600_000)) as session:
        assert len(await get(proxy, session, server.url())) > 500_000
        assert len(await get(proxy, session, server.url())) < 200_000


async def test_connections_of_a_page_are_limited(proxy: ForwardProxy, server: WireServer) -> None:
    server.answers["/"] = then_hang(page(b"")[:-2])
    with proxy.open_session(TrafficLimits(connections=1)) as session:
        reader, writer = await connect(proxy)
        head = f"CONNECT site.test:{server.port} HTTP/1.1\r\n{credential(session)}\r\n\r\n"
        writer.write(head.encode())
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        assert status(await get(proxy, session, server.url())) == 429
        with proxy.open_session() as neighbour:
            server.page("/fine", b"fine")
            assert status(await get(proxy, neighbour, server.url("/fine"))) == 200
        writer.close()


async def test_requests_of_a_page_are_limited(proxy: ForwardProxy, server: WireServer) -> None:
    server.page("/", b"fine")
    with proxy.open_session(TrafficLimits(requests=3)) as session:
        answers = [status(await get(proxy, session, server.url())) for _ in range(5)]
        assert answers == [200, 200, 200, 429, 429]
        with proxy.open_session() as neighbour:
            assert status(await get(proxy, neighbour, server.url())) == 200


async def test_idle_connection_is_closed(proxy: ForwardProxy, server: WireServer) -> None:
    server.answers["/"] = then_hang(b"HTTP/1.1 200 OK\r\n\r\npart")
    with proxy.open_session(TrafficLimits(idle_s=0.2)) as session:
        answer = await get(proxy, session, server.url())
    assert answer.endswith(b"part")


async def test_upstream_proxy(server: WireServer) -> None:
    """Addresses are checked; the upstream proxy gets its own credential."""
    absolute = "http://unknown.test/page"
    server.answers[absolute] = page(b"from further on")
    server.answers[f"site.test:{server.port}"] = b"HTTP/1.1 200 OK\r\n\r\n"
    upstream = f"http://me:pass%20word@127.0.0.1:{server.port}"
    async with ForwardProxy(POLICY, lookup=look_up, upstream=upstream) as proxy:
        with proxy.open_session() as session:
            assert (await get(proxy, session, absolute)).endswith(b"from further on")
            sent = base64.b64encode(b"me:pass word").decode()
            assert server.last.headers["proxy-authorization"] == f"Basic {sent}"
            assert status(await get(proxy, session, "http://private.test/")) == 502
            tunnel = f"CONNECT site.test:{server.port} HTTP/1.1"
            reader, writer = await connect(proxy)
            writer.write(f"{tunnel}\r\n{credential(session)}\r\n\r\n".encode())
            assert status(await reader.readuntil(b"\r\n\r\n")) == 200
            writer.close()
            closed = await ask(proxy, "CONNECT nowhere.test:443 HTTP/1.1", credential(session))
            assert status(closed) == 502
    methods = [(request.method, request.target) for request in server.requests]
    assert methods[:2] == [("GET", absolute), ("CONNECT", f"site.test:{server.port}")]


def test_upstream_proxy_must_be_http() -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        ForwardProxy(POLICY, upstream="socks5://127.0.0.1:1080")


async def test_proxy_listens_on_loopback_inside_its_block(proxy: ForwardProxy) -> None:
    assert proxy.url.startswith("http://127.0.0.1:")
    with pytest.raises(RuntimeError, match="async with"):
        _ = ForwardProxy(POLICY).url


async def test_failed_handshake_affects_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        WireServer(tls=presenting("site.pem")) as secure,
        ForwardProxy(POLICY, lookup=look_up, ca_bundle=CERTIFICATES / "ca.pem") as proxy,
    ):
        secure.page("/", b"page")
        with proxy.open_session() as session:
            for speaks_tls in (False, True):
                reader, writer = await connect(proxy)
                tunnel = f"CONNECT site.test:{secure.port} HTTP/1.1"
                writer.write(f"{tunnel}\r\n{credential(session)}\r\n\r\n".encode())
                assert status(await reader.readuntil(b"\r\n\r\n")) == 200
                if speaks_tls:
                    await writer.start_tls(unchecked(), server_hostname="site.test")
                writer.write(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
                head = await reader.readuntil(b"page") if speaks_tls else await reader.read()
                assert head.startswith(b"HTTP/1.1 200") is speaks_tls
                writer.close()
    gc.collect()
    assert not caplog.records


def unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_lookups_are_done_for_the_account_of_the_page() -> None:
    accounts: list[str] = []

    async def record(host: str) -> Sequence[str]:
        accounts.append(current_account())
        return await look_up(host)

    with on_behalf_of("alice"):
        running = ForwardProxy(POLICY, lookup=record)
        await running.__aenter__()
    try:
        with on_behalf_of("bob"), running.open_session() as session:
            reply = await ask(running, "GET http://private.test/ HTTP/1.1", credential(session))
        assert status(reply) == 502
        assert accounts == ["bob"]
    finally:
        await running.__aexit__(None, None, None)
