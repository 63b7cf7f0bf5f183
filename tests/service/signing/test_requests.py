"""Requests to real servers, which verify the signatures as sites do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.exceptions import InvalidSignature

from tests.service.signing.keys import AGENT, new_key_file, published
from tests.service.signing.verifier import NotVerified, Verified, Verifier, members
from tests.service.web.test_tls import CERTIFICATES, presenting
from tests.service.web.test_upstream_proxy import TunnelProxy
from tests.service.web.wire import ReceivedRequest, WireServer, page, then_reset
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.service.signing.request_signer import (
    SIGNATURE_HEADERS,
    CurrentSigningKeys,
    RequestSigner,
    SigningKeyFile,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle

GUIDE: Final = Path(__file__).parents[3] / "docs" / "guide" / "signed-requests.md"


async def resolve_to_loopback(_host: str) -> Sequence[str]:
    return ["127.0.0.1"]


@dataclass(slots=True)
class Crawler:
    """What fetches pages, with its keys; `direct` is the fetcher that providers share."""

    polite: PoliteFetcher
    direct: Fetcher
    keys: SigningKeyFile
    verifier: Verifier = field(init=False)

    def __post_init__(self) -> None:
        self.verifier = Verifier(lambda _agent: published(self.keys, time.time()))

    async def fetch(self, url: str, **options: object) -> FetchedResponse:
        with self.polite.deadline(20) as deadline:
            return await self.polite.fetch(FetchRequest(url, **options), deadline)  # type: ignore[arg-type]

    def verify(self, request: ReceivedRequest) -> Verified:
        return self.verifier.verify_request(
            request.method, request.target, request.headers, time.time()
        )


@asynccontextmanager
async def crawler(folder: Path, **options: object) -> AsyncIterator[Crawler]:
    keys = new_key_file(folder)
    signer = RequestSigner(CurrentSigningKeys(keys))
    async with AsyncExitStack() as stack:
        fetcher = Fetcher(
            EgressPolicy("local"),
            user_agent="webdata-tests/1.0",
            lookup=resolve_to_loopback,
            **options,  # type: ignore[arg-type]
        )
        await stack.enter_async_context(fetcher)
        yield Crawler(PoliteFetcher(fetcher, HostThrottle(), signer=signer), fetcher, keys)


@pytest.fixture
async def signing(tmp_path: Path) -> AsyncIterator[Crawler]:
    async with crawler(tmp_path) as opened:
        yield opened


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with WireServer() as running:
        yield running


def is_signed(request: ReceivedRequest) -> bool:
    sent = SIGNATURE_HEADERS & request.headers.keys()
    assert sent in (set(), SIGNATURE_HEADERS)
    return bool(sent)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("HEAD", "/a/b"),
        ("GET", "/caf%C3%A9;v=1?q=%22x%22&r=a+b"),
        ("GET", "/%7Euser//x?"),
        ("GET", '/a"b\\c'),
    ],
)
async def test_a_site_verifies_each_request(
    signing: Crawler, server: WireServer, method: str, path: str
) -> None:
    for host in ("127.0.0.1", "Site.test", "xn--bcher-kva.test", "site.test."):
        await signing.fetch(server.url(path, host=host), method=method)
        verified = signing.verify(server.last)
        assert verified.agent == AGENT
        assert {'"@method"', '"@authority"', '"@path"'} < set(verified.covered)
        assert server.last.method == method
    assert len(signing.verifier.nonces) == 4


async def test_a_signature_is_of_no_use_for_another_request(
    signing: Crawler, server: WireServer
) -> None:
    await signing.fetch(server.url("/page", host="one.test"))
    sent = server.last
    others = [
        (sent.method, sent.target, sent.headers | {"host": f"two.test:{server.port}"}),
        (sent.method, sent.target, sent.headers | {"host": "one.test"}),
        ("POST", sent.target, sent.headers),
        (sent.method, "/other", sent.headers),
        (
            sent.method,
            sent.target,
            sent.headers | {"signature-agent": 'sig1="https://other.example.com"'},
        ),
    ]
    for method, target, headers in others:
        with pytest.raises(NotVerified):
            signing.verifier.verify_request(method, target, headers, time.time())
    assert signing.verify(sent).agent == AGENT
    with pytest.raises(NotVerified, match="nonce"):
        signing.verify(sent)


async def test_each_hop_of_a_redirect_has_its_own_signature(
    signing: Crawler, server: WireServer
) -> None:
    async with WireServer() as other:
        other.redirect("/b", server.url("/c", host="three.test"))
        server.redirect("/a", "/a2")
        server.redirect("/a2", other.url("/b", host="two.test"))
        server.page("/c", b"here")
        fetched = await signing.fetch(server.url("/a", host="one.test"))
        hops = [*server.requests[:2], *other.requests, *server.requests[2:]]
    assert fetched.body == b"here"
    assert [hop.target for hop in hops] == ["/a", "/a2", "/b", "/c"]
    assert [signing.verify(hop).agent for hop in hops] == [AGENT] * 4
    assert len({hop.headers["signature"] for hop in hops}) == 4


async def test_a_request_that_is_repeated_on_a_new_connection_is_signed_anew(
    signing: Crawler, server: WireServer
) -> None:
    server.answers["/"] = [page(b"first"), then_reset(b""), page(b"second")]
    assert (await signing.fetch(server.url())).body == b"first"
    assert (await signing.fetch(server.url())).body == b"second"
    assert server.paths() == ["/", "/", "/"]
    for request in server.requests:
        signing.verify(request)


@pytest.mark.parametrize(
    "credentials",
    [
        {"headers": {"Authorization": "Bearer b"}},
        {"headers": {"x-key": "k"}},
        {"headers": {"Accept": "*/*", "Cookie": "a=1"}},
        {"cookies": {"session": "s"}},
        {"headers": {"Signature-Agent": 'sig1="https://bot.example.com"'}},
    ],
)
async def test_requests_with_headers_of_a_user_are_not_signed(
    signing: Crawler, server: WireServer, credentials: dict[str, dict[str, str]]
) -> None:
    async with WireServer() as other:
        start = server.redirect("/", "/again")
        server.redirect("/again", other.page("/elsewhere", b"x"))
        await signing.fetch(start, **credentials)
        # The other origin gets no header of the user, and may know who asks.
        assert signing.verify(other.last).agent == AGENT
    for request in server.requests:
        assert len(SIGNATURE_HEADERS & request.headers.keys()) <= len(
            credentials.get("headers", {})
        )
        assert not {"signature", "signature-input"} & request.headers.keys()


async def test_headers_that_name_nobody_and_cookies_of_redirects_change_nothing(
    signing: Crawler, server: WireServer
) -> None:
    start = server.redirect("/", "/next", "Set-Cookie: seen=1")
    headers = {"Accept-Language": "de", "USER-AGENT": "mine/1.0", "Accept": "text/html"}
    await signing.fetch(start, headers=headers)
    assert server.last.headers["cookie"] == "seen=1"
    assert [signing.verify(request).agent for request in server.requests] == [AGENT, AGENT]


async def test_requests_beside_crawls_are_not_signed(signing: Crawler, server: WireServer) -> None:
    """Providers, language models, creatives and webhooks use the fetcher itself."""
    await signing.direct.fetch(FetchRequest(server.page("/", b"x")))
    assert not is_signed(server.last)


async def test_a_proxy_gets_no_signature_of_a_request_in_a_tunnel(tmp_path: Path) -> None:
    async with (
        WireServer(tls=presenting("site.pem")) as secure,
        TunnelProxy(secure) as proxy,
        crawler(tmp_path, proxy=proxy.url, ca_bundle=CERTIFICATES / "ca.pem") as signing,
    ):
        secure.page("/", b"secure")
        await signing.fetch(f"https://site.test:{secure.port}/")
        await signing.fetch(f"https://127.0.0.1:{secure.port}/")
        assert all("ignature" not in head for head in proxy.heads)
        assert len(proxy.heads) == 2
        authorities = [request.headers["host"] for request in secure.requests]
        assert authorities == [f"site.test:{secure.port}", f"127.0.0.1:{secure.port}"]
        for request in secure.requests:
            signing.verify(request)


async def test_messages_of_errors_have_no_signature(signing: Crawler, server: WireServer) -> None:
    server.answers["/"] = b"nonsense\r\n\r\n"
    with pytest.raises(FetchError) as caught:
        await signing.fetch(server.url())
    sent = members(server.last.headers["signature"])["sig1"].strip(":")
    assert sent not in f"{caught.value!r} {caught.value}"


async def test_the_code_of_the_guide_verifies_a_request(
    signing: Crawler, server: WireServer
) -> None:
    code = GUIDE.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    signer_of = namespace["signer_of"]
    await signing.fetch(server.url("/caf%C3%A9?q=1", host="site.test"))
    sent, now = server.last, time.time()
    directory = published(signing.keys, now)
    assert signer_of(sent.method, sent.target, sent.headers, directory, now) == AGENT
    for method, target, headers, at in (
        ("POST", sent.target, sent.headers, now),
        (sent.method, "/other", sent.headers, now),
        (sent.method, sent.target, sent.headers | {"host": "other.test"}, now),
        (sent.method, sent.target, sent.headers, now + 301),
        (sent.method, sent.target, sent.headers, now - 10),
    ):
        with pytest.raises((ValueError, InvalidSignature)):
            signer_of(method, target, headers, directory, at)
