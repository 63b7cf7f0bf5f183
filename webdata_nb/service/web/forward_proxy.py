"""Gives browsers network access through a forward proxy on loopback, under the egress policy.

A browser resolves names and follows redirects itself, unseen by the fetcher. This proxy is
therefore its only network access. It treats every connection as the fetcher treats a hop: it
checks the policy, resolves the name, checks every address, and connects to a checked address.

Subresources of a rendered page share the pauses of pages, not their queue. A page's slot at its
host covers them: they do not queue behind other pages, and a crawl delay of seconds for each of
fifty files would outlast any page. An overloaded host is left alone for as long as it asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import UrlParts, canonical_url, split_url
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.runtime.event_loop import start_task
from webdata_nb.service.runtime.fair_scheduler import current_account, on_behalf_of
from webdata_nb.service.web.egress_policy import EgressPolicy, is_ip_address
from webdata_nb.service.web.fetch import TOKEN, TlsInterceptor, tls_context
from webdata_nb.service.web.polite_fetcher import OVERLOAD_STATUS
from webdata_nb.service.web.resolver import Lookup, Resolver
from webdata_nb.service.web.throttle import HostThrottle

_LINE_BREAKING: Final = re.compile(r"[\x00\r\n]")
_MAX_HEADERS: Final = 256
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    }
)
_START_LINE_PARTS: Final = 3


class HttpHeadError(ValueError):
    """The head of a message is malformed or ambiguous."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """The start line and the headers of a message.

    Attributes
    ----------
    start_line : tuple of str
        Its three parts.
    headers : tuple of (str, str)
        The headers in their order.
    """

    start_line: tuple[str, str, str]
    headers: tuple[tuple[str, str], ...]

    @property
    def method(self) -> str:
        """A request's method."""
        return self.start_line[0]

    @property
    def target(self) -> str:
        """A request's target, as sent."""
        return self.start_line[1]

    @property
    def status(self) -> int:
        """A response's status; raises `HttpHeadError` for anything but an HTTP/1 response."""
        version, status, _ = self.start_line
        if not version.startswith("HTTP/1.") or not re.fullmatch(r"\d{3}", status):
            raise HttpHeadError("not an HTTP/1 response")
        return int(status)

    def header(self, name: str) -> str | None:
        """Return the first header of a name, given in lower case; None without one."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def request_length(self) -> int:
        """Return the length of a request's body; raises `HttpHeadError` if it is ambiguous."""
        if self.header("transfer-encoding") is not None:
            raise HttpHeadError("a request body without a length")
        return self._content_length() or 0

    def response_length(self, method: str) -> int | None:
        """Return the length of the body of a response to `method`; None if its end marks it."""
        if method == "HEAD" or self.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
            return 0
        return None if self.header("transfer-encoding") is not None else self._content_length()

    def _content_length(self) -> int | None:
        lengths = {value for name, value in self.headers if name.lower() == "content-length"}
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not re.fullmatch(r"[0-9]{1,15}", length):
            raise HttpHeadError("an ambiguous length")
        return int(length)

    def forwarded_request(self, target: str, extra: list[tuple[str, str]]) -> bytes:
        """Return the request for the next hop: another target, and no hop-by-hop headers."""
        headers = [header for header in self._end_to_end_headers() if header[0].lower() != "host"]
        return format_head(f"{self.method} {target} HTTP/1.1", [*extra, *headers])

    def forwarded_response(self, extra: list[tuple[str, str]]) -> bytes:
        """Return the response for the previous hop, without hop-by-hop headers."""
        start_line = " ".join(self.start_line).rstrip()
        return format_head(start_line, [*self._end_to_end_headers(), *extra])

    def _end_to_end_headers(self) -> list[tuple[str, str]]:
        connection_headers = {
            token.strip().lower()
            for name, value in self.headers
            if name.lower() == "connection"
            for token in value.split(",")
        }
        # Headers that frame the message stay, even if Connection lists them.
        removed = _HOP_BY_HOP | (connection_headers - {"content-length", "transfer-encoding"})
        return [header for header in self.headers if header[0].lower() not in removed]


async def read_head(reader: asyncio.StreamReader) -> HttpHead:
    """Read a head, at most as large as the reader's limit.

    Raises
    ------
    HttpHeadError
        The head is too large or malformed.
    EOFError
        The connection ended before the head did.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HttpHeadError("the head is too large") from None
    start_line, *lines = raw[:-4].decode("latin-1").split("\r\n")
    words = start_line.split(" ", 2)
    if len(words) == _START_LINE_PARTS - 1 and start_line.startswith("HTTP/"):
        words.append("")  # The reason phrase of a response is optional.
    if len(words) != _START_LINE_PARTS or _LINE_BREAKING.search(start_line) or not words[1]:
        raise HttpHeadError("a malformed start line")
    if len(lines) > _MAX_HEADERS:
        raise HttpHeadError("too many headers")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not TOKEN.fullmatch(name) or _LINE_BREAKING.search(value):
            raise HttpHeadError("a malformed header")
        headers.append((name, value.strip(" \t")))
    return HttpHead((words[0], words[1], words[2]), tuple(headers))


def format_head(start_line: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the bytes of a head."""
    lines = [start_line, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


MAX_SPACING_S: Final = 0.2
"""Upper bound of the delay between two subresources of a host with a crawl delay."""


@dataclass(frozen=True, slots=True)
class SubresourceThrottle:
    """Delays the requests of one page's subresources.

    Attributes
    ----------
    throttle : HostThrottle
        The throttle of all hosts.
    host : str
        The page's own host.
    delay_s : float
        Seconds that it asks for between requests.
    max_wait_s : float
        Longest wait of a subresource.
    """

    throttle: HostThrottle
    host: str
    delay_s: float = 0.0
    max_wait_s: float = 5.0

    async def wait(self, host: str) -> None:
        """Wait until a host allows a request for a subresource.

        Raises
        ------
        FetchError
            At once, if the wait would be too long.
        """
        delay_s = min(self.delay_s, MAX_SPACING_S) if host == self.host else 0.0
        await self.throttle.wait_unqueued(host, delay_s=delay_s, max_wait_s=self.max_wait_s)

    async def report(self, host: str, status: int, retry_after_s: float | None) -> bool:
        """Report the status of a reply; return whether the host is overloaded.

        Errors do not count as failures of the host: a page may request any address of any host,
        and fail there as often as it likes.
        """
        if status in OVERLOAD_STATUS:
            await self.throttle.report_overload(host, retry_after_s)
            return True
        if status < HTTPStatus.BAD_REQUEST:
            await self.throttle.report_success(host)
        return False


_MIB: Final = 1024 * 1024
_MAX_REFUSALS: Final = 1000


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """Limits of the traffic of one rendered page.

    Attributes
    ----------
    connections : int
        Open connections.
    requests : int
        Requests in all. For TLS, which the proxy does not read, connections are counted.
    wire_bytes : int
        Bytes in both directions together.
    idle_s : float
        Seconds without a byte in either direction after which a connection is closed.
    """

    connections: int = 64
    requests: int = 1000
    wire_bytes: int = 64 * _MIB
    idle_s: float = 30.0


class ProxySession:
    """The proxy access of one page: its credential and its traffic.

    Attributes
    ----------
    username, password : str
        The credential, valid for this page alone.
    account : str
        The account that the page belongs to.
    limits : TrafficLimits
        The limits of its traffic.
    wire_bytes : int
        Bytes relayed so far.
    refusals : dict of (str, int) to FetchError
        Hosts and ports that the egress policy forbade, or whose names have no address.
    subresource_throttle : SubresourceThrottle, optional
        Delays the page's requests.
    """

    def __init__(
        self, limits: TrafficLimits, subresource_throttle: SubresourceThrottle | None = None
    ) -> None:
        self.subresource_throttle = subresource_throttle
        self.username: str = secrets.token_hex(8)
        self.password: str = secrets.token_urlsafe(32)
        self.account: str = current_account()
        self.limits = limits
        self.wire_bytes: int = 0
        self.refusals: dict[tuple[str, int], FetchError] = {}
        self._request_count = 0
        self._tasks: set[asyncio.Task[object]] = set()

    def add_traffic(self, byte_count: int) -> None:
        """Account for relayed bytes.

        Raises
        ------
        FetchError
            Of kind ``too_large``, beyond the page's limit.
        """
        self.wire_bytes += byte_count
        if self.wire_bytes > self.limits.wire_bytes:
            raise FetchError("too_large", "The page's traffic is more than a page may have.")

    def add_refusal(self, target: UrlParts, failure: FetchError) -> None:
        """Record a target that was not connected to, up to a bound."""
        if len(self.refusals) < _MAX_REFUSALS:
            self.refusals[target.host, target.port] = failure

    @contextlib.contextmanager
    def connection(self) -> Iterator[bool]:
        """Count the current task as a connection of the page; yield False beyond its limits."""
        task = asyncio.current_task()
        self._request_count += 1
        too_many = self._request_count > self.limits.requests
        if task is None or too_many or len(self._tasks) >= self.limits.connections:
            yield False
            return
        self._tasks.add(task)
        try:
            yield True
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        """Close all connections of the page."""
        for task in self._tasks:
            task.cancel()


_CHUNK_BYTES: Final = 64 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyRelay:
    """Relays one connection of a browser to a server and back."""

    def __init__(self, session: ProxySession, browser: Streams, server: Streams) -> None:
        self._session = session
        self._browser, self._server = browser, server
        self._clock = asyncio.get_running_loop().time
        self._last_activity = self._clock()

    async def relay_tunnel(self) -> None:
        """Relay both directions until either side closes."""
        await _run_until_first_ends(
            self._copy(self._browser[0], self._server[1]),
            self._copy(self._server[0], self._browser[1]),
        )

    async def relay_exchange(self, method: str, body_length: int) -> None:
        """Relay one request's body and its response, and nothing after them."""
        await _run_until_first_ends(
            self._send_request_body(body_length), self._return_response(method)
        )

    async def _send_request_body(self, length: int) -> None:
        await self._copy(self._browser[0], self._server[1], length=length)
        # Nothing after the request is forwarded. Reading on detects that the browser disconnects.
        await self._browser[0].read(1)

    async def _return_response(self, method: str) -> None:
        """Return the response with "Connection: close"."""
        async with asyncio.timeout(self._session.limits.idle_s):
            head = await read_head(self._server[0])
            while 100 <= head.status < 200:  # noqa: PLR2004 - interim responses
                head = await read_head(self._server[0])
        response = head.forwarded_response([("Connection", "close")])
        self._session.add_traffic(len(response))
        self._browser[1].write(response)
        # Not every server closes the connection, so the length of the response ends it.
        length = head.response_length(method)
        await self._copy(self._server[0], self._browser[1], length=length)

    async def _copy(
        self,
        source: asyncio.StreamReader,
        destination: asyncio.StreamWriter,
        *,
        length: int | None = None,
    ) -> None:
        remaining = length
        while remaining is None or remaining > 0:
            size = _CHUNK_BYTES if remaining is None else min(remaining, _CHUNK_BYTES)
            chunk = await self._read(source, size)
            if not chunk:
                return
            remaining = None if remaining is None else remaining - len(chunk)
            self._session.add_traffic(len(chunk))
            destination.write(chunk)
            try:
                async with asyncio.timeout(self._session.limits.idle_s):
                    await destination.drain()
            except TimeoutError:
                return  # The receiver reads no more.

    async def _read(self, source: asyncio.StreamReader, size: int) -> bytes:
        """Read the next chunk; return nothing after the idle timeout of both directions."""
        while True:
            idle_s = self._clock() - self._last_activity
            remaining_s = self._session.limits.idle_s - idle_s
            if remaining_s <= 0:
                return b""
            try:
                async with asyncio.timeout(remaining_s):
                    chunk = await source.read(size)
            except TimeoutError:
                continue
            self._last_activity = self._clock()
            return chunk


async def _run_until_first_ends(*directions: Coroutine[None, None, None]) -> None:
    """Run until one direction ends. Its failure ends the connection, and is not reported."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


MAX_HEAD_BYTES: Final = 64 * 1024
_CONNECT_TIMEOUT_S: Final = 10.0


async def connect_to_address(addresses: tuple[str, ...], port: int) -> Streams:
    """Connect to the first of some checked addresses that accepts the connection."""
    last_error: OSError | None = None
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=MAX_HEAD_BYTES)
            except OSError as error:
                last_error = error
    raise last_error or ConnectionError("no address")


class UpstreamProxy:
    """An http or https proxy of the user's own.

    Attributes
    ----------
    credential : list of (str, str)
        The header that authenticates to it; empty without a user name.
    """

    def __init__(self, url: str, ca_bundle: Path | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("A proxy is given as http://host:port or https://host:port.")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._secure = parts.scheme == "https"
        self._ca_bundle = ca_bundle
        self.credential: list[tuple[str, str]] = []
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = b64encode(pair.encode()).decode()
            self.credential.append(("Proxy-Authorization", f"Basic {basic}"))

    async def connect(self, tunnel_to: UrlParts | None) -> Streams:
        """Connect to the proxy, and open a tunnel through it if `tunnel_to` is given."""
        context = await asyncio.to_thread(tls_context, self._ca_bundle) if self._secure else None
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=context, limit=MAX_HEAD_BYTES
            )
            if tunnel_to is not None:
                headers = [("Host", tunnel_to.server), *self.credential]
                is_open = False
                try:
                    writer.write(format_head(f"CONNECT {tunnel_to.server} HTTP/1.1", headers))
                    is_open = (await read_head(reader)).status == HTTPStatus.OK
                finally:
                    if not is_open:
                        writer.transport.abort()
                if not is_open:
                    raise ConnectionError("the proxy opened no tunnel")
        return reader, writer


_HEAD_TIMEOUT_S: Final = 10.0
_MAX_CONNECTIONS: Final = 1024
PROBE_URL: Final = "http://webdata.invalid/"
"""A URL that the proxy answers itself, so that a browser can authenticate before it needs to."""
PROXY_REPLY_HEADER: Final = ("Proxy-Status", "webdata")
"""The header of replies that come from the proxy and not from a host."""


class ForwardProxy:
    """An HTTP forward proxy on loopback for the browsers of this service.

    It opens tunnels (``CONNECT``) and forwards plain requests (``GET http://...``), one request
    per connection. Without the credential of an open session the answer is 407. Targets that the
    policy forbids are answered with 403 and no explanation; in ``team`` mode, forbidden names are
    answered with 502 like unknown ones. `PROBE_URL` is answered with an empty reply.

    Parameters
    ----------
    policy : EgressPolicy
        What may be reached.
    lookup : callable, optional
        Resolves host names; by default the operating system does.
    upstream : str, optional
        An http or https proxy for all connections, like the fetcher's `proxy`. Addresses are
        checked here, but the upstream proxy connects to them.
    ca_bundle : Path, optional
        Certificate authorities to trust beside the system's, for an https `upstream` and for
        sites; see `fingerprint`.

    Examples
    --------
    >>> from webdata_nb.service.web.egress_policy import EgressPolicy
    >>> async def credential() -> tuple[str, str]:
    ...     async with ForwardProxy(EgressPolicy("team")) as proxy:
    ...         with proxy.open_session() as session:
    ...             return proxy.url, session.username
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        lookup: Lookup | None = None,
        upstream: str | None = None,
        ca_bundle: Path | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = Resolver(policy, lookup=lookup)
        self._upstream = None if upstream is None else UpstreamProxy(upstream, ca_bundle)
        self._ca_bundle = ca_bundle
        self._interceptor: TlsInterceptor | None = None
        self._sessions: dict[str, ProxySession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        if self._ca_bundle is not None:
            self._interceptor = await TlsInterceptor.create(self._ca_bundle)
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=MAX_HEAD_BYTES, backlog=256
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if server is not None:
            await server.wait_closed()
        await self._resolver.close()

    @property
    def url(self) -> str:
        """The proxy's address, ``http://127.0.0.1:port``."""
        if self._server is None:
            raise RuntimeError("A ForwardProxy listens only inside its `async with` block.")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def fingerprint(self) -> str | None:
        """The key that a browser must trust when a CA bundle is in use; None without one."""
        return None if self._interceptor is None else self._interceptor.fingerprint

    @contextlib.contextmanager
    def open_session(
        self,
        limits: TrafficLimits = TrafficLimits(),
        subresource_throttle: SubresourceThrottle | None = None,
    ) -> Iterator[ProxySession]:
        """Open a page's session. It ends with the block, and so do the page's connections."""
        session = ProxySession(limits, subresource_throttle)
        self._sessions[session.username] = session
        try:
            yield session
        finally:
            del self._sessions[session.username]
            session.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        start_task(self._serve((reader, writer)), self._tasks)

    async def _serve(self, browser: Streams) -> None:
        writer = browser[1]
        try:
            await self._handle_request(browser)
        except (HttpHeadError, OSError, EOFError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _handle_request(self, browser: Streams) -> None:
        reader, writer = browser
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                head = await read_head(reader)
        except HttpHeadError:
            return _reply(writer, 400)
        session = self._find_session(head)
        if session is None:
            return _reply(writer, 407, ("Proxy-Authenticate", 'Basic realm="webdata"'))
        if head.target == PROBE_URL:
            return _reply(writer, 200, ("Access-Control-Allow-Origin", "*"))
        with on_behalf_of(session.account), session.connection() as allowed:
            if not allowed:
                return _reply(writer, 429)
            return await self._forward(head, session, browser)

    def _find_session(self, head: HttpHead) -> ProxySession | None:
        """Return the session whose credential a request contains."""
        scheme, _, encoded = (head.header("proxy-authorization") or "").partition(" ")
        try:
            pair = b64decode(encoded, validate=True).decode("ascii")
        except (Base64Error, ValueError):
            return None
        username, _, password = pair.partition(":")
        session = self._sessions.get(username)
        if scheme.lower() != "basic" or session is None:
            return None
        return session if hmac.compare_digest(session.password, password) else None

    async def _forward(self, head: HttpHead, session: ProxySession, browser: Streams) -> None:
        is_tunnel = head.method == "CONNECT"
        try:
            target = _parse_target(head, is_tunnel=is_tunnel)
            body_length = 0 if is_tunnel else head.request_length()
        except (FetchError, HttpHeadError):
            return _reply(browser[1], 400)
        try:
            server, interceptor = await self._connect(target, session, is_tunnel=is_tunnel)
        except FetchError as failure:
            if isinstance(failure, EgressDenied) or failure.kind == "dns":
                session.add_refusal(target, failure)
            return _reply(browser[1], 403 if isinstance(failure, EgressDenied) else 502)
        except TimeoutError:
            return _reply(browser[1], 504)
        except (OSError, EOFError, HttpHeadError):
            return _reply(browser[1], 502)
        relay = ProxyRelay(session, browser, server)
        try:
            if is_tunnel:
                browser[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if interceptor is not None:
                    await interceptor.start_browser_tls(browser[1])
                return await relay.relay_tunnel()
            path = target.path if target.query is None else f"{target.path}?{target.query}"
            extra = [("Host", target.authority), ("Connection", "close")]
            if self._upstream is not None:
                path = f"http://{target.authority}{path}"
                extra += self._upstream.credential
            server[1].write(head.forwarded_request(path, extra))
            return await relay.relay_exchange(head.method, body_length)
        finally:
            server[1].transport.abort()

    async def _connect(
        self, target: UrlParts, session: ProxySession, *, is_tunnel: bool
    ) -> tuple[Streams, TlsInterceptor | None]:
        """Connect to a target as soon as its host allows it.

        Returns
        -------
        tuple of Streams and TlsInterceptor or None
            The connection; and the interceptor if it has verified the site's certificate.
        """
        self._policy.check_parts(target)
        if session.subresource_throttle is not None:
            await session.subresource_throttle.wait(target.server)
        server = await self._open_connection(target, is_tunnel=is_tunnel)
        if self._interceptor is None or not is_tunnel:
            return server, None
        try:
            if await self._interceptor.start_site_tls(server[1], target.host):
                return server, self._interceptor
        except BaseException:
            server[1].transport.abort()
            raise
        # The site is not trusted, or does not use TLS: the browser decides.
        server[1].transport.abort()
        return await self._open_connection(target, is_tunnel=is_tunnel), None

    async def _open_connection(self, target: UrlParts, *, is_tunnel: bool) -> Streams:
        """Connect to a target after all checks."""
        if self._upstream is None:
            if is_ip_address(target.host):
                self._policy.check_address(target.host, target.port)
                addresses: tuple[str, ...] = (target.host,)
            else:
                addresses = await self._resolver.addresses(target.host, target.port)
            return await connect_to_address(addresses, target.port)
        # The upstream proxy decides on names that are unknown here, as with the fetcher.
        if is_ip_address(target.host):
            self._policy.check_address(target.host, target.port)
        else:
            await self._resolver.known_addresses(target.host, target.port)
        return await self._upstream.connect(target if is_tunnel else None)


def _parse_target(head: HttpHead, *, is_tunnel: bool) -> UrlParts:
    """Return the target of a request; raises `FetchError` for anything but a web address."""
    if not is_tunnel:
        target = split_url(canonical_url(head.target))
        if target.scheme != "http":
            raise FetchError("bad_url", "Only http is forwarded; https needs a tunnel.")
        return target
    if not head.target.isascii() or any(mark in head.target for mark in "/?#@\\"):
        raise FetchError("bad_url", "A tunnel leads to a host and a port.")
    return split_url(f"https://{head.target}/")


def _reply(writer: asyncio.StreamWriter, status: int, *headers: tuple[str, str]) -> None:
    start_line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    standard_headers = [("Content-Length", "0"), ("Connection", "close"), PROXY_REPLY_HEADER]
    writer.write(format_head(start_line, [*standard_headers, *headers]))
