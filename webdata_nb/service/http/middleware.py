"""ASGI middleware: the gate, the request log, and replies while the service is unavailable.

The gate checks host, origin, bearer token and body size before a request reaches its route. The
log gives every request an id and counts it in the metrics. Requests that fail because the store is
unreachable or the process shuts down are answered with 503.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.contract import limits
from webdata_nb.contract.choices import KEY_SCOPES
from webdata_nb.contract.paths import (
    DOCS,
    DOCS_FILES,
    HEALTH,
    IDEMPOTENCY_KEY,
    LOCAL_PREFIX,
    OPENAPI,
    OPERATOR_PAGE,
    READY,
    SIGNATURE_DIRECTORY,
)
from webdata_nb.service.errors import STORE_RETRY_S, AccountSuspended, StoreUnavailable
from webdata_nb.service.http.client_limits import (
    LOOPBACK_HOSTS,
    PER_ACCOUNT,
    RequestCounter,
    TooManyRequests,
    concurrency_headers,
)
from webdata_nb.service.observability.logs import CALLER, REQUEST_ID, Caller, EventThrottle
from webdata_nb.service.observability.metrics import METHODS, OTHER, Metrics
from webdata_nb.service.runtime.fair_scheduler import SERVICE_ACCOUNT, on_behalf_of

HEADER: Final = "X-Request-ID"
_NO_REPLY: Final = 500
# Ids of proxies have this form; other values could be secrets or forge log lines.
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

# Statuses that are logged as warnings: credentials, credits, limits and overload. Invalid requests
# are the mistake of the caller.
WARNING_STATUSES: Final = frozenset({401, 402, 403, 408, 413, 429, 503})

request_log: Final = logging.getLogger("webdata_nb.service.requests")


class RefusedRequests:
    """Counts refused requests by account, key, reason and status, until they are stored."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str, str]] = Counter()

    def add(self, caller: Caller | None, reason: str | None, status: int) -> None:
        """Count a request; `caller` is None if it had no valid key."""
        account_id = "" if caller is None else caller.account_id
        key_id = (caller and caller.key_id) or ""
        self._counts[account_id, key_id, "refused", reason or "", str(status)] += 1

    def take(self) -> Mapping[tuple[str, str, str, str, str], int]:
        """Return the counts, and begin anew."""
        counts, self._counts = self._counts, Counter()
        return counts

    def put_back(self, counts: Mapping[tuple[str, str, str, str, str], int]) -> None:
        """Add counts that could not be stored."""
        self._counts.update(counts)


class RequestLogMiddleware:
    """The outermost ASGI middleware; `routes` maps endpoints to their path templates."""

    def __init__(
        self, app: ASGIApp, routes: Mapping[Any, str], metrics: Metrics, refused: RefusedRequests
    ) -> None:
        self._app, self._routes, self._metrics, self._refused = app, routes, metrics, refused
        self._warnings = EventThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client_id = Headers(scope=scope).get(HEADER, "")
        request_id = client_id if _VALID_ID.fullmatch(client_id) else uuid.uuid4().hex
        status: int | None = None
        started_at = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                # Replies belong to one account; cacheable ones set the header themselves.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        token = REQUEST_ID.set(request_id)
        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:  # by the server, which stops
            status = status or SERVICE_UNAVAILABLE
            raise
        finally:
            self._record(scope, status or _NO_REPLY, time.perf_counter() - started_at)
            REQUEST_ID.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # Only the template, because paths and queries may be private.
        route = self._routes.get(scope.get("endpoint"), OTHER)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._metrics.count_request(method, route, status, seconds)
        fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
        state = scope.get("state", {})
        caller = state.get("caller")  # if the gate has authenticated the request
        who = {} if caller is None else {"account": caller.account_id}
        if caller is not None and caller.key_id is not None:
            who["key"] = caller.key_id
        request_log.info("%s %s: %d", method, route, status, extra={"fields": {**fields, **who}})
        if status in WARNING_STATUSES:
            self._refused.add(caller, state.get("refusal"), status)
            self._warnings.event(
                "request_refused",
                logging.WARNING,
                **who,
                status=status,
                reason=state.get("refusal"),
                method=method,
                route=route,
            )


MAX_BODY_BYTES: Final = limits.BODY_BYTES
BODY_TIMEOUT_S: Final = 10.0
# How much of a body that is too large is read, and for how long, before it is refused.
_DISCARDED_BYTES: Final = 16 * MAX_BODY_BYTES
_DISCARD_TIMEOUT_S: Final = 2.0
OPEN_PATHS: Final = frozenset(
    {
        HEALTH,
        READY,
        OPENAPI,
        SIGNATURE_DIRECTORY,
        DOCS,
        *(f"{DOCS}/{name}" for name in DOCS_FILES),
    }
)
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})

log: Final = logging.getLogger(__name__)

CallerLookup = Callable[[str], Awaitable[Caller | None]]


def local_callers(token: str, account_id: str) -> CallerLookup:
    """Return the lookup of a local service, which has one token and one account."""
    caller = Caller(account_id, None, frozenset(KEY_SCOPES))  # the user owns the machine

    async def caller_of(key: str) -> Caller | None:
        matches = hmac.compare_digest(key.encode("utf-8", "replace"), token.encode())
        return caller if matches else None

    return caller_of


@dataclass(frozen=True, slots=True)
class _Rejection(Exception):
    """A request that fails a check; status and detail of the reply."""

    status: int
    detail: str


class Gate:
    """ASGI middleware that authenticates requests and limits those of an account.

    Stores the account, the caller and what looks it up again in the state of the scope, and the
    caller in `logs.CALLER`. Below `OPERATOR_PAGE`, which browsers read, the key may also be the
    password of HTTP Basic authentication. Browsers add it to requests that other sites cause, so
    it opens reads alone.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        caller_of: CallerLookup,
        loopback_only: bool,
        per_account: int = PER_ACCOUNT,
    ) -> None:
        self._app, self._caller_of, self._loopback_only = app, caller_of, loopback_only
        self._requests = RequestCounter(per_account)
        # A quarter remains for other requests, such as cancelling the streamed jobs.
        self._streams = RequestCounter(max(1, per_account * 3 // 4))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_headers(scope, headers)
            if scope["path"] not in OPEN_PATHS:
                await self._authenticate(scope, headers)
        except _Rejection as rejection:
            if rejection is _TOO_LARGE and "expect" not in headers:
                await _discard_body(receive)
            await _error_reply(rejection, scope)(scope, receive, send)
            return
        except AccountSuspended as error:
            scope.setdefault("state", {})["refusal"] = type(error).__name__
            await _error_reply(_Rejection(403, str(error)), scope)(scope, receive, send)
            return
        except StoreUnavailable as error:
            await store_unavailable(error)(scope, receive, send)
            return
        except Exception:
            log.exception("the gate failed")
            await _error_reply(_INTERNAL_ERROR, scope)(scope, receive, send)
            return
        account = scope.get("state", {}).get("account_id", SERVICE_ACCOUNT)
        try:
            with self._counted(account, scope["path"]), on_behalf_of(account):
                await self._pass(scope, receive, send)
        except TooManyRequests as rejection:
            limit = rejection.limit
            detail = (
                f"too many requests at once: {limit} active of {limit} simultaneous ones that an "
                "account may have; close unused event streams"
            )
            reply_headers = concurrency_headers(limit, active=limit)
            reply = JSONResponse({"detail": detail, "code": "rate"}, 429, reply_headers)
            await reply(scope, receive, send)

    def _check_headers(self, scope: Scope, headers: Headers) -> None:
        """Check host, origin, and the declared body; raises `_Rejection`."""
        # Proxies route a request without one host in different ways (RFC 9112, 3.2).
        count = len(headers.getlist("host"))
        if count > 1 or (count == 0 and scope.get("http_version") == "1.1"):
            raise _Rejection(400, "an HTTP/1.1 request needs one Host header")
        if self._loopback_only:  # web pages can send requests: DNS rebinding, cross-site requests
            host = urlsplit(f"//{headers.get('host', '')}").hostname
            if host not in LOOPBACK_HOSTS:
                raise _Rejection(403, "this service answers on loopback names only")
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != headers.get("host"):
                raise _Rejection(403, "requests from other origins are refused")
            if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
                raise _Rejection(403, "cross-site requests are refused")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise _TOO_LARGE
        has_body = length != "0" or "transfer-encoding" in headers
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] in _BODY_METHODS and has_body and media_type != "application/json":
            raise _Rejection(415, "send JSON, with Content-Type: application/json")

    async def _authenticate(self, scope: Scope, headers: Headers) -> None:
        """Find the caller of a request; raises `_Rejection`."""
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        key = credential.strip() if scheme.lower() == "bearer" else None
        if scheme.lower() == "basic" and _takes_password(scope):
            with suppress(binascii.Error, UnicodeDecodeError):
                user_and_key = base64.b64decode(credential.strip(), validate=True).decode()
                key = user_and_key.partition(":")[2]
        if key is None:
            raise _UNAUTHENTICATED
        look_up = partial(self._caller_of, key)
        caller = await look_up()
        if caller is None:
            raise _UNAUTHENTICATED
        state = scope.setdefault("state", {})
        state["account_id"], state["caller"] = caller.account_id, caller
        state["look_up_caller"] = look_up
        CALLER.set(caller)

    @contextmanager
    def _counted(self, account: str, path: str) -> Iterator[None]:
        """Count a request of an account; raises `TooManyRequests`."""
        # Open paths have no account; lease renewals keep the local service alive.
        if path in OPEN_PATHS or (self._loopback_only and path.startswith(LOCAL_PREFIX)):
            yield
            return
        streams = self._streams.count(account) if path.endswith("/events") else nullcontext()
        with self._requests.count(account), streams:
            yield

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, limiting the size and time of the body; its declared length may be wrong."""
        received_bytes, has_more = 0, True
        deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT_S

        async def limited_receive() -> Message:
            nonlocal received_bytes, has_more
            try:
                async with asyncio.timeout_at(deadline if has_more else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(_TOO_SLOW.status, _TOO_SLOW.detail, _CLOSE) from None
            received_bytes += len(message.get("body", b""))
            has_more = message.get("more_body", False)
            if received_bytes > MAX_BODY_BYTES:
                raise HTTPException(_TOO_LARGE.status, _TOO_LARGE.detail, _CLOSE)
            return message

        await self._app(scope, limited_receive, send)


_INTERNAL_ERROR: Final = _Rejection(500, "the service made an error; its log has the details")
# The rest of the body is not read.
_CLOSE: Final = {"Connection": "close"}
_TOO_SLOW: Final = _Rejection(408, f"the request body took longer than {BODY_TIMEOUT_S:g} s")
_TOO_LARGE: Final = _Rejection(413, f"the request body is larger than {MAX_BODY_BYTES} bytes")


_UNAUTHENTICATED: Final = _Rejection(401, "missing or invalid bearer credential")


def _takes_password(scope: Scope) -> bool:
    """Whether the key may be the password of HTTP Basic authentication."""
    path: str = scope["path"]
    is_page = path == OPERATOR_PAGE or path.startswith(f"{OPERATOR_PAGE}/")
    return is_page and scope["method"] in {"GET", "HEAD"}


async def _discard_body(receive: Receive) -> None:
    """Read and drop a refused body, up to a limit.

    A connection that is closed with unread data is reset, and the client or proxy may then lose
    the reply.
    """
    unread = _DISCARDED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_TIMEOUT_S):
            while unread > 0:
                message = await receive()
                unread -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _error_reply(rejection: _Rejection, scope: Scope) -> JSONResponse:
    challenge = 'Basic realm="webdata"' if _takes_password(scope) else "Bearer"
    headers = {
        # What follows a request that is ambiguous may be part of it.
        HTTPStatus.BAD_REQUEST: _CLOSE,
        HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": challenge},
    }
    status = HTTPStatus(rejection.status)
    return JSONResponse({"detail": rejection.detail}, status, headers.get(status))


SERVICE_UNAVAILABLE: Final = 503
_STOP_RETRY_S: Final = 1
_STOPPING: Final = "this process stops before it could answer; send the request again"
_MAY_BE_DONE: Final = (
    "this process stops before it could answer; the request may have taken effect, so look before "
    "you send it again"
)
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def store_unavailable(error: StoreUnavailable) -> JSONResponse:
    """Return the reply to a request that needs the store while it is unavailable."""
    headers = {"Retry-After": str(STORE_RETRY_S)}
    return JSONResponse({"detail": str(error)}, SERVICE_UNAVAILABLE, headers)


class CancelledRequestMiddleware:
    """ASGI middleware that answers requests which the stopping server cancels.

    uvicorn would answer 500, which proxies do not repeat at another replica. Only requests that can
    be repeated without harm have a `Retry-After`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; if it is cancelled, end its reply, or refuse it."""
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            # Nobody waits for the task of a request, so that it may end as if it were complete.
            if scope["type"] == "http" and not has_started:
                is_repeatable = scope["method"] in _SAFE_METHODS or IDEMPOTENCY_KEY in Headers(
                    scope=scope
                )
                headers = {"Connection": "close"}
                if is_repeatable:
                    headers["Retry-After"] = str(_STOP_RETRY_S)
                detail = _STOPPING if is_repeatable else _MAY_BE_DONE
                await JSONResponse({"detail": detail}, SERVICE_UNAVAILABLE, headers)(
                    scope, receive, send
                )
