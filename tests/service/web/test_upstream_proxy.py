from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network
from types import TracebackType
from typing import Self

import pytest

from tests.service.web.test_tls import CERTIFICATES, presenting
from tests.service.web.wire import WireServer, page
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest


class TunnelProxy:
    """A proxy that opens every tunnel to one server, and answers plain requests itself."""

    def __init__(self, behind: WireServer, *, tls: ssl.SSLContext | None = None) -> None:
        self._behind = behind
        self._tls = tls
        self.heads: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if head.startswith("CONNECT forbidden.test"):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        elif head.startswith("CONNECT"):
            await self._tunnel(reader, writer)
        else:
            writer.write(page(b"by proxy", "Connection: close"))
        writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._behind.port)
        async with asyncio.TaskGroup() as copying:
            copying.create_task(_copy(reader, far_writer))
            copying.create_task(_copy(far_reader, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()


async def look_up(host: str) -> Sequence[str]:
    if host == "private.test":
        return ["10.0.0.1"]
    raise OSError(-2, "Name or service not known")


@pytest.fixture
async def secure() -> AsyncIterator[WireServer]:
    async with WireServer(tls=presenting("site.pem")) as running:
        yield running


@pytest.fixture
async def proxy(secure: WireServer) -> AsyncIterator[TunnelProxy]:
    async with TunnelProxy(secure) as running:
        yield running


def fetcher_by(proxy_url: str, policy: EgressPolicy) -> Fetcher:
    return Fetcher(
        policy,
        user_agent="x",
        proxy=proxy_url,
        ca_bundle=CERTIFICATES / "ca.pem",
        lookup=look_up,
    )


async def test_http_pages_are_requested_from_proxy(proxy: TunnelProxy) -> None:
    async with fetcher_by(proxy.url, EgressPolicy("local")) as fetcher:
        fetched = await fetcher.fetch(FetchRequest("http://nowhere.test/a?b"))
    assert fetched.body == b"by proxy"
    assert proxy.heads[0].startswith("GET http://nowhere.test/a?b HTTP/1.1\r\n")


async def test_https_pages_use_a_tunnel(proxy: TunnelProxy, secure: WireServer) -> None:
    secure.page("/", b"secret page")
    async with fetcher_by(proxy.url, EgressPolicy("team")) as fetcher:
        fetched = await fetcher.fetch(FetchRequest("https://site.test/", headers={"X-Token": "t"}))
    assert fetched.body == b"secret page"
    assert proxy.heads[0].startswith("CONNECT site.test:443 HTTP/1.1\r\n")
    assert "token" not in proxy.heads[0].lower()


async def test_proxy_credentials_are_sent(proxy: TunnelProxy) -> None:
    with_user = proxy.url.replace("http://", "http://ann:pw@")
    async with fetcher_by(with_user, EgressPolicy("local")) as fetcher:
        await fetcher.fetch(FetchRequest("http://nowhere.test/"))
    token = base64.b64encode(b"ann:pw").decode()
    assert f"Proxy-Authorization: Basic {token}" in proxy.heads[0]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://private.test/", "dns"),
        ("http://10.0.0.1/", "refused"),
        ("http://[::ffff:10.0.0.1]/", "refused"),
    ],
)
async def test_private_hosts_are_refused_with_proxy_in_team_mode(
    proxy: TunnelProxy, url: str, kind: str
) -> None:
    async with fetcher_by(proxy.url, EgressPolicy("team")) as fetcher:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(FetchRequest(url))
    assert caught.value.kind == kind
    assert proxy.heads == []


async def test_metadata_is_refused_with_proxy(proxy: TunnelProxy) -> None:
    async with fetcher_by(proxy.url, EgressPolicy("local")) as fetcher:
        with pytest.raises(EgressDenied):
            await fetcher.fetch(FetchRequest("http://169.254.169.254/"))
    assert proxy.heads == []


async def test_proxy_itself_may_have_a_private_address(proxy: TunnelProxy) -> None:
    policy = EgressPolicy("team", (ip_network("192.168.0.0/16"),))
    async with fetcher_by(proxy.url, policy) as fetcher:
        assert (await fetcher.fetch(FetchRequest("http://nowhere.test/"))).status == 200


async def test_proxy_refusal_fails(proxy: TunnelProxy) -> None:
    async with fetcher_by(proxy.url, EgressPolicy("local")) as fetcher:
        with pytest.raises(FetchError, match=r"no way to forbidden\.test \(status 403\)") as caught:
            await fetcher.fetch(FetchRequest("https://forbidden.test/"))
    assert caught.value.kind == "connect"


async def test_unreachable_proxy_fails() -> None:
    async with WireServer() as gone:
        url = gone.url()
    async with fetcher_by(url, EgressPolicy("local")) as fetcher:
        with pytest.raises(FetchError, match="The proxy could not be reached") as caught:
            await fetcher.fetch(FetchRequest("http://nowhere.test/"))
    assert caught.value.kind == "connect"


@pytest.mark.parametrize("proxy_url", ["socks5://127.0.0.1:1080", "127.0.0.1:3128", "http://"])
def test_invalid_proxy_url_is_rejected(proxy_url: str) -> None:
    with pytest.raises(ValueError, match="A proxy is given as"):
        Fetcher(EgressPolicy("local"), user_agent="x", proxy=proxy_url)
