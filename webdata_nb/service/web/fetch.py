"""Fetching pages over HTTP: the service's one way out to the network.

A URL is made canonical, checked by the egress policy, its host resolved, every address checked,
and the checked address dialled under the host's own name; each redirect hop anew.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp
from yarl import URL

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.addresses import is_ip_address
from webdata_nb.service.web.ca_bundle import tls_context
from webdata_nb.service.web.content_codings import ACCEPTED
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
from webdata_nb.service.web.urls import UrlParts, canonical_url, split_url

if TYPE_CHECKING:
    from types import TracebackType

    from aiohttp.connector import AddrInfoType

    from webdata_nb.service.web.egress_policy import EgressPolicy

__all__ = ["AllowHop", "FetchLimits", "FetchRequest", "FetchedResponse", "Fetcher", "Redirect"]


class Fetcher:
    """Fetches pages under one egress policy; one a process, used by `async with`.

    Parameters
    ----------
    policy : EgressPolicy
        What may be fetched.
    user_agent : str
        Sent with every request that does not bring its own.
    proxy : str, optional
        An http or https proxy that every request goes through; the environment's are ignored.
        Addresses are then checked before the proxy is asked, but it does the dialling.
    ca_bundle : Path, optional
        A PEM file of certificate authorities to trust beside the system's.
    limits : Limits
        What a page may cost where its request does not say.
    connections : int
        The most connections open at once.
    lookup : callable, optional
        Gives the addresses of a host name; by default the operating system is asked.

    Raises
    ------
    ValueError
        When the proxy is no http or https URL.

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
        trust = await asyncio.to_thread(tls_context, self._ca_bundle)
        self._resolver = Resolver(self._policy, lookup=self._lookup)
        self._session = self._new_session(self._new_connector(self._resolver, trust))
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

        An HTTP error status is a result like any other.

        Parameters
        ----------
        request : FetchRequest
            What to fetch, and how.
        allow_hop : callable, optional
            Asked with the URL of each redirect hop before it is requested. When it answers with
            a reason, the fetch ends there and the reason is in `FetchedResponse.stopped`. The time
            it takes counts against the page's deadline.

        Raises
        ------
        FetchError
            When the page did not arrive whole; `kind` says why.
        Refused
            When the policy forbids the URL, an address of its host, or a header.
        """
        limits = request.limits or self._limits
        timeout_s = limits.timeout_s if request.timeout_s is None else request.timeout_s
        visit = RedirectFollower(
            request, session=self._opened(), check_hop=self._check_hop, limits=limits
        )
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                return await visit.run(allow_hop)
        except TimeoutError:
            if deadline.expired():
                late = FetchError("timeout", visit.overdue(timeout_s))
                late.hops = visit.hops
                raise late from None
            raise
        except FetchError as failure:
            failure.hops = visit.hops
            raise

    async def check(self, url: str) -> None:
        """Refuse what `fetch` would refuse, without a request: for URLs that are kept for later.

        Raises
        ------
        FetchError
            Of kind ``bad_url`` or ``dns``.
        Refused
            When the policy forbids the URL or an address of its host.
        """
        there = split_url(canonical_url(url))
        await self._check_hop(there)
        if self._proxy is None and not is_ip_address(there.host):
            await self._names().addresses(there.host, there.port)

    async def _check_hop(self, there: UrlParts) -> None:
        """Check all that is known without a lookup; the connector checks what it resolves."""
        self._policy.check_parts(there)
        if is_ip_address(there.host):
            self._policy.check_address(there.host, there.port)
        elif self._proxy is not None:
            # A proxy resolves names itself. What this host knows of a name is checked all the same.
            await self._names().check_known(there.host, there.port)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise _closed()
        return self._session

    def _names(self) -> Resolver:
        if self._resolver is None:
            raise _closed()
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
            timeout=aiohttp.ClientTimeout(total=None),  # `fetch` keeps one deadline for all of it
        )

    def _new_connector(self, resolver: Resolver, trust: ssl.SSLContext) -> aiohttp.TCPConnector:
        if self._proxy is not None:
            return aiohttp.TCPConnector(limit=self._connections, ssl=trust)
        return aiohttp.TCPConnector(
            limit=self._connections,
            ssl=trust,
            resolver=resolver,
            use_dns_cache=False,  # the resolver keeps its answers itself, failures too
            socket_factory=self._checked_socket,
        )

    def _checked_socket(self, info: AddrInfoType) -> socket.socket:
        """Make the socket of one dial: the last look at the address that is really dialled."""
        family, kind, protocol, _, address = info
        self._policy.check_address(str(address[0]), int(address[1]))
        return socket.socket(family, kind, protocol)


def _closed() -> RuntimeError:
    return RuntimeError("A Fetcher fetches only inside its `async with` block.")


def _proxy_url(proxy: str) -> URL:
    url = URL(proxy)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("A proxy is given as http://host:port or https://host:port.")
    return url
