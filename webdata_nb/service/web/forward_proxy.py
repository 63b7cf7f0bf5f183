"""The browser's one way out: a forward proxy on loopback under the service's egress policy.

A browser resolves names and follows redirects by itself, out of the fetcher's sight. So it is
given no network but this proxy, which treats every connection as the fetcher treats a hop: policy,
lookup, a check of every address, and a dial of the checked address.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from webdata_nb.service.errors import FetchError, Refused
from webdata_nb.service.web.addresses import is_ip_address
from webdata_nb.service.web.ca_bundle import tls_context
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.http_heads import HttpHead, HttpHeadError, read_head
from webdata_nb.service.web.resolver import Lookup, Resolver
from webdata_nb.service.web.subresource_throttle import SubresourceThrottle
from webdata_nb.service.web.tls_interceptor import TlsInterceptor
from webdata_nb.service.web.urls import UrlParts, canonical_url, split_url

_MIB: Final = 1024 * 1024
_PIECE: Final = 64 * 1024
_HEAD_BYTES: Final = 64 * 1024
_HEAD_S: Final = 10.0
_DIAL_S: Final = 10.0
_MOST_CONNECTIONS: Final = 1024
_MOST_REMEMBERED: Final = 1000
PROBE_URL: Final = "http://webdata.invalid/"
"""What the proxy answers itself, so that a browser may show its credential before it needs it."""
PROXY_REPLY_HEADER: Final = ("Proxy-Status", "webdata")
"""The header of what the proxy answers in the place of a host."""
_STREAMS = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """What the traffic of one rendered page may cost.

    Attributes
    ----------
    connections : int
        The most connections open at once.
    requests : int
        The most requests in all; of those over TLS, which the proxy does not read, connections.
    wire_bytes : int
        The most bytes to carry, both directions together.
    idle_s : float
        Seconds without a byte in either direction after which a connection is closed.
    """

    connections: int = 64
    requests: int = 1000
    wire_bytes: int = 64 * _MIB
    idle_s: float = 30.0


class ProxySession:
    """One page's credential, and what was done with it; the proxy knows it for that page's time.

    Attributes
    ----------
    username, password : str
        The credential, for this page alone.
    spent : int
        Bytes carried so far.
    refused : dict of (str, int) to FetchError
        Hosts and ports that the egress policy forbade, or whose names led to no address.
    courtesy : Courtesy, optional
        How the page's files are asked for; without one, at once.
    """

    def __init__(
        self, allowance: TrafficLimits, courtesy: SubresourceThrottle | None = None
    ) -> None:
        self.courtesy = courtesy
        self.username = secrets.token_hex(8)
        self.password = secrets.token_urlsafe(32)
        self.allowance = allowance
        self.spent = 0
        self._begun = 0
        self.refused: dict[tuple[str, int], FetchError] = {}
        self._tasks: set[asyncio.Task[object]] = set()

    def spend(self, count: int) -> None:
        """Account for bytes carried.

        Raises
        ------
        FetchError
            Of kind ``too_large``, when they are more than the page may have.
        """
        self.spent += count
        if self.spent > self.allowance.wire_bytes:
            raise FetchError("too_large", "The page's traffic is more than a page may have.")

    def note_refusal(self, there: UrlParts, failure: FetchError) -> None:
        """Remember where no connection was tried, up to a bound."""
        if len(self.refused) < _MOST_REMEMBERED:
            self.refused[there.host, there.port] = failure

    @contextlib.contextmanager
    def connection(self) -> Iterator[bool]:
        """Count the running task among the page's connections; False when there are too many."""
        task = asyncio.current_task()
        self._begun += 1
        too_many = self._begun > self.allowance.requests
        if task is None or too_many or len(self._tasks) >= self.allowance.connections:
            yield False
            return
        self._tasks.add(task)
        try:
            yield True
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """Close every connection that the page still has."""
        for task in self._tasks:
            task.cancel()


class ForwardProxy:
    """An HTTP forward proxy on loopback, for the browsers of this service alone.

    It opens tunnels (``CONNECT``) and forwards plain requests (``GET http://...``), one request a
    connection. Without the credential of a running page it answers nothing but 407; what the
    policy forbids is answered with 403 and no word more, and in ``team`` mode a name that leads
    there with 502, as an unknown one. `PROBE_URL` is empty, and leads nowhere.

    Parameters
    ----------
    policy : EgressPolicy
        What may be reached.
    lookup : callable, optional
        Gives the addresses of a host name; by default the operating system is asked.
    upstream : str, optional
        An http or https proxy that everything goes through, as the fetcher's `proxy`: addresses
        are checked here, but it does the dialling.
    ca_bundle : Path, optional
        Certificate authorities to trust beside the system's, for an https `upstream` and for
        sites; see `fingerprint`.

    Examples
    --------
    >>> from webdata_nb.service.web.egress_policy import EgressPolicy
    >>> async def credential() -> tuple[str, str]:
    ...     async with ForwardProxy(EgressPolicy("team")) as proxy:
    ...         with proxy.admit() as granted:
    ...             return proxy.url, granted.username
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
        self._upstream = None if upstream is None else _Upstream(upstream, ca_bundle)
        self._ca_bundle = ca_bundle
        self._voucher: TlsInterceptor | None = None
        self._passes: dict[str, ProxySession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        if self._ca_bundle is not None:
            self._voucher = await TlsInterceptor.trusting(self._ca_bundle)
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES, backlog=256
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """The key that a browser has to trust for the sites of a CA bundle; None without one."""
        return None if self._voucher is None else self._voucher.fingerprint

    @contextlib.contextmanager
    def admit(
        self,
        allowance: TrafficLimits = TrafficLimits(),
        courtesy: SubresourceThrottle | None = None,
    ) -> Iterator[ProxySession]:
        """Give a page its credential; it ends, with the page's connections, on leaving."""
        granted = ProxySession(allowance, courtesy)
        self._passes[granted.username] = granted
        try:
            yield granted
        finally:
            del self._passes[granted.username]
            granted.end()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (HttpHeadError, OSError, EOFError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await read_head(reader)
        except HttpHeadError:
            return _say(writer, 400)
        granted = self._pass_of(head)
        if granted is None:
            return _say(writer, 407, 'Proxy-Authenticate: Basic realm="webdata"')
        if head.target == PROBE_URL:
            return _say(writer, 200, "Access-Control-Allow-Origin: *")
        with granted.connection() as counted:
            if not counted:
                return _say(writer, 429)
            return await self._forward(head, granted, (reader, writer))

    def _pass_of(self, head: HttpHead) -> ProxySession | None:
        """Find whose credential a request carries."""
        scheme, _, sent = (head.value("proxy-authorization") or "").partition(" ")
        try:
            username, _, password = b64decode(sent, validate=True).decode("ascii").partition(":")
        except (NoBase64, ValueError):
            return None
        granted = self._passes.get(username)
        if scheme.lower() != "basic" or granted is None:
            return None
        return granted if hmac.compare_digest(granted.password, password) else None

    async def _forward(self, head: HttpHead, granted: ProxySession, browser: _STREAMS) -> None:
        tunnel = head.method == "CONNECT"
        try:
            there = _target(head, tunnel=tunnel)
            length = 0 if tunnel else head.body_length()
        except (FetchError, HttpHeadError):
            return _say(browser[1], 400)
        try:
            far, checked = await self._far_end(there, granted, tunnel=tunnel)
        except FetchError as failure:
            if isinstance(failure, Refused) or failure.kind == "dns":
                granted.note_refusal(there, failure)
            return _say(browser[1], 403 if isinstance(failure, Refused) else 502)
        except TimeoutError:
            return _say(browser[1], 504)
        except (OSError, EOFError, HttpHeadError):
            return _say(browser[1], 502)
        relay = _Relay(granted, browser, far)
        try:
            if tunnel:
                browser[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if checked is not None:
                    await checked.vouch(browser[1])
                return await relay.tunnel()
            far[1].write(self._request(head, there))
            return await relay.exchange(head.method, length)
        finally:
            far[1].transport.abort()

    async def _far_end(
        self, there: UrlParts, granted: ProxySession, *, tunnel: bool
    ) -> tuple[_STREAMS, TlsInterceptor | None]:
        """Connect to where a request goes, in its host's time; and who vouches for the site."""
        self._policy.check_parts(there)
        if granted.courtesy is not None:
            await granted.courtesy.wait(there.server)
        far = await self._reach(there, tunnel=tunnel)
        if self._voucher is None or not tunnel:
            return far, None
        try:
            if await self._voucher.check(far[1], there.host):
                return far, self._voucher
        except BaseException:
            far[1].transport.abort()
            raise
        # Not a site that the service trusts, or none that speaks TLS: the browser is to judge.
        far[1].transport.abort()
        return await self._reach(there, tunnel=tunnel), None

    async def _reach(self, there: UrlParts, *, tunnel: bool) -> _STREAMS:
        """Connect to where a request goes, after every check."""
        if self._upstream is None:
            return await _dial(await self._addresses(there), there.port)
        await self._check_for_upstream(there)
        return await self._upstream.connect(there if tunnel else None)

    async def _addresses(self, there: UrlParts) -> tuple[str, ...]:
        if not is_ip_address(there.host):
            return await self._resolver.addresses(there.host, there.port)
        self._policy.check_address(there.host, there.port)
        return (there.host,)

    async def _check_for_upstream(self, there: UrlParts) -> None:
        # A name that this host does not know is the upstream proxy's to judge, as in the fetcher.
        if is_ip_address(there.host):
            self._policy.check_address(there.host, there.port)
        else:
            await self._resolver.check_known(there.host, there.port)

    def _request(self, head: HttpHead, there: UrlParts) -> bytes:
        path = there.path if there.query is None else f"{there.path}?{there.query}"
        extra = [("Host", there.authority), ("Connection", "close")]
        if self._upstream is None:
            return head.request(path, extra)
        return head.request(f"http://{there.authority}{path}", extra + self._upstream.credential)


class _Upstream:
    """A proxy of the user's own, further on."""

    def __init__(self, url: str, ca_bundle: Path | None) -> None:
        split = urlsplit(url)
        if split.scheme not in {"http", "https"} or not split.hostname:
            raise ValueError("A proxy is given as http://host:port or https://host:port.")
        self._host = split.hostname
        self._port = split.port or (443 if split.scheme == "https" else 80)
        self._secure = split.scheme == "https"
        self._ca_bundle = ca_bundle
        self.credential: list[tuple[str, str]] = []
        if split.username is not None:
            pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
            basic = b64encode(pair.encode()).decode()
            self.credential.append(("Proxy-Authorization", f"Basic {basic}"))

    async def connect(self, through_to: UrlParts | None) -> _STREAMS:
        """Connect to the proxy, and through it where a tunnel is wanted."""
        trust = await asyncio.to_thread(tls_context, self._ca_bundle) if self._secure else None
        async with asyncio.timeout(_DIAL_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=trust, limit=_HEAD_BYTES
            )
            if through_to is not None:
                await self._open_tunnel(reader, writer, through_to)
        return reader, writer

    async def _open_tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: UrlParts
    ) -> None:
        host = f"[{there.host}]" if ":" in there.host else there.host
        lines = [f"CONNECT {host}:{there.port} HTTP/1.1", f"Host: {host}:{there.port}"]
        lines += [f"{name}: {value}" for name, value in self.credential]
        opened = False
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            opened = (await read_head(reader)).status == HTTPStatus.OK
        finally:
            if not opened:
                writer.transport.abort()
        if not opened:
            raise ConnectionError("the proxy opened no tunnel")


class _Relay:
    """Carries bytes between the browser and a server, within the page's allowance."""

    def __init__(self, granted: ProxySession, browser: _STREAMS, far: _STREAMS) -> None:
        self._granted = granted
        self._browser, self._far = browser, far
        self._clock = asyncio.get_running_loop().time
        self._moved = self._clock()

    async def tunnel(self) -> None:
        """Carry both ways until either side ends."""
        await _first_of(
            self._carry(self._browser[0], self._far[1]),
            self._carry(self._far[0], self._browser[1]),
        )

    async def exchange(self, method: str, length: int) -> None:
        """Carry one request's body of `length` bytes, and its answer; nothing after that."""
        await _first_of(self._send(length), self._answer(method))

    async def _send(self, length: int) -> None:
        await self._carry(self._browser[0], self._far[1], most=length)
        # Nothing that follows the one request is forwarded; the browser's leaving is noticed.
        await self._browser[0].read(1)

    async def _answer(self, method: str) -> None:
        """Pass the answer on, marked as the connection's last."""
        async with asyncio.timeout(self._granted.allowance.idle_s):
            head = await read_head(self._far[0])
            while 100 <= head.status < 200:  # noqa: PLR2004 - interim answers
                head = await read_head(self._far[0])
        answer = head.answer([("Connection", "close")])
        self._granted.spend(len(answer))
        self._browser[1].write(answer)
        # Not every server closes when told to, so the answer's own length ends it.
        most = head.answer_length(method)
        await self._carry(self._far[0], self._browser[1], most=most)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, most: int | None = None
    ) -> None:
        left = most
        while left is None or left > 0:
            piece = await self._read(source, _PIECE if left is None else min(left, _PIECE))
            if not piece:
                return
            left = None if left is None else left - len(piece)
            self._granted.spend(len(piece))
            sink.write(piece)
            try:
                async with asyncio.timeout(self._granted.allowance.idle_s):
                    await sink.drain()
            except TimeoutError:
                return  # whoever is sent it takes nothing any more

    async def _read(self, source: asyncio.StreamReader, most: int) -> bytes:
        """Read what comes next; time counts only while neither side moves."""
        idle_s = self._granted.allowance.idle_s
        while True:
            left = self._moved + idle_s - self._clock()
            if left <= 0:
                return b""
            try:
                async with asyncio.timeout(left):
                    piece = await source.read(most)
            except TimeoutError:
                continue
            self._moved = self._clock()
            return piece


async def _first_of(*ways: Coroutine[None, None, None]) -> None:
    """Run until the first ends; its failure is the connection's end and nobody's news."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _dial(addresses: tuple[str, ...], port: int) -> _STREAMS:
    """Connect to the first of some checked addresses that answers."""
    problem: OSError | None = None
    async with asyncio.timeout(_DIAL_S):
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=_HEAD_BYTES)
            except OSError as error:
                problem = error
    raise problem or ConnectionError("no address")


def _target(head: HttpHead, *, tunnel: bool) -> UrlParts:
    """Read where a request goes; what is no such place is a `FetchError`."""
    if not tunnel:
        there = split_url(canonical_url(head.target))
        if there.scheme != "http":
            raise FetchError("bad_url", "Only http is forwarded; https goes by a tunnel.")
        return there
    if not head.target.isascii() or any(mark in head.target for mark in "/?#@\\"):
        raise FetchError("bad_url", "A tunnel leads to a host and a port.")
    return split_url(f"https://{head.target}/")


def _say(writer: asyncio.StreamWriter, status: int, *lines: str) -> None:
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Length: 0",
        "Connection: close",
        ": ".join(PROXY_REPLY_HEADER),
    )
    writer.write("\r\n".join((*head, *lines, "", "")).encode("ascii"))
