"""Sends one HTTP request over httpx, and maps its errors to those of the toolkit."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import re
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

import httpx
import orjson

from webdata_nb import __version__, errors
from webdata_nb.contract.fields import proxy_url
from webdata_nb.foreign_json import MalformedJson
from webdata_nb.toolkit.client.replies import HttpReply
from webdata_nb.toolkit.client.retry import FailureKind

CONNECT_S: Final = 10.0
TOTAL_FACTOR: Final = 10
REPLY_BYTES: Final = 1 << 30
PROBLEM_BYTES: Final = 1 << 16
_KEEP_ALIVE_S: Final = 4.0  # below the 5 s after which common servers close an idle connection


@dataclass(frozen=True, slots=True)
class RequestPause:
    """The `seconds` that a request waits before its next attempt.

    `queued` tells a plan at its limit (with its limit and active count) from an error.
    """

    seconds: float
    queued: bool
    limit: int | None = None
    active: int | None = None


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.

    An `idempotent` one may be repeated although its method is not. One that `creates` a job needs
    its reply even after the caller was cancelled. `lane` selects the limiter; `none` bypasses it,
    as a cancel must. `timeout_s` bounds each read.
    """

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = False
    creates: bool = False
    lane: Literal["starts", "reads", "none"] = "reads"
    timeout_s: float | None = None
    on_pause: Callable[[RequestPause], object] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request without a usable reply, and the reason."""

    kind: FailureKind
    text: str


SendResult = HttpReply | RequestFailure
OpenResponse = httpx.Response


class HttpConnection:
    """One connection pool to one service with one key; used from one event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        trust_env: bool,
        headers: Mapping[str, str],
        timeout_s: float,
        proxy: str | None,
        ca_bundle: str | None,
    ) -> None:
        self._timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers=_common_headers(api_key, headers),
            # httpx would make every proxy of the environment, also those that are not used.
            trust_env=False,
            proxy=proxy or (environment_proxy(base_url) if trust_env else None),
            verify=_trust(base_url, ca_bundle, trust_env=trust_env),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=64, keepalive_expiry=_KEEP_ALIVE_S),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def json(self, request: ApiRequest) -> SendResult:
        """Send once, and decode the body of a successful reply; invalid JSON is a failure."""
        result = await self.send(request)
        if isinstance(result, RequestFailure) or not result.ok:
            return result
        try:
            return replace(result, decoded=result.decode_json(), body=b"")
        except MalformedJson as error:
            if result.is_json:
                words = f"broken JSON ({len(result.body)} bytes, {error})"
                return RequestFailure(FailureKind.INVALID, words)
            return RequestFailure(FailureKind.INVALID, f"{result.summary()}, which is no JSON")

    async def send(
        self, request: ApiRequest, open_responses: list[OpenResponse] | None = None
    ) -> SendResult:
        """Send once and read the reply, or add a successful one to `open_responses` unread."""
        total_s = TOTAL_FACTOR * (request.timeout_s or self._timeout_s)
        try:
            http_request = self._build(request)
            async with asyncio.timeout(total_s):
                response = await self._http.send(http_request, stream=True)
                headers = {name.lower(): value for name, value in response.headers.items()}
                if open_responses is not None and response.is_success:
                    open_responses.append(response)
                    return HttpReply(response.status_code, headers)
                return HttpReply(response.status_code, headers, await _read_body(response))
        except TimeoutError:
            return RequestFailure(FailureKind.LOST, f"no whole answer within {total_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _failure(error)

    def _build(self, request: ApiRequest) -> httpx.Request:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("this client belongs to another event loop: make one per loop")
        self._loop = loop
        content = None if request.body is None else _encoded(request.body)
        typed = {} if content is None else {"content-type": "application/json"}
        timeout_s = request.timeout_s or self._timeout_s
        return self._http.build_request(
            request.method,
            request.path,
            params=dict(request.params) or None,
            headers={**typed, **request.headers},
            content=content,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        )


async def pieces(response: OpenResponse) -> AsyncIterator[bytes]:
    """Yield a body as it arrives.

    Raises
    ------
    ConnectionFailed
        The body broke off, so it is not complete.
    """
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise errors.ConnectionFailed(f"the answer broke off: {_failure(error).text}") from None


async def _read_body(response: httpx.Response) -> bytes:
    """Read a body up to its limit, which is small for errors."""
    bound = REPLY_BYTES if response.is_success else PROBLEM_BYTES
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > bound:
                break
    finally:
        await response.aclose()
    if len(body) > bound and response.is_success:
        raise errors.BadAnswer(f"the answer is larger than {bound} bytes: ask for fewer rows")
    return bytes(body)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(dict(body))
    except TypeError as error:
        raise errors.InvalidArgument(f"the request cannot be written as JSON: {error}") from None


def environment_proxy(base_url: str) -> str | None:
    """Return the proxy that the environment names for a service; None where NO_PROXY lists it.

    Raises
    ------
    InvalidArgument
        It is not the URL of a proxy. No message repeats it, as it may have a password.
    MissingExtra
        A SOCKS proxy needs a package that is not installed.
    """
    url = urlsplit(base_url)
    host = url.hostname or ""
    proxies = urllib.request.getproxies()
    name = url.scheme if proxies.get(url.scheme) else "all"
    proxy = proxies.get(name, "").strip()
    if not proxy or urllib.request.proxy_bypass(host) or _is_listed(url, proxies.get("no", "")):
        return None
    variable = f"{name.upper()}_PROXY"
    otherwise = f"; or list {host} in NO_PROXY, or name another proxy in WEBDATA_PROXY"
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    is_socks = proxy.lower().startswith(("socks5://", "socks5h://"))
    if is_socks and importlib.util.find_spec("socksio") is None:
        raise errors.MissingExtra(
            f"{variable} names a SOCKS proxy, which needs another package: "
            f'pip install "httpx[socks]"{otherwise}'
        )
    try:
        # The parts of a SOCKS proxy's URL are those of any other.
        proxy_url(re.sub(r"(?i)^socks5h?:", "http:", proxy))
    except ValueError:
        raise errors.InvalidArgument(
            f"{variable} must be a proxy's URL, such as http://host:port{otherwise}"
        ) from None
    return proxy


def _is_listed(url: SplitResult, no_proxy: str) -> bool:
    """Whether NO_PROXY has the host, a domain above it, its network or the host with its port."""
    host = (url.hostname or "").lower()
    try:
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:
        port = None
    for entry in re.split(r"[,\s]+", no_proxy.lower()):
        name = entry.rpartition("://")[2]
        if name in {"*", host, f"{host}:{port}", f"[{host}]", f"[{host}]:{port}"}:
            return True
        domain = name.removeprefix("*").lstrip(".").removesuffix(f":{port}")
        if domain and host.endswith(f".{domain}"):
            return True
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False):
                return True
    return False


def _trust(base_url: str, ca_bundle: str | None, *, trust_env: bool) -> ssl.SSLContext:
    """Return the TLS trust; none for plain HTTP, since loading the authorities is slow."""
    if base_url.startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_bundle is None:
        return httpx.create_ssl_context(trust_env=trust_env)
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except OSError as error:
        raise errors.InvalidArgument(f"ca_bundle (WEBDATA_CA_BUNDLE): {error}") from None


def _common_headers(api_key: str, headers: Mapping[str, str]) -> dict[str, str]:
    common = {"user-agent": f"webdata_nb/{__version__}", "accept": "application/json"}
    if api_key:
        common["authorization"] = f"Bearer {api_key}"
    return {**common, **{name.lower(): value for name, value in headers.items()}}


def checked_key(api_key: str) -> str:
    """Return the key without blanks around it.

    Raises
    ------
    InvalidArgument
        A header cannot carry it. The message does not show the key, as that of httpx would.
    """
    key = api_key.strip()
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise errors.InvalidArgument("api_key has spaces, line breaks or characters beyond ASCII")
    return key


_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_INVALID_REQUEST: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)


def _failure(error: httpx.HTTPError | httpx.InvalidURL) -> RequestFailure:
    """Return what an error of httpx means: the request was not sent, lost or not readable."""
    if isinstance(error, _INVALID_REQUEST):
        # Its text may show a header.
        raise errors.InvalidArgument(
            f"the request cannot be sent ({type(error).__name__}): check base_url and headers"
        ) from None
    if isinstance(error, httpx.DecodingError):
        return RequestFailure(FailureKind.INVALID, f"a broken compression ({error})")
    text = str(error) or "no answer in time"
    kind = FailureKind.UNSENT if isinstance(error, _UNSENT) else FailureKind.LOST
    return RequestFailure(kind, f"{type(error).__name__}: {text}")
