"""One request, one answer: the only place that knows httpx, and where its errors are mapped."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import httpx
import orjson

from webdata_nb import __version__, errors
from webdata_nb.client.replies import Answer
from webdata_nb.client.retry import Trouble

CONNECT_S: Final = 10.0
TOTAL_FACTOR: Final = 10
REPLY_BYTES: Final = 1 << 30
PROBLEM_BYTES: Final = 1 << 16
_KEEP_ALIVE_S: Final = 4.0  # below the 5 s after which common servers close an idle connection


@dataclass(frozen=True, slots=True)
class Pause:
    """A request waits `seconds` before its next attempt.

    `queued` tells a full plan (with its limit and active count, where stated) from trouble.
    """

    seconds: float
    queued: bool
    limit: int | None = None
    active: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    `idempotent`: may be sent twice although its method may not. `creates`: starts a job, so its
    answer is still wanted when the caller has been cancelled. `lane` is the limiter's; `none`
    passes a full service by, as a cancel must. `timeout_s` bounds each read.
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
    on_pause: Callable[[Pause], object] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """No usable answer, and why."""

    trouble: Trouble
    text: str


Outcome = Answer | Failure
Opened = httpx.Response


class Exchange:
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
            trust_env=trust_env,
            proxy=proxy,
            verify=_trust(base_url, ca_bundle),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=64, keepalive_expiry=_KEEP_ALIVE_S),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def json(self, call: Call) -> Outcome:
        """Send once, and decode a good answer's body; one that is no JSON is a failure."""
        outcome = await self.send(call)
        if isinstance(outcome, Failure) or not outcome.good:
            return outcome
        try:
            return replace(outcome, decoded=orjson.loads(outcome.body), body=b"")
        except orjson.JSONDecodeError as error:
            return Failure(Trouble.GARBLED, f"{len(outcome.body)} bytes, {error.msg}")

    async def send(self, call: Call, keep: list[Opened] | None = None) -> Outcome:
        """Send once and read the answer; a good one is left unread in `keep`, if that is given."""
        total_s = TOTAL_FACTOR * (call.timeout_s or self._timeout_s)
        try:
            request = self._request(call)
            async with asyncio.timeout(total_s):
                response = await self._http.send(request, stream=True)
                headers = {name.lower(): value for name, value in response.headers.items()}
                if keep is not None and response.is_success:
                    keep.append(response)
                    return Answer(response.status_code, headers)
                return Answer(response.status_code, headers, await _whole(response))
        except TimeoutError:
            return Failure(Trouble.LOST, f"no whole answer within {total_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _failure(error)

    def _request(self, call: Call) -> httpx.Request:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("this client belongs to another event loop: make one per loop")
        self._loop = loop
        content = None if call.body is None else _encoded(call.body)
        typed = {} if content is None else {"content-type": "application/json"}
        timeout_s = call.timeout_s or self._timeout_s
        return self._http.build_request(
            call.method,
            call.path,
            params=dict(call.params) or None,
            headers={**typed, **call.headers},
            content=content,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        )


async def pieces(response: Opened) -> AsyncIterator[bytes]:
    """Give a body as it arrives.

    Raises
    ------
    ConnectionFailed
        It broke off: what was given so far is not the whole.
    """
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise errors.ConnectionFailed(f"the answer broke off: {_failure(error).text}") from None


async def _whole(response: httpx.Response) -> bytes:
    """Read a body up to its bound, which is small for an error."""
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


def _trust(base_url: str, ca_bundle: str | None) -> ssl.SSLContext | bool:
    """Return whom TLS trusts; plain HTTP trusts nobody, since reading the authorities is slow."""
    if base_url.startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_bundle is None:
        return True
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
        No header can carry it. (The message does not show it; httpx's would.)
    """
    key = api_key.strip()
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise errors.InvalidArgument("api_key has spaces, line breaks or characters beyond ASCII")
    return key


_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_OURS: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)


def _failure(error: httpx.HTTPError | httpx.InvalidURL) -> Failure:
    """Say what an error of httpx means for the request: not sent, lost, or not readable."""
    if isinstance(error, _OURS):
        # Its text is kept back, as it may show a header.
        raise errors.InvalidArgument(
            f"the request cannot be sent ({type(error).__name__}): check base_url and headers"
        ) from None
    if isinstance(error, httpx.DecodingError):
        return Failure(Trouble.GARBLED, f"its compression is broken: {error}")
    text = str(error) or "no answer in time"
    trouble = Trouble.UNSENT if isinstance(error, _UNSENT) else Trouble.LOST
    return Failure(trouble, f"{type(error).__name__}: {text}")
