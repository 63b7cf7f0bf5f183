"""Fetches pages over HTTP under the egress policy.

For each hop the URL is canonicalized and checked, its host resolved, every address checked, and
the connection opened to a checked address under the host's own name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import aiohttp
from yarl import URL

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import UrlParts, canonical_url, split_url
from webdata_nb.service.web.egress_policy import is_ip_address
from webdata_nb.service.web.redirects import RedirectFollower
from webdata_nb.service.web.request import (
    ACCEPT_PAGES,
    AllowHop,
    FetchedResponse,
    FetchLimits,
    FetchRequest,
    Redirect,
)
from webdata_nb.service.web.resolver import Lookup, Resolver
from webdata_nb.service.web.response_reader import ACCEPTED, ResponseReader
from webdata_nb.service.web.tls import tls_context

if TYPE_CHECKING:
    from types import TracebackType

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import AddrInfoType

    from webdata_nb.service.web.egress_policy import EgressPolicy

__all__ = ["AllowHop", "FetchLimits", "FetchRequest", "FetchedResponse", "Fetcher", "Redirect"]


class Fetcher:
    """Fetches pages under one egress policy; used with `async with`.

    Parameters
    ----------
    policy : EgressPolicy
        What may be fetched.
    user_agent : str
        The User-Agent of requests that do not set their own.
    proxy : str, optional
        An http or https proxy for all requests; those of the environment are ignored. Addresses
        are checked before each request, but the proxy connects to them.
    ca_bundle : Path, optional
        A PEM file of certificate authorities to trust beside the system's.
    limits : Limits
        Limits of requests that do not set their own.
    connections : int
        Upper bound of the open connections.
    lookup : callable, optional
        Resolves host names; by default the operating system does.

    Raises
    ------
    ValueError
        The proxy is not an http or https URL.

    Examples
    --------
    >>> from webdata_nb.service.web.egress_policy import EgressPolicy
    >>> async def title_page(url: str) -> bytes:
    ...     async with Fetcher(EgressPolicy("team"), user_agent="example/1.0") as fetcher:
    ...         return (await fetcher.fetch(FetchRequest(url))).body
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        user_agent: str,
        proxy: str | None = None,
        ca_bundle: Path | None = None,
        limits: FetchLimits = FetchLimits(),  # noqa: B008 - frozen, so one default serves all
        connections: int = 100,
        lookup: Lookup | None = None,
    ) -> None:
        self._policy = policy
        self._user_agent = user_agent
        self._proxy = None if proxy is None else _proxy_url(proxy)
        self._ca_bundle = ca_bundle
        self._limits = limits
        self._connections = connections
        self._lookup = lookup
        self._resolver: Resolver | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Reading the system's certificates takes tens of milliseconds.
        tls = await asyncio.to_thread(tls_context, self._ca_bundle)
        self._resolver = Resolver(self._policy, lookup=self._lookup)
        self._session = self._new_session(self._new_connector(self._resolver, tls))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()
        self._session = self._resolver = None

    async def fetch(
        self, request: FetchRequest, *, allow_hop: AllowHop | None = None
    ) -> FetchedResponse:
        """Fetch one page.

        A response with an HTTP error status is a result, not an error.

        Parameters
        ----------
        request : FetchRequest
            The request.
        allow_hop : callable, optional
            Called with the URL of each redirect before it is requested. If it returns a reason,
            the fetch stops there and the reason is in `FetchedResponse.stopped`. Its time counts
            towards the page's deadline.

        Raises
        ------
        FetchError
            The page could not be fetched completely; `kind` states why.
        EgressDenied
            The policy forbids the URL, an address of its host, or a header.
        """
        limits = request.limits or self._limits
        timeout_s = limits.timeout_s if request.timeout_s is None else request.timeout_s
        if self._session is None:
            raise _not_open()
        follower = RedirectFollower(
            request, session=self._session, check_hop=self._check_hop, limits=limits
        )
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                return await follower.run(allow_hop)
        except TimeoutError:
            if deadline.expired():
                error = FetchError("timeout", follower.timeout_message(timeout_s))
                error.hops = follower.hops
                raise error from None
            raise
        except FetchError as failure:
            failure.hops = follower.hops
            raise

    async def check(self, url: str) -> None:
        """Refuse what `fetch` would refuse, without a request: for URLs that are stored for later.

        Raises as `addresses`.
        """
        await self.addresses(url)

    async def addresses(self, url: str) -> tuple[str, ...]:
        """Return the addresses of a URL's host; none for a name that only the proxy resolves.

        Raises
        ------
        FetchError
            Of kind ``bad_url`` or ``dns``.
        EgressDenied
            The policy forbids the URL or an address of its host.
        """
        target = split_url(canonical_url(url))
        await self._check_hop(target)
        if is_ip_address(target.host):
            return (target.host,)
        resolver = self._open_resolver()
        lookup = resolver.addresses if self._proxy is None else resolver.known_addresses
        return await lookup(target.host, target.port)

    async def _check_hop(self, target: UrlParts) -> None:
        """Check what needs no lookup; the connector checks the addresses that it resolves."""
        self._policy.check_parts(target)
        if is_ip_address(target.host):
            self._policy.check_address(target.host, target.port)
        elif self._proxy is not None:
            # The proxy resolves names itself. Addresses that this host knows are checked anyway.
            await self._open_resolver().known_addresses(target.host, target.port)

    def _open_resolver(self) -> Resolver:
        if self._resolver is None:
            raise _not_open()
        return self._resolver

    def _new_session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            proxy=self._proxy,
            headers={
                "User-Agent": self._user_agent,
                "Accept": ACCEPT_PAGES,
                "Accept-Encoding": ACCEPTED,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),  # `fetch` enforces the deadline
        )

    def _new_connector(self, resolver: Resolver, tls: ssl.SSLContext) -> aiohttp.TCPConnector:
        if self._proxy is not None:
            return _Connector(limit=self._connections, ssl=tls)
        return _Connector(
            limit=self._connections,
            ssl=tls,
            resolver=resolver,
            use_dns_cache=False,  # the resolver caches results, including failures
            socket_factory=self._checked_socket,
        )

    def _checked_socket(self, info: AddrInfoType) -> socket.socket:
        """Create the socket of a connection, after a last check of the address."""
        family, kind, protocol, _, address = info
        self._policy.check_address(str(address[0]), int(address[1]))
        return socket.socket(family, kind, protocol)


class _Connector(aiohttp.TCPConnector):
    """Opens connections whose responses need not be valid HTTP."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = cast("partial[ResponseHandler]", partial(ResponseReader, loop=self._loop))


def _not_open() -> RuntimeError:
    return RuntimeError("A Fetcher fetches only inside its `async with` block.")


def _proxy_url(proxy: str) -> URL:
    url = URL(proxy)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("A proxy is given as http://host:port or https://host:port.")
    return url
