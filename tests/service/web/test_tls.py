from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.service.web.wire import WireServer
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest, tls_context

CERTIFICATES = Path(__file__).parent / "certificates"


def presenting(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / name)
    return context


async def resolve_to_loopback(_host: str) -> Sequence[str]:
    return ["127.0.0.1"]


def fetcher_for(*, trusting: str | None = "ca.pem") -> Fetcher:
    return Fetcher(
        EgressPolicy("local"),
        user_agent="x",
        ca_bundle=None if trusting is None else CERTIFICATES / trusting,
        lookup=resolve_to_loopback,
    )


async def failure(fetcher: Fetcher, url: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(FetchRequest(url))
    return caught.value


@pytest.mark.parametrize("host", ["site.test", "127.0.0.1", "site.test."])
async def test_valid_certificate_is_accepted(host: str) -> None:
    names: list[str | None] = []
    context = presenting("site.pem")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with WireServer(tls=context) as server, fetcher_for() as fetcher:
        server.page("/", b"secure")
        assert (await fetcher.fetch(FetchRequest(server.url(host=host)))).body == b"secure"
        assert server.last.headers["host"] == f"{host.rstrip('.')}:{server.port}"
    assert names == [None if host == "127.0.0.1" else "site.test"]


@pytest.mark.parametrize(
    ("certificate", "host", "trusting", "what"),
    [
        ("site.pem", "other.test", "ca.pem", "not valid for 'other.test'"),
        ("expired.pem", "site.test", "ca.pem", "certificate has expired"),
        ("site.pem", "site.test", None, "unable to get local issuer"),
    ],
)
async def test_untrusted_certificate_fails(
    certificate: str, host: str, trusting: str | None, what: str
) -> None:
    async with (
        WireServer(tls=presenting(certificate)) as server,
        fetcher_for(trusting=trusting) as fetcher,
    ):
        error = await failure(fetcher, server.url(host=host))
        assert server.requests == []
    assert error.kind == "tls"
    assert f"certificate of {host} is not trusted" in str(error)
    assert what in str(error)


async def test_server_without_tls_fails() -> None:
    async def complain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(complain, "127.0.0.1", 0)
    port = plain.sockets[0].getsockname()[1]
    async with plain, fetcher_for() as fetcher:
        error = await failure(fetcher, f"https://127.0.0.1:{port}/")
    assert error.kind == "tls"
    assert "No secure connection to 127.0.0.1" in str(error)


async def test_credentials_are_not_sent_from_https_to_http(server: WireServer) -> None:
    async with WireServer(tls=presenting("site.pem")) as secure, fetcher_for() as fetcher:
        plain = server.page("/", b"x")
        start = secure.redirect("/", plain)
        await fetcher.fetch(FetchRequest(start, headers={"X-Token": "t"}, cookies={"a": "1"}))
        assert secure.last.headers["x-token"] == "t"
    assert not {"x-token", "cookie"} & server.last.headers.keys()


async def test_missing_bundle_fails(tmp_path: Path) -> None:
    fetcher = Fetcher(EgressPolicy("local"), user_agent="x", ca_bundle=tmp_path / "none.pem")
    with pytest.raises(FileNotFoundError):
        await fetcher.__aenter__()


def test_context_is_shared_until_the_bundle_changes(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes((CERTIFICATES / "ca.pem").read_bytes())
    assert tls_context(bundle) is tls_context(bundle)
    assert tls_context() is tls_context()
    assert tls_context() is not tls_context(bundle)
    before = tls_context(bundle)
    bundle.write_bytes(bundle.read_bytes() + b"\n")
    assert tls_context(bundle) is not before
    bundle.unlink()
    with pytest.raises(OSError, match="No such file"):
        tls_context(bundle)
