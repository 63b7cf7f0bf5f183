"""Who may come in: host, origin, bearer token, body size, before any route is reached."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.contract import limits
from webdata_nb.contract.paths import DOCS, DOCS_FILES, HEALTH, LOCAL_PREFIX, OPENAPI, READY
from webdata_nb.service.http.client_limits import PER_ACCOUNT, RequestCounter, TooManyRequests
from webdata_nb.service.observability.logs import CALLER, Caller
from webdata_nb.service.runtime.fair_scheduler import SERVICE_ACCOUNT, on_behalf_of

BODY_LIMIT: Final = limits.BODY_BYTES
BODY_S: Final = 10.0
_OPEN: Final = frozenset(
    {
        HEALTH,
        READY,
        OPENAPI,
        DOCS,
        *(f"{DOCS}/{name}" for name in DOCS_FILES),
    }
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

log = logging.getLogger(__name__)

CallerOf = Callable[[str], Awaitable[Caller | None]]


def local_callers(token: str, account_id: str) -> CallerOf:
    """Return the lookup of a local service: its token opens its one account."""
    only = Caller(account_id)

    async def caller_of(key: str) -> Caller | None:
        same = hmac.compare_digest(key.encode("utf-8", "replace"), token.encode())
        return only if same else None

    return caller_of


@dataclass(frozen=True, slots=True)
class _Refusal(Exception):
    """An answer given at the gate."""

    status: int
    detail: str


class Gate:
    """ASGI middleware; what passes has its account in `scope["state"]["account_id"]`.

    Whose request it is stands in `logs.CALLER` as well, for what writes of it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        caller_of: CallerOf,
        loopback_only: bool,
        per_account: int = PER_ACCOUNT,
    ) -> None:
        self._app, self._caller_of, self._loopback_only = app, caller_of, loopback_only
        self._requests = RequestCounter(per_account)
        # A quarter is left for other requests, such as cancelling what the streams tell of.
        self._streams = RequestCounter(max(1, per_account * 3 // 4))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if self._loopback_only:
                _check_browser(headers)
            _check_body(scope["method"], headers)
            if scope["path"] not in _OPEN:
                caller = await self._caller(headers)
                state = scope.setdefault("state", {})
                state["account_id"], state["caller"] = caller.account_id, caller
                CALLER.set(caller)
        except _Refusal as refusal:
            await _answer(refusal)(scope, receive, send)
            return
        except Exception:
            log.exception("the gate failed")
            await _answer(_BROKEN)(scope, receive, send)
            return
        account = scope.get("state", {}).get("account_id", SERVICE_ACCOUNT)
        try:
            with self._counted(account, scope["path"]), on_behalf_of(account):
                await self._pass(scope, receive, send)
        except TooManyRequests as refusal:
            await _too_many(refusal.most)(scope, receive, send)

    @contextmanager
    def _counted(self, account: str, path: str) -> Iterator[None]:
        """Count a request of an account; raises `TooManyRequests`."""
        # Leases of the local service are its life; whatever is open has no account.
        if path in _OPEN or (self._loopback_only and path.startswith(LOCAL_PREFIX)):
            yield
            return
        streams = self._streams.one(account) if path.endswith("/events") else nullcontext()
        with self._requests.one(account), streams:
            yield

    async def _caller(self, headers: Headers) -> Caller:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        caller = await self._caller_of(key.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise _Refusal(401, "missing or invalid bearer credential")
        return caller

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on, counting the body: a declared length is a promise, not a fact."""
        read, more = 0, True
        late = asyncio.get_running_loop().time() + BODY_S

        async def counted() -> Message:
            nonlocal read, more
            try:
                async with asyncio.timeout_at(late if more else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(_TOO_SLOW.status, _TOO_SLOW.detail, _CLOSE) from None
            read += len(message.get("body", b""))
            more = message.get("more_body", False)
            if read > BODY_LIMIT:
                raise HTTPException(_TOO_LARGE.status, _TOO_LARGE.detail, _CLOSE)
            return message

        await self._app(scope, counted, send)


_BROKEN: Final = _Refusal(500, "the service made an error; its log has the details")
# What is left of such a body is not worth reading.
_CLOSE: Final = {"Connection": "close"}
_TOO_SLOW: Final = _Refusal(408, f"the request body took longer than {BODY_S:g} s")
_TOO_LARGE: Final = _Refusal(413, f"the request body is larger than {BODY_LIMIT} bytes")


def _check_browser(headers: Headers) -> None:
    """Refuse what a web page in the user's browser could send: DNS rebinding, cross-site calls."""
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    if host not in _LOOPBACK:
        raise _Refusal(403, "this service answers on loopback names only")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        raise _Refusal(403, "requests from other origins are refused")
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise _Refusal(403, "cross-site requests are refused")


def _check_body(method: str, headers: Headers) -> None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > BODY_LIMIT:
        raise _TOO_LARGE
    has_body = length != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method in _WITH_BODY and has_body and kind != "application/json":
        raise _Refusal(415, "send JSON, with Content-Type: application/json")


def _too_many(most: int) -> JSONResponse:
    detail = (
        f"too many requests at once: {most} active of {most} simultaneous ones that an account may "
        "have; close event streams that nobody reads"
    )
    headers = {
        "Retry-After": "1",
        "X-Concurrency-Limit": str(most),
        "X-Concurrency-Active": str(most),
    }
    return JSONResponse({"detail": detail, "code": "rate"}, 429, headers)


def _answer(refusal: _Refusal) -> JSONResponse:
    bearer = refusal.status == HTTPStatus.UNAUTHORIZED
    headers = {"WWW-Authenticate": "Bearer"} if bearer else None
    return JSONResponse({"detail": refusal.detail}, refusal.status, headers)
