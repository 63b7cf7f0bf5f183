"""Gives browsers network access through a forward proxy on loopback, under the egress policy.

A browser resolves names and follows redirects itself, unseen by the fetcher. This proxy is
therefore its only network access. It treats every connection as the fetcher treats a hop: it
checks the policy, resolves the name, checks every address, and connects to a checked address.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import UrlParts, canonical_url, split_url
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.web.addresses import is_ip_address
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.http_heads import HttpHead, HttpHeadError, format_head, read_head
from webdata_nb.service.web.proxy_connections import (
    MAX_HEAD_BYTES,
    UpstreamProxy,
    connect_to_address,
)
from webdata_nb.service.web.proxy_relay import ProxyRelay, Streams
from webdata_nb.service.web.proxy_session import ProxySession, TrafficLimits
from webdata_nb.service.web.resolver import Lookup, Resolver
from webdata_nb.service.web.subresource_throttle import SubresourceThrottle
from webdata_nb.service.web.tls_interceptor import TlsInterceptor

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
        """The key that a browser must trust when a CA bundle is in use; None without one."""
        return None if self._interceptor is None else self._interceptor.fingerprint

    @contextlib.contextmanager
    def open_session(
        self,
        limits: TrafficLimits = TrafficLimits(),  # noqa: B008 - frozen, so one default serves all
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
        task = asyncio.create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
            server[1].write(self._forwarded_request(head, target))
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
            return await connect_to_address(await self._checked_addresses(target), target.port)
        await self._check_for_upstream(target)
        return await self._upstream.connect(target if is_tunnel else None)

    async def _checked_addresses(self, target: UrlParts) -> tuple[str, ...]:
        if not is_ip_address(target.host):
            return await self._resolver.addresses(target.host, target.port)
        self._policy.check_address(target.host, target.port)
        return (target.host,)

    async def _check_for_upstream(self, target: UrlParts) -> None:
        # The upstream proxy decides on names that are unknown here, as with the fetcher.
        if is_ip_address(target.host):
            self._policy.check_address(target.host, target.port)
        else:
            await self._resolver.known_addresses(target.host, target.port)

    def _forwarded_request(self, head: HttpHead, target: UrlParts) -> bytes:
        path = target.path if target.query is None else f"{target.path}?{target.query}"
        extra = [("Host", target.authority), ("Connection", "close")]
        if self._upstream is None:
            return head.forwarded_request(path, extra)
        url = f"http://{target.authority}{path}"
        return head.forwarded_request(url, extra + self._upstream.credential)


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
