"""Fetches pages over HTTP under the egress policy.

For each hop the URL is canonicalized and checked, its host resolved, every address checked, and
the connection opened to a checked address under the host's own name. A job's headers and cookies
are checked and go to the page's own origin only, and each hop is signed as it is sent.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import tempfile
import time
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

import aiohttp
import certifi
from aiohttp import CookieJar, hdrs
from yarl import URL

from webdata_nb.page.content.page_source import FetchedResponse, Redirect
from webdata_nb.page.declared_refresh import refresh_target
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import UrlParts, canonical_url, join_url, split_url
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.egress_policy import is_ip_address
from webdata_nb.service.web.request import (
    ACCEPT_PAGES,
    FetchLimits,
    FetchRequest,
    decode_header,
    exchange_of,
    format_seconds,
)
from webdata_nb.service.web.resolver import Lookup, Resolver
from webdata_nb.service.web.response_reader import ACCEPTED, ResponseBody, ResponseReader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import AddrInfoType
    from cryptography.hazmat.primitives.asymmetric import ec

    from webdata_nb.service.signing.request_signer import RequestSigner
    from webdata_nb.service.web.egress_policy import EgressPolicy

    CheckHop = Callable[[UrlParts], Awaitable[None]]

__all__ = ["FetchLimits", "FetchRequest", "Fetcher"]


TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_COOKIE_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f;\ud800-\udfff]*")
_RESERVED: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that frame the message or name its receiver; jobs could smuggle requests with them."""
_IMPERSONAL: Final = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that name no user. Any other header of a job may be a secret of its user."""


def is_header_value(value: str) -> bool:
    """Whether a request may have a header with this value."""
    return _HEADER_VALUE.fullmatch(value) is not None


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse request headers that are malformed or reserved.

    Raises
    ------
    EgressDenied
        The message contains the header's name, never its value.
    """
    for name, value in headers.items():
        if not TOKEN.fullmatch(name) or not is_header_value(value):
            raise EgressDenied(f"The request header {name[:80]!r} is not valid.")
        if name.lower() in _RESERVED:
            raise EgressDenied(f"The request header {name!r} is set by the service itself.")


def check_cookies(cookies: Mapping[str, str]) -> None:
    """Refuse cookies that are not valid in a Cookie header.

    Raises
    ------
    EgressDenied
        The message contains the cookie's name, never its value.
    """
    for name, value in cookies.items():
        if not TOKEN.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            raise EgressDenied(f"The cookie {name[:80]!r} is not valid.")


def may_identify_user(headers: Mapping[str, str] | None, cookies: Mapping[str, str] | None) -> bool:
    """Return whether headers and cookies of a job may identify its user.

    Requests with such headers are not signed.
    """
    return bool(cookies) or any(name.lower() not in _IMPERSONAL for name in headers or ())


class Credentials:
    """The headers and cookies of one page fetch across its redirects.

    Custom headers and cookies go to the page's own origin only. A redirect to another origin
    drops them for good, so no later hop receives them. A cookie that a hop sets goes back to that
    host only, and ends with the fetch.

    Parameters
    ----------
    headers, cookies : mapping of str to str
        The job's headers and cookies.

    Raises
    ------
    EgressDenied
        One of them may not be sent.
    """

    __slots__ = ("_cookies", "_headers", "_jars")

    def __init__(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        check_headers(headers)
        check_cookies(cookies)
        self._headers = headers
        self._cookies = cookies
        self._jars: dict[str, CookieJar] = {}

    @property
    def may_identify_user(self) -> bool:
        """Whether the next hop receives a header or a cookie that may identify the user."""
        return may_identify_user(self._headers, self._cookies)

    def drop(self) -> None:
        """Drop the job's headers and cookies, before a hop to another origin."""
        self._headers = {}
        self._cookies = {}

    def add_cookies(self, set_cookies: Sequence[str], url: URL) -> None:
        """Store the cookies of a redirect: many sites require them at the next hop."""
        if set_cookies and url.raw_host is not None:
            jar = self._jars.setdefault(url.raw_host, CookieJar(unsafe=True, quote_cookie=False))
            jar.update_cookies_from_headers(set_cookies, url)

    def headers_for(self, url: URL) -> dict[str, str]:
        """Return the headers for a hop."""
        headers = dict(self._headers)
        pairs = dict(self._cookies)
        jar = self._jars.get(url.raw_host or "")
        if jar is not None:
            stored = {name: cookie.value for name, cookie in jar.filter_cookies(url).items()}
            pairs |= {name: text for name, text in stored.items() if _COOKIE_VALUE.fullmatch(text)}
        if pairs:
            name = next((name for name in headers if name.lower() == "cookie"), None)
            cookie_headers = [] if name is None else [headers.pop(name)]
            headers["Cookie"] = "; ".join(
                [*cookie_headers, *(f"{k}={v}" for k, v in pairs.items())]
            )
        return headers


class SigningMiddleware:
    """Signs each request as it is sent.

    aiohttp calls a middleware for each attempt, so that a request that it repeats on a new
    connection has a signature of its own, and after it has built the Host header.
    """

    def __init__(self, signer: RequestSigner) -> None:
        self._signer = signer

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Sign a request and send it."""
        host = request.headers[hdrs.HOST]
        request.headers.update(self._signer.headers(request.method, host, request.url.raw_path))
        return await handler(request)


def to_fetch_error(exc: Exception, host: str) -> FetchError:
    """Convert an exception of aiohttp.

    Parameters
    ----------
    exc : Exception
        The exception; an unknown class counts as invalid HTTP.
    host : str
        The host, for the message.
    """
    # Derived classes come before their bases.
    match exc:
        case aiohttp.ClientConnectorCertificateError():
            cause = exc.certificate_error
            reason = getattr(cause, "verify_message", "") or _short_text(cause)
            return FetchError("tls", f"The certificate of {host} is not trusted ({reason}).")
        case aiohttp.ClientConnectorSSLError():
            reason = _system_reason(exc.os_error)
            return FetchError("tls", f"No secure connection to {host} ({reason}).")
        case aiohttp.ClientProxyConnectionError():
            reason = _system_reason(exc.os_error)
            return FetchError("connect", f"The proxy could not be reached ({reason}).")
        case aiohttp.ClientConnectorError():
            reason = _system_reason(exc.os_error)
            return FetchError("connect", f"{host} could not be reached ({reason}).")
        case aiohttp.ClientHttpProxyError():
            return FetchError("connect", f"The proxy gave no way to {host} (status {exc.status}).")
        case aiohttp.ClientResponseError():
            # After the first colon the parser quotes the response.
            reason = exc.message.partition(":")[0][:120]
            return FetchError(
                "protocol", f"{host} sent something that is not valid HTTP ({reason})."
            )
        case aiohttp.InvalidURL():
            return FetchError("bad_url", f"The URL {str(exc.url)[:200]!r} cannot be requested.")
        case TimeoutError():
            return FetchError("timeout", f"{host} did not answer in time.")
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError() | OSError():
            return FetchError(
                "reset", f"{host} closed the connection before its answer was complete."
            )
        case _:
            reason = _short_text(exc)
            return FetchError("protocol", f"The answer of {host} could not be read ({reason}).")


def _system_reason(exc: OSError) -> str:
    if isinstance(exc, ssl.SSLError):
        return exc.reason or _short_text(exc)
    return os.strerror(exc.errno) if exc.errno else _short_text(exc)


def _short_text(exc: BaseException) -> str:
    return str(exc)[:120] or type(exc).__name__


_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_KEEP_METHOD: Final = frozenset((307, 308))
_MAX_HEADER_LINES: Final = 256
# Of the body of a redirect, which is read for archives only.
_REDIRECT_BODY_BYTES: Final = 64 * 1024


class RedirectFollower:
    """Fetches one page across its redirects.

    Parameters
    ----------
    request : FetchRequest
        The request.
    session : aiohttp.ClientSession
        A session that follows no redirects and decodes no content codings.
    check_hop : callable
        Raises `EgressDenied` for a forbidden URL; called before every request.
    limits : Limits
        Limits of the page. The caller enforces the deadline.

    Raises
    ------
    FetchError
        The URL is invalid, or a header or cookie may not be sent.
    """

    def __init__(
        self,
        request: FetchRequest,
        *,
        session: aiohttp.ClientSession,
        check_hop: CheckHop,
        limits: FetchLimits,
    ) -> None:
        self._request = request
        self._session = session
        self._check_hop = check_hop
        self._limits = limits
        self._method = request.method.upper()
        self._request_body = request.body
        self._credentials = Credentials(request.headers, request.cookies)
        self._requested_url = self._url = canonical_url(request.url)
        self._hops: list[Redirect] = []
        self._visited: set[tuple[str, str | None]] = set()
        self._body: ResponseBody | None = None
        self._started, self._requested_at = time.perf_counter(), datetime.now(UTC)

    async def run(self) -> FetchedResponse:
        """Follow redirects until a response is not one, or `allow_hop` returns a reason to stop."""
        while True:
            reply = await self._send()
            if isinstance(reply, FetchedResponse):
                return reply
            self._hops.append(Redirect(self._url, reply.status))
            if len(self._hops) > self._limits.redirects:
                limit = self._limits.redirects
                raise FetchError("redirects", f"The page redirects more than {limit} times.")
            if reply.status not in _KEEP_METHOD and self._method != "HEAD":
                self._method, self._request_body = "GET", None
            before, after = split_url(self._url), split_url(reply.target)
            if (before.scheme, before.authority) != (after.scheme, after.authority):
                if self._request_body is not None:
                    raise FetchError(
                        "redirects", "The answer would take the request's body elsewhere."
                    )
                self._credentials.drop()
            self._url = reply.target
            allow_hop = self._request.allow_hop
            reason = None if allow_hop is None else await allow_hop(reply.target)
            if reason is not None:
                return self._response(reply.status, reply.headers, stopped=reason)

    @property
    def hops(self) -> int:
        """Number of redirects so far."""
        return len(self._hops)

    def timeout_message(self, timeout_s: float) -> str:
        """Return an error message for the end of the deadline."""
        host = split_url(self._url).host
        if self._body is None:
            return f"{host} did not answer within {format_seconds(timeout_s)} s."
        received = f"{self._body.wire_bytes:,} bytes of the body came"
        return (
            f"{host} did not send the whole page within {format_seconds(timeout_s)} s ({received})."
        )

    async def _send(self) -> FetchedResponse | _RedirectReply:
        """Send one request; read the response unless it is a redirect."""
        target = split_url(self._url)
        await self._check_hop(target)
        url = URL.build(
            scheme=target.scheme,
            authority=target.authority,
            path=target.path,
            query_string=target.query or "",
            encoded=True,
        )
        headers = self._headers(url)
        signer = None if self._credentials.may_identify_user else self._request.signer
        self._requested_at = datetime.now(UTC)
        try:
            async with self._session.request(
                self._method,
                url,
                headers=headers,
                data=self._request_body,
                allow_redirects=False,
                max_line_size=self._limits.header_bytes,
                max_field_size=self._limits.header_bytes,
                max_headers=_MAX_HEADER_LINES,
                middlewares=() if signer is None else (SigningMiddleware(signer),),
            ) as response:
                return await self._read(response)
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise to_fetch_error(exc, target.host) from exc

    async def _read(self, response: aiohttp.ClientResponse) -> FetchedResponse | _RedirectReply:
        if sum([len(name) + len(value) for name, value in response.raw_headers]) > (
            self._limits.header_bytes
        ):
            raise FetchError(
                "protocol",
                f"The response headers are larger than {self._limits.header_bytes:,} bytes.",
            )
        headers = tuple(
            [
                (name.decode("latin-1").lower(), decode_header(value))
                for name, value in response.raw_headers
            ]
        )
        target = None
        if self._request.follow_redirects:
            location = _location(response.raw_headers)
            target = redirect_target(self._url, response.status, location)
        if target is not None:
            await self._record_redirect(response)
            self._credentials.add_cookies(response.headers.getall("Set-Cookie", ()), response.url)
            return _RedirectReply(response.status, headers, target)
        refuse, refused = self._request.refuse_headers, None
        if refuse is not None and HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            refused = refuse(self._url, headers)
        if refused is not None or not self._request.read_body:
            return self._response(response.status, headers, refused=refused)
        limits, is_recorded = self._limits, self._request.record is not None
        self._body = ResponseBody(
            response, limits.wire_bytes, limits.decoded_bytes, retain=is_recorded
        )
        try:
            body = await self._body.read()
        except FetchError as error:
            if error.kind in {"too_large", "decode"}:
                is_truncated = error.kind == "too_large"
                await self._record(response, self._body.as_sent(), is_truncated=is_truncated)
            raise
        await self._record(response, self._body.as_sent())
        fetched = self._response(response.status, headers, body)
        target = self._declared_target(fetched)
        return fetched if target is None else _RedirectReply(response.status, headers, target)

    async def _record_redirect(self, response: aiohttp.ClientResponse) -> None:
        if self._request.record is None:
            return
        body = ResponseBody(response, _REDIRECT_BODY_BYTES, _REDIRECT_BODY_BYTES, retain=True)
        is_truncated = False
        try:
            await body.read()
        except (FetchError, aiohttp.ClientError):  # the redirect is followed anyway
            is_truncated = True
        await self._record(response, body.as_sent(), is_truncated=is_truncated)

    async def _record(
        self, response: aiohttp.ClientResponse, body: bytes, *, is_truncated: bool = False
    ) -> None:
        if self._request.record is not None:
            exchange = exchange_of(
                self._url, response, body, self._requested_at, is_truncated=is_truncated
            )
            await self._request.record(exchange)

    def _headers(self, url: URL) -> dict[str, str] | None:
        headers = self._credentials.headers_for(url)
        visit = (self._url, headers.get("Cookie"))
        if visit in self._visited:
            raise FetchError("redirects", f"The page redirects in a circle, to {self._url!r}.")
        self._visited.add(visit)
        if self._request.accept != ACCEPT_PAGES and not any(
            name.lower() == "accept" for name in headers
        ):
            headers["Accept"] = self._request.accept
        validators = self._request.validators
        if validators is not None and validators.url == self._url:
            headers |= validators.headers
        return headers or None

    def _declared_target(self, fetched: FetchedResponse) -> str | None:
        """Return where a page redirects to by its own declaration; None where that is not followed.

        A declaration is no duty: one that leads in a circle, or too far, ends at this page.
        """
        request = self._request
        is_page = request.follow_redirects and request.accept == ACCEPT_PAGES
        if not is_page or fetched.status != HTTPStatus.OK:
            return None
        target = refresh_target(self._url, fetched.header("refresh"), fetched.body)
        if len(self._hops) >= self._limits.redirects or any(
            hop.url == target for hop in self._hops
        ):
            return None
        return target

    def _response(
        self,
        status: int,
        headers: tuple[tuple[str, str], ...],
        body: bytes = b"",
        stopped: str | None = None,
        refused: str | None = None,
    ) -> FetchedResponse:
        return FetchedResponse(
            url=self._requested_url,
            final_url=self._url,
            status=status,
            content_type=next((value for name, value in headers if name == "content-type"), None),
            body=body,
            redirects=tuple(self._hops),
            fetched_at=datetime.now(UTC),
            headers=headers,
            wire_bytes=0 if self._body is None else self._body.wire_bytes,
            stopped=stopped,
            refused=refused,
        )


def redirect_target(url: str, status: int, location: str | None) -> str | None:
    """Return where a response redirects to; None for one that does not.

    Raises
    ------
    FetchError
        Of kind ``bad_url``: the target is not a web page.
    """
    if status not in _REDIRECTS or location is None:
        return None
    target = join_url(url, location)
    if target is None:
        excerpt = location[:200]
        raise FetchError("bad_url", f"The page redirects to {excerpt!r}, which is not a web page.")
    return target


@dataclass(frozen=True, slots=True)
class _RedirectReply:
    """A response that redirects to another URL."""

    status: int
    headers: tuple[tuple[str, str], ...]
    target: str


def _location(raw: tuple[tuple[bytes, bytes], ...]) -> str | None:
    for name, value in raw:
        if name.lower() == b"location":
            try:
                return value.decode()
            except UnicodeDecodeError:
                # Bytes that are not UTF-8 go back to the server unchanged, as in browsers.
                return "".join(chr(b) if b < 0x80 else f"%{b:02X}" for b in value)  # noqa: PLR2004 - the end of ASCII
    return None


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
        self._proxy = None if proxy is None else URL(proxy)
        if self._proxy is not None and (
            self._proxy.scheme not in {"http", "https"} or not self._proxy.host
        ):
            raise ValueError("A proxy is given as http://host:port or https://host:port.")
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
        if self._proxy is not None:
            connector = _Connector(limit=self._connections, ssl=tls)
        else:
            connector = _Connector(
                limit=self._connections,
                ssl=tls,
                resolver=self._resolver,
                use_dns_cache=False,  # the resolver caches results, including failures
                socket_factory=self._checked_socket,
            )
        self._session = aiohttp.ClientSession(
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
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()
        self._session = self._resolver = None

    async def fetch(self, request: FetchRequest) -> FetchedResponse:
        """Fetch one page.

        A response with an HTTP error status is a result, not an error.

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
                return await follower.run()
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


# TLS contexts that trust the system and a CA bundle, and the interception of TLS for browsers.
#
# Chromium accepts no CA bundle. With a bundle, the forward proxy itself opens the TLS connection to
# the site, with the fetcher's trust, and another one to the browser. For the latter it uses a key
# that is generated for that browser, never leaves this process, and is the only key that the
# browser accepts without verification.


def tls_context(ca_bundle: Path | None = None) -> ssl.SSLContext:
    """Return a context for connections to sites.

    Callers share it, because reading the certificates takes tens of milliseconds. It is read again
    after a change of the files.

    Raises
    ------
    OSError
        The bundle cannot be read, or holds no certificate (`ssl.SSLError`).
    """
    paths = ssl.get_default_verify_paths()
    has_certificates = (
        hasattr(ssl, "enum_certificates")  # Windows stores them elsewhere
        or paths.cafile
        or (paths.capath and any(Path(paths.capath).iterdir()))
    )
    # Python from python.org on macOS has no certificates, and neither have bare containers.
    fallback = None if has_certificates else certifi.where()
    files = (paths.cafile, paths.capath, fallback, ca_bundle)
    return _load_context(fallback, ca_bundle, tuple(map(_file_version, files)))


@lru_cache(maxsize=8)
def _load_context(
    fallback: str | None, ca_bundle: Path | None, _versions: tuple[object, ...]
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=fallback)
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _file_version(path: str | Path | None) -> tuple[str, int, int, int] | None:
    """Return what differs once a file was replaced or changed; None if there is none."""
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


_HANDSHAKE_S: Final = 5.0
# Never resolved: the browser identifies the key, not the name.
_COMMON_NAME: Final = "webdata.invalid"
_LIFETIME: Final = timedelta(days=3650)


class TlsInterceptor:
    """Verifies the certificates of sites, and presents its own to the browser.

    Attributes
    ----------
    fingerprint : str
        The hash of its public key (SHA-256 of the SPKI, in base64) for Chromium's option
        ``--ignore-certificate-errors-spki-list``.

    Examples
    --------
    >>> async def fingerprint() -> str:
    ...     return (await TlsInterceptor.create(Path("ca.pem"))).fingerprint
    """

    def __init__(self, site_context: ssl.SSLContext) -> None:
        # With certificates, the package takes 5 MB, and few services have a bundle and a browser.
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        self._site_context = site_context
        key = ec.generate_private_key(ec.SECP256R1())
        self._browser_context = _server_context(key)
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.fingerprint: str = b64encode(sha256(public).digest()).decode()

    @classmethod
    async def create(cls, ca_bundle: Path) -> Self:
        """Create an interceptor that trusts the system's authorities and the bundle's.

        Raises
        ------
        OSError
            The bundle cannot be read.
        """
        return await asyncio.to_thread(lambda: cls(tls_context(ca_bundle)))

    async def start_site_tls(self, site: asyncio.StreamWriter, host: str) -> bool:
        """Start TLS with a site and verify its certificate.

        If that fails, the connection is lost and the result is False.
        """
        # Certificates contain no trailing dot.
        name = host.rstrip(".")
        try:
            await site.start_tls(
                self._site_context, server_hostname=name, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except (OSError, EOFError):
            return False
        return True

    async def start_browser_tls(self, browser: asyncio.StreamWriter) -> None:
        """Start TLS with the browser on behalf of a verified site.

        Raises
        ------
        OSError
            The handshake failed.
        """
        await browser.start_tls(self._browser_context, ssl_handshake_timeout=_HANDSHAKE_S)


def _server_context(key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    """Return a context with a self-signed certificate.

    OpenSSL loads a key only from a file, which is deleted at once.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _COMMON_NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="webdata-tls-") as folder:
        chain = Path(folder, "chain.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(chain)
    return context
