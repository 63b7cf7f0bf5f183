"""Sends requests over httpx, paced and bounded, until they succeed or another try makes no sense.

Errors of httpx and error replies are mapped to the errors of the toolkit in one place each, and
replies are read into the models of the contract. The concurrency of requests is limited per API
key, across all clients and event loops of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import importlib.util
import ipaddress
import itertools
import logging
import os
import re
import secrets
import ssl
import threading
import time
import urllib.request
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypedDict, TypeVar, Unpack
from urllib.parse import SplitResult, urlsplit

import httpx
import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from webdata_nb import __version__, errors
from webdata_nb.contract import paths
from webdata_nb.contract.error_messages import REFUSED, SCOPE, plain_message
from webdata_nb.contract.events import Done, Event, PageDone, Progress, Ranked, StreamEvent
from webdata_nb.contract.fields import SECRET_FIELDS, proxy_url
from webdata_nb.contract.replies import Weight
from webdata_nb.errors import BadAnswer
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.host_pacing import ConcurrencyWindow
from webdata_nb.pacing.retry_policies import EVENT_STREAM
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.client import retry
from webdata_nb.toolkit.client.retry import FailureKind, NoRetry, RetryDelay

R = TypeVar("R", bound=BaseModel)

_DETAIL_LENGTH: Final = 500
_FIRST_WORDS: Final = 60
_WITHOUT_TEXT: Final = re.compile(
    r"(?is)<!--.*?-->|<(head|script|style)\b(?:(?!<title).)*?</\1>|<[^>]*>|[\x00-\x1f\x7f]"
)
_WRONG_ADDRESS: Final = "set base_url (WEBDATA_BASE_URL) to the address of a webdata service"
_WEIGHTS: Final = TypeAdapter(list[Weight])
# Fields on which the rows of a result depend.
_NEEDED: Final = frozenset({"data", "creatives", "cursor", "result", "result_expired", "status"})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP reply; header names are in lower case, `decoded` is the JSON of a successful one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    decoded: Any = None

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def content_type(self) -> str:
        """The media type of the body; "" if it is not stated."""
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def is_json(self) -> bool:
        """Whether the reply says that its body is JSON."""
        return self.content_type.endswith("json")

    def decode_json(self) -> Any:
        """Return the value of the body; raises `MalformedJson`."""
        content_type = self.headers.get("content-type")
        return decode_json(self.body, content_type=content_type, any_integers=True)

    def summary(self) -> str:
        """Return the status, the media type and the first words, as in `200 text/html 'Home'`."""
        text = _WITHOUT_TEXT.sub(" ", self.body[: _DETAIL_LENGTH * 4].decode("utf-8", "replace"))
        words = " ".join(text.split())
        first = f" {words[:_FIRST_WORDS]!r}" if words else " without a body"
        return f"{self.status} {self.content_type or 'without a content type'}{first}"


# --------------------------------------------------------------------------------------- replies


def parse(
    model: type[R], body: Any, base_url: str = "", *, known: Mapping[str, Any] | None = None
) -> R:
    """Check a decoded body against its model.

    Parameters
    ----------
    model : type
        The model of the reply.
    body : Any
        The decoded body.
    base_url : str
        The service, for the message.
    known : Mapping, optional
        Values of fields that another service may leave out, because the caller knows them.

    Raises
    ------
    BadAnswer
        The body breaks the contract; the message and `field` name the first wrong field.
    """
    fields = _lenient(body)
    if known is not None and isinstance(fields, dict):
        fields = {**known, **fields}
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        if isinstance(fields, dict) and (repaired := _repaired(model, error, fields)) is not None:
            # Once only: a field that was repaired or left out cannot fail again.
            with contextlib.suppress(ValidationError):
                return model.model_validate(repaired)
        raise _contract_error(model.__name__, error, body, base_url) from None


def _repaired(
    model: type[BaseModel], error: ValidationError, fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the fields without those of a wrong type that nothing depends on; None if some do.

    A number becomes text where text is due.
    """
    repaired = dict(fields)
    for problem in error.errors(include_input=False, include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        value = repaired.get(name)
        if problem["type"] == "string_type" and isinstance(value, int | float):
            repaired[name] = str(value)
        elif problem["type"] == "string_type" and isinstance(value, dict | list):
            repaired[name] = orjson.dumps(value).decode()
        elif name in _NEEDED or name not in fields or model.model_fields[name].is_required():
            return None
        else:
            repaired.pop(name, None)
    return repaired


def parse_weights(body: Any) -> list[Weight]:
    """Check the weight catalog, an array; raises as `parse`."""
    try:
        return _WEIGHTS.validate_python(body)
    except ValidationError as error:
        raise _contract_error("weights", error, body) from None


def _lenient(body: Any) -> Any:
    """Drop null values, and read `queued` as the initial status, as the contract allows."""
    if not isinstance(body, dict):
        return body
    fields = {name: value for name, value in body.items() if value is not None}
    if "result" in fields:
        fields["result"] = _lenient(fields["result"])
    status = fields.get("status")
    if isinstance(status, str):
        fields["status"] = "started" if status.lower() == "queued" else status.lower()
    return fields


def _contract_error(
    model_name: str, error: ValidationError, body: Any, base_url: str = ""
) -> errors.BadAnswer:
    """Return an error that names the first wrong field, but no value: replies may hold secrets."""
    first = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    location = f"field {path!r}" if path else "the body"
    sender = f"the service at {base_url}" if base_url else "the service"
    foreign = ""
    if first["type"] == "missing" or not path:
        is_object = isinstance(body, dict)  # of which only the names are stated
        outline = format_value(body) if is_object else f"JSON of the type {type(body).__name__}"
        foreign = f"; it is {outline}: {_WRONG_ADDRESS}"
    return errors.BadAnswer(
        f"the answer of {sender} ({model_name}) breaks the contract: "
        f"{location} {plain_message(first)}{foreign}",
        field=path or None,
    )


# ---------------------------------------------------------------------------------------- errors


def error_of(
    reply: HttpReply,
    path: str,
    why: str = "",
    *,
    base_url: str = "",
    request_body: Mapping[str, Any] | None = None,
) -> errors.ServiceError | errors.BadAnswer:
    """Return the error for a reply with a status from 300.

    Parameters
    ----------
    reply : HttpReply
        The reply.
    path : str
        The operation's path; a 400 means a wrong state for some and a wrong request for others.
    why : str
        Why no further attempt was made.
    base_url : str
        The address of the service, for the message.
    request_body : Mapping, optional
        The request, whose wrong values the message states.
    """
    if reply.status < HTTPStatus.BAD_REQUEST:
        target = reply.headers.get("location", "").partition("?")[0] or "elsewhere"
        return errors.BadAnswer(
            f"{base_url}{path} points to {target}; redirects are not followed"
            ", since they would carry the key along: set base_url (WEBDATA_BASE_URL) to "
            "the final address"
        )
    detail, fields, types = _detail(reply)
    if fields and request_body is not None:
        detail = "; ".join(
            f"{location}: {text.rstrip('.')}{_value_text(location, text, request_body)}"
            for location, text in fields
        )[:_DETAIL_LENGTH]
    kind = _kind(reply, path, detail)
    attributes: dict[str, Any] = {
        "status": reply.status,
        "detail": detail,
        "retry_after": retry.retry_after_s(reply.headers, datetime.now(UTC)),
    }
    if issubclass(kind, errors.InvalidRequest):
        attributes["fields"], attributes["types"] = fields, types
    if issubclass(kind, errors.RateLimited):
        attributes["limit"], attributes["active"] = retry.concurrency_limits(reply.headers)
    if reply.status in _FOREIGN_STATUSES and not (reply.is_json or _is_contract_error(reply)):
        return kind(f"{base_url}{path} sent {reply.summary()}: {_WRONG_ADDRESS}", **attributes)
    return kind(_message(kind, reply, path, detail, why), **attributes)


_BY_STATUS: Final[dict[int, type[errors.ServiceError]]] = {
    HTTPStatus.BAD_REQUEST: errors.InvalidRequest,
    HTTPStatus.UNAUTHORIZED: errors.AuthError,
    HTTPStatus.PAYMENT_REQUIRED: errors.QuotaExhausted,
    HTTPStatus.FORBIDDEN: errors.PermissionDenied,
    HTTPStatus.NOT_FOUND: errors.NotFound,
    HTTPStatus.METHOD_NOT_ALLOWED: errors.NotSupported,
    HTTPStatus.NOT_ACCEPTABLE: errors.NotSupported,
    HTTPStatus.GONE: errors.Expired,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: errors.InvalidRequest,
    HTTPStatus.UNPROCESSABLE_ENTITY: errors.InvalidRequest,
    HTTPStatus.TOO_MANY_REQUESTS: errors.RateLimited,
    HTTPStatus.NOT_IMPLEMENTED: errors.NotSupported,
}

# Other servers answer these to a path that they do not know.
_FOREIGN_STATUSES: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)

_CODES_BY_STATUS: Final[dict[int, frozenset[str]]] = {
    HTTPStatus.FORBIDDEN: frozenset({SCOPE}),
    HTTPStatus.TOO_MANY_REQUESTS: retry.LIMIT_CODES,
    HTTPStatus.BAD_GATEWAY: frozenset({REFUSED}),
}
_ADVICE: Final[dict[type[errors.ServiceError], str]] = {
    errors.AuthError: "set api_key (WEBDATA_API_KEY) to a key that this service knows",
    errors.NotFound: "jobs_df() lists the jobs of this key",
    errors.WrongState: "read the job's status first",
    errors.Expired: "start a new job",
    errors.RateLimited: "run fewer jobs at once, or wait for them",
    errors.QuotaExhausted: "top up, or wait for the next billing period",
    errors.ServiceFault: "try again later",
}


def _kind(reply: HttpReply, path: str, detail: str) -> type[errors.ServiceError]:
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _BY_STATUS.get(reply.status, errors.ServiceFault)
    if reply.status == HTTPStatus.BAD_REQUEST and path.startswith(f"{paths.JOBS}/"):
        return errors.WrongState
    full = reply.status == HTTPStatus.TOO_MANY_REQUESTS
    if full and retry.is_quota_exhausted(reply.headers, detail, code_of(reply)):
        return errors.QuotaExhausted
    return _BY_STATUS.get(reply.status, errors.ServiceError)


def _is_contract_error(reply: HttpReply) -> bool:
    """Return whether the body is that of a service, whatever its content type says."""
    try:
        return isinstance(reply.decode_json(), dict | list)
    except MalformedJson:
        return not reply.body


_MEANINGS: Final[dict[type[errors.ServiceError], str]] = {
    errors.InvalidRequest: "the service refuses the request",
    errors.WrongState: "the state of the job does not allow this",
    errors.AuthError: "the service does not accept the key",
    errors.PermissionDenied: "the service does not allow this",
    errors.Expired: "the results have expired",
    errors.NotSupported: "the service does not offer this",
    errors.RateLimited: "the service is asked for too much at once",
    errors.QuotaExhausted: "the credits are used up",
    errors.ServiceFault: "the service failed",
}


def _message(
    kind: type[errors.ServiceError], reply: HttpReply, path: str, detail: str, why: str
) -> str:
    """Return what a status means, the service's own words, and what to do."""
    meaning = _MEANINGS.get(kind, "the service refuses the request")
    if kind is errors.NotFound:
        meaning = f"the service finds nothing at {path}"
    elif not detail and kind in {errors.ServiceError, errors.InvalidRequest, errors.ServiceFault}:
        meaning = f"{meaning} (status {reply.status})"
    advice = _ADVICE.get(kind, "")
    if code_of(reply) == REFUSED:
        meaning, advice = "the source of ads refuses the request", ""
    if code_of(reply) == SCOPE:
        advice = "set api_key (WEBDATA_API_KEY) to a key that has it"
    after = "; ".join(part for part in (detail.rstrip("."), advice, why) if part)
    return f"{meaning}: {after}" if detail else "; ".join(filter(None, (meaning, after)))


def code_of(reply: HttpReply) -> str | None:
    """Return the code in a 403, a 429 or a 502; None without a known one."""
    known = _CODES_BY_STATUS.get(reply.status)
    if known is None:
        return None
    try:
        body = reply.decode_json()
    except MalformedJson:
        return None
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in known else None


class _ErrorDetail(NamedTuple):
    """The text of an error body, and path, message and type of each invalid field."""

    text: str
    fields: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] = ()


def _detail(reply: HttpReply) -> _ErrorDetail:
    """Read any error body: the contract's, that of a similar API, or a proxy's text page."""
    try:
        body = reply.decode_json()
    except MalformedJson:
        text = " ".join(reply.body[: 2 * _DETAIL_LENGTH].decode("utf-8", "replace").split())
        return _ErrorDetail("" if text.startswith("<") else text[:_DETAIL_LENGTH])  # no HTML
    detail = body
    if isinstance(body, dict):
        detail = next((body[name] for name in ("detail", "error", "message") if body.get(name)), "")
    if isinstance(detail, list):
        entries = [entry for entry in detail if isinstance(entry, dict)]
        fields = []
        for entry in entries:
            loc = entry.get("loc")
            parts = [str(part) for part in loc if part != "body"] if isinstance(loc, list) else []
            fields.append((".".join(parts) or "body", str(entry.get("msg", "invalid"))))
        text = "; ".join(f"{location}: {words}" for location, words in fields)
        types = tuple(str(entry.get("type", "")) for entry in entries)
        return _ErrorDetail(text[:_DETAIL_LENGTH], tuple(fields), types)
    text = detail if isinstance(detail, str) else orjson.dumps(detail).decode()
    return _ErrorDetail(text[:_DETAIL_LENGTH])


def _value_text(location: str, text: str, request_body: Mapping[str, Any]) -> str:
    """Return the end of a message: the wrong value of the request, and the closest valid one."""
    value: Any = request_body
    names = location.split(".")
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, str | int | float) or not SECRET_FIELDS.isdisjoint(names):
        return ""
    choices = filter(None, text.partition("must be one of ")[2].split(", "))
    return f"; it is {format_value(value)}{did_you_mean(quoted(closest(value, choices)))}"


MAX_CONCURRENT: Final = 16


@dataclass(order=True, slots=True)
class _QueuedRequest:
    """A request in the queue; the lowest ticket goes first."""

    ticket: int
    loop: asyncio.AbstractEventLoop = field(compare=False)
    admitted: asyncio.Future[None] = field(compare=False)

    def admit(self) -> None:
        if not self.admitted.done():
            self.admitted.set_result(None)


class ConcurrencyLimiter:
    """A queue of requests of one kind, of which a `ConcurrencyWindow` admits some at a time.

    It is not bound to an event loop, since several loops may use one key: each caller waits on
    its own loop.
    """

    def __init__(self, max_concurrent: int = MAX_CONCURRENT) -> None:
        self._lock = threading.Lock()
        self._tickets = itertools.count()
        self._queue: list[_QueuedRequest] = []
        self._window = ConcurrencyWindow(max_concurrent, max_concurrent)
        self._active = 0

    def ticket(self) -> int:
        """Return a place in the queue, valid for all attempts of one request."""
        return next(self._tickets)

    def close_for(self, seconds: float) -> None:
        """Admit no request for `seconds`, and then one at a time."""
        with self._lock:
            self._window = self._window.closed_for(seconds, time.monotonic())

    def report_success(self) -> None:
        """Widen the window: the service took a request."""
        with self._lock:
            self._window = self._window.widened()
            self._admit()

    @contextlib.asynccontextmanager
    async def slot(self, ticket: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside the block."""
        await self._enter(ticket)
        try:
            # A slot that was assigned while the window was closing stays valid, and waits here.
            await self._until_open()
            yield
        finally:
            self._release()

    async def _enter(self, ticket: int) -> None:
        await self._until_open()
        loop = asyncio.get_running_loop()
        with self._lock:
            is_first = not self._queue or ticket < self._queue[0].ticket
            if self._active < self._window.size and is_first:
                self._active += 1
                return
            request = _QueuedRequest(ticket, loop, loop.create_future())
            heapq.heappush(self._queue, request)
        try:
            await request.admitted
        except asyncio.CancelledError:
            with self._lock:
                is_queued = request in self._queue
                if is_queued:
                    self._queue.remove(request)
                    heapq.heapify(self._queue)
            if not is_queued:  # the slot was assigned in the meantime
                self._release()
            raise

    async def _until_open(self) -> None:
        remaining_s = self._remaining_s()
        while remaining_s > 0:
            await asyncio.sleep(remaining_s)
            remaining_s = self._remaining_s()

    def _remaining_s(self) -> float:
        return self._window.remaining_s(time.monotonic())

    def _release(self) -> None:
        with self._lock:
            self._active -= 1
            self._admit()

    def _admit(self) -> None:
        """Assign free slots to the first in the queue; the caller holds the lock."""
        while self._queue and self._active < self._window.size:
            request = heapq.heappop(self._queue)
            # A closed loop has no callers left.
            with contextlib.suppress(RuntimeError):
                request.loop.call_soon_threadsafe(request.admit)
                self._active += 1


class KeyLimiters:
    """The limiters of one key: for starts, which use up the plan's slots, and for reads."""

    def __init__(self) -> None:
        self.starts: ConcurrencyLimiter = ConcurrencyLimiter()
        self.reads: ConcurrencyLimiter = ConcurrencyLimiter()


class _Registry:
    """The limiters in use, by service and key; a forked child begins with none."""

    def __init__(self) -> None:
        self.clear()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.clear)

    def clear(self) -> None:
        self._lock = threading.Lock()
        self._limiters: weakref.WeakValueDictionary[str, KeyLimiters] = (
            weakref.WeakValueDictionary()
        )

    def limiters(self, base_url: str, api_key: str) -> KeyLimiters:
        """Return the limiters that all clients of this process share for a key at a service."""
        name = key_digest(base_url, api_key)
        with self._lock:
            limiters = self._limiters.get(name)
            if limiters is None:
                limiters = self._limiters[name] = KeyLimiters()
            return limiters


limiters_for_key: Final = _Registry().limiters


def key_digest(base_url: str, api_key: str) -> str:
    """Return a name of a key at a service that does not show the key."""
    return hashlib.sha256(f"{base_url}\n{api_key}".encode()).hexdigest()


CONNECT_S: Final = 10.0
TIMEOUT_S: Final = 30.0
TOTAL_FACTOR: Final = 10
REPLY_BYTES: Final = 1 << 30
PROBLEM_BYTES: Final = 1 << 16
_KEEP_ALIVE_S: Final = 4.0  # below the 5 s after which common servers close an idle connection


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


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request without a usable reply, and the reason."""

    kind: FailureKind
    text: str


SendResult = HttpReply | RequestFailure


class HttpConnection:
    """One connection pool to one service with one key; used from one event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        headers: Mapping[str, str],
        options: TransportOptions,
    ) -> None:
        trust_env = options.get("trust_env", True)
        common = {"user-agent": f"webdata_nb/{__version__}", "accept": "application/json"}
        if api_key:
            common["authorization"] = f"Bearer {api_key}"
        self._timeout_s = options.get("timeout_s", TIMEOUT_S)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={**common, **{name.lower(): value for name, value in headers.items()}},
            # httpx would make every proxy of the environment, also those that are not used.
            trust_env=False,
            proxy=options.get("proxy") or (environment_proxy(base_url) if trust_env else None),
            verify=_trust(base_url, options.get("ca_bundle"), trust_env=trust_env),
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
        self, request: ApiRequest, open_responses: list[httpx.Response] | None = None
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
        try:
            content = None if request.body is None else orjson.dumps(dict(request.body))
        except TypeError as error:
            text = f"the request cannot be written as JSON: {error}"
            raise errors.InvalidArgument(text) from None
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


async def pieces(response: httpx.Response) -> AsyncIterator[bytes]:
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


log: Final = logging.getLogger("webdata_nb")

# Longer than a start waits for its job's end; with the cancel that follows, less than 3 s.
LATE_REPLY_S: Final = 1.5
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Send = Callable[[ApiRequest], Awaitable[SendResult]]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service, its key, and the headers of every request to it."""

    base_url: str
    api_key: str = field(repr=False)
    headers: Mapping[str, str]


# Returns the current address of the service after a request could not be sent; None if it is gone.
Locate = Callable[[], Awaitable[Address | None]]


class LateReply(asyncio.CancelledError):
    """The caller was cancelled, but the reply to its request says that a job was started."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__()
        self.reply = reply


class TransportOptions(TypedDict, total=False):
    """The options of a transport, which `Client` passes on.

    trust_env : bool
        Whether proxies of the environment are used (default True); False towards the local service.
    headers : Mapping[str, str]
        Sent with every request.
    timeout_s : float
        Seconds without a byte after which an attempt has failed (default 30); a whole attempt takes
        at most ten times as long.
    queue_timeout_s : float
        Seconds for which a request queues while the plan's concurrency is used up (default 3600).
    proxy, ca_bundle : str, optional
        A proxy's URL, and a file of certificate authorities.
    locate : Callable, optional
        Returns the service's present address when a request could not be sent.
    """

    trust_env: bool
    headers: Mapping[str, str]
    timeout_s: float
    queue_timeout_s: float
    proxy: str | None
    ca_bundle: str | None
    locate: Locate | None


class Transport:
    """Sends the requests of one client, with retries and its key's concurrency limits."""

    def __init__(self, base_url: str, api_key: str, **options: Unpack[TransportOptions]) -> None:
        self._options = options
        self.timeout_s: float = options.get("timeout_s", TIMEOUT_S)
        self._queue_timeout_s = options.get("queue_timeout_s", 3600.0)
        self._locate = options.get("locate")
        self._relocating = asyncio.Lock()
        self._use(Address(base_url, api_key, options.get("headers", _NONE)))

    def _use(self, address: Address) -> None:
        self.base_url: str = address.base_url.rstrip("/")
        self._key = checked_key(address.api_key)
        self._limiters = limiters_for_key(self.base_url, self._key)
        self._connection = HttpConnection(self.base_url, self._key, address.headers, self._options)

    @property
    def key_digest(self) -> str:
        """The name of what all clients of this process share for this key at this service."""
        return key_digest(self.base_url, self._key)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connection.aclose()

    async def json(self, request: ApiRequest) -> Any:
        """Return the decoded body of a successful reply.

        Raises
        ------
        ServiceError, ConnectionFailed, UnknownOutcome, BadAnswer
            The error of the last attempt.
        """
        return (await self._send_until_success(request, self._send)).decoded

    @contextlib.asynccontextmanager
    async def stream(
        self, request: ApiRequest
    ) -> AsyncIterator[tuple[HttpReply, AsyncIterator[bytes]]]:
        """Give the head of a successful reply, and its body in pieces as they arrive.

        Only opening is tried again: what follows a break is the caller's to decide.
        """
        open_responses: list[httpx.Response] = []

        async def send(request: ApiRequest) -> SendResult:
            return await self._connection.send(request, open_responses)

        try:
            reply = await self._send_until_success(request, send)
            yield reply, pieces(open_responses[-1])
        finally:
            for response in open_responses:
                await response.aclose()

    async def _send_until_success(self, request: ApiRequest, send: Send) -> HttpReply:
        limiters = {"starts": self._limiters.starts, "reads": self._limiters.reads}
        limiter = limiters.get(request.lane)
        ticket = limiter.ticket() if limiter else 0
        attempt, queue_ends_at = 1, time.monotonic() + self._queue_timeout_s
        while True:
            base_url = self.base_url
            async with limiter.slot(ticket) if limiter else contextlib.nullcontext():
                result = await send(request)
            if isinstance(result, HttpReply) and result.ok:
                if limiter:
                    limiter.report_success()
                return result
            if isinstance(result, RequestFailure) and result.kind is FailureKind.UNSENT:
                await self._relocate(base_url)
            reply = result if isinstance(result, HttpReply) else None
            decision: RetryDelay | NoRetry = retry.decide_retry(
                attempt,
                request.method,
                result.status if isinstance(result, HttpReply) else result.kind,
                reply.headers if reply else _NONE,
                datetime.now(UTC),
                idempotent=request.idempotent,
                detail=_detail(reply).text if reply else "",
                code=code_of(reply) if reply else None,
                jitter=secrets.randbelow(1000) / 1000,
            )
            if (
                isinstance(decision, RetryDelay)
                and decision.queued
                and time.monotonic() > queue_ends_at
            ):
                decision = NoRetry(f"queued for {self._queue_timeout_s:g} s")
            if isinstance(decision, NoRetry):
                self._raise(request, result, decision)
            await self._pause(request, result, decision, limiter)
            attempt += not decision.queued

    async def _relocate(self, failed: str) -> None:
        """Go to where the service answers now, unless another request has just done so."""
        if self._locate is None:
            return
        async with self._relocating:
            if self.base_url != failed:
                return
            address = await self._locate()
            if address is not None and address.base_url != failed:
                log.info("%s does not answer; going on at %s", failed, address.base_url)
                await self._connection.aclose()
                self._use(address)

    async def _pause(
        self,
        request: ApiRequest,
        result: SendResult,
        delay: RetryDelay,
        limiter: ConcurrencyLimiter | None,
    ) -> None:
        """Wait before the next attempt; a wait that the service asked for holds for the key."""
        headers = result.headers if isinstance(result, HttpReply) else _NONE
        log.info(
            "%s %s: %s; again in %.1f s",
            request.method,
            request.path,
            f"status {result.status}" if isinstance(result, HttpReply) else result.text,
            delay.seconds,
        )
        full = isinstance(result, HttpReply) and result.status == HTTPStatus.TOO_MANY_REQUESTS
        if limiter is None or not (full or "retry-after" in headers):
            await asyncio.sleep(delay.seconds)
            return
        limiter.close_for(delay.seconds)
        if limiter is self._limiters.reads:
            # Too many requests of any kind; too many jobs, in turn, do not hinder reading.
            self._limiters.starts.close_for(delay.seconds)

    def _raise(self, request: ApiRequest, result: SendResult, decision: NoRetry) -> NoReturn:
        if isinstance(result, HttpReply):
            if self._key:  # which the service may repeat in an error
                body = result.body.replace(self._key.encode(), b"***")
                result = replace(result, body=body)
            raise error_of(
                result,
                request.path,
                decision.reason,
                base_url=self.base_url,
                request_body=request.body,
            )
        operation = f"{request.method} {request.path} at {self.base_url}"
        if result.kind is FailureKind.INVALID:
            raise errors.BadAnswer(
                f"{operation} sent {result.text}: set base_url (WEBDATA_BASE_URL) to the "
                "address of a webdata service"
            )
        if result.kind is FailureKind.LOST and request.creates and not request.idempotent:
            raise errors.UnknownOutcome(
                f"the answer to {operation} was lost ({result.text}), so the job may have been "
                "started: look for it before starting another",
                idempotency_key=request.headers.get(paths.IDEMPOTENCY_KEY, ""),
            )
        reason = f" ({decision.reason})" if decision.reason else ""
        check = "; check base_url (WEBDATA_BASE_URL) and the network"
        remedy = check if result.kind is FailureKind.UNSENT else ""
        raise errors.ConnectionFailed(f"{operation} failed: {result.text}{reason}{remedy}")

    async def _send(self, request: ApiRequest) -> SendResult:
        """Send once; a start whose caller is cancelled waits briefly for its reply."""
        if not request.creates:
            return await self._connection.json(request)
        sending = asyncio.ensure_future(self._connection.json(request))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            try:
                await asyncio.wait([sending], timeout=LATE_REPLY_S)
            finally:
                sending.cancel()
            if sending.done() and not sending.cancelled() and sending.exception() is None:
                late_reply = sending.result()
                if isinstance(late_reply, HttpReply) and late_reply.ok:
                    raise LateReply(late_reply) from None
            raise


# Decodes server-sent events, and follows the event stream of a job, also where it breaks.


MEDIA_TYPE: Final = "text/event-stream"
EVENT_BYTES: Final = 1 << 20

_KINDS: Final[dict[str, type[Event]]] = {
    StreamEvent.PROGRESS: Progress,
    StreamEvent.RANKED: Ranked,
    StreamEvent.PAGE: PageDone,
    StreamEvent.DONE: Done,
}
# Splitting text instead would also break at U+2028 and friends, which JSON may hold.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream, before its data is read."""

    name: str
    data: bytes


class Decoder:
    """Collects pieces of a stream into messages."""

    def __init__(self, last_event_id: str | None = None) -> None:
        self._buffer = b""
        self._after_return = False
        self._name = "message"
        self._data: list[bytes] = []
        self._id = last_event_id

    @property
    def last_event_id(self) -> str | None:
        """The id of the last event that had one."""
        return self._id

    def feed(self, piece: bytes) -> list[Message]:
        """Take the next bytes; return the messages that they complete.

        Raises
        ------
        BadAnswer
            An event is larger than 1 MiB: this is no progress stream.
        """
        messages: list[Message] = []
        if self._after_return:
            piece = piece.removeprefix(b"\n")  # the other half of a CR LF
        self._after_return = piece.endswith(b"\r")
        *lines, self._buffer = _LINE_END.split(self._buffer + piece)
        for line in lines:
            if not line:
                if self._data:
                    messages.append(Message(self._name, b"\n".join(self._data)))
                self._name, self._data = "message", []
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
            elif field == b"event":
                self._name = value.decode("utf-8", "replace")
            elif field == b"id" and b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        if len(self._buffer) + sum(map(len, self._data)) > EVENT_BYTES:
            raise BadAnswer(f"an event of the stream is larger than {EVENT_BYTES} bytes")
        return messages


def event_of(message: Message) -> Event | None:
    """Return the contract's event, or None for one that this version does not know.

    Raises
    ------
    BadAnswer
        A known event whose data breaks the contract.
    """
    kind = _KINDS.get(message.name)
    if kind is None:
        return None
    try:
        data = decode_json(message.data)
    except MalformedJson:
        raise BadAnswer(f"the stream's {message.name!r} event is no JSON") from None
    return parse(kind, data)


IDLE_S: Final = 45.0
REOPENED: Final = 3


async def follow(transport: Transport, path: str) -> AsyncGenerator[Event, None]:
    """Give the events of a stream up to its `Done`, or up to the id behind which nothing follows.

    A stream that breaks, ends early or sends nothing at all for 45 s is opened again behind its
    last event; three times in a row without a new event, and it is given up.

    Raises
    ------
    NotSupported
        The answer is no event stream.
    ConnectionFailed
        It broke too often.
    """
    failures, last_event_id = 0, None
    while failures <= REOPENED:
        if failures:
            await asyncio.sleep(EVENT_STREAM.delay_s(failures))
        failures += 1
        decoder = Decoder(last_event_id)
        async with contextlib.aclosing(_connection_events(transport, path, decoder)) as events:
            async for event in events:
                if event is None:
                    return
                failures = 0
                yield event
                if isinstance(event, Done):
                    return
        last_event_id = decoder.last_event_id
    raise errors.ConnectionFailed(f"the event stream {path} keeps breaking off")


async def _connection_events(
    transport: Transport, path: str, decoder: Decoder
) -> AsyncGenerator[Event | None, None]:
    """Give the events of one connection, until it ends or breaks; None if no more will follow."""
    headers = {"accept": MEDIA_TYPE, "cache-control": "no-store"}
    if decoder.last_event_id is not None:
        headers["last-event-id"] = decoder.last_event_id
    request = ApiRequest("GET", path, headers=headers, timeout_s=IDLE_S)
    async with transport.stream(request) as (answer, pieces):
        if answer.status == HTTPStatus.NO_CONTENT:
            yield None
            return
        if not answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise errors.NotSupported(f"{path} is no event stream", status=answer.status)
        with contextlib.suppress(errors.ConnectionFailed):
            async for piece in pieces:
                for message in decoder.feed(piece):
                    if (event := event_of(message)) is not None:
                        yield event
