"""Replies 503 to requests that fail because the store is unreachable or the process shuts down."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.contract.paths import IDEMPOTENCY_KEY
from webdata_nb.service.errors import STORE_RETRY_S, StoreUnavailable

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
                await _stop_reply(scope)(scope, receive, send)


def _stop_reply(scope: Scope) -> JSONResponse:
    is_repeatable = scope["method"] in _SAFE_METHODS or IDEMPOTENCY_KEY in Headers(scope=scope)
    headers = {"Connection": "close"}
    if is_repeatable:
        headers["Retry-After"] = str(_STOP_RETRY_S)
    detail = _STOPPING if is_repeatable else _MAY_BE_DONE
    return JSONResponse({"detail": detail}, SERVICE_UNAVAILABLE, headers)
