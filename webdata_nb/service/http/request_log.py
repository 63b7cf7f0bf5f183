"""Assigns an id to every request, logs it and counts it in the metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.service.http.unavailable import SERVICE_UNAVAILABLE
from webdata_nb.service.observability.logs import REQUEST_ID, EventThrottle
from webdata_nb.service.observability.metrics import METHODS, OTHER, Metrics

HEADER: Final = "X-Request-ID"
_NO_REPLY: Final = 500
# Ids of proxies have this form; other values could be secrets or forge log lines.
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

# Statuses that are logged as warnings: credentials, credits, limits and overload. Invalid requests
# are the mistake of the caller.
WARNING_STATUSES: Final = frozenset({401, 402, 403, 408, 413, 429, 503})

log = logging.getLogger("webdata_nb.service.requests")


class RequestLogMiddleware:
    """The outermost ASGI middleware; `routes` maps endpoints to their path templates."""

    def __init__(self, app: ASGIApp, routes: Mapping[Any, str], metrics: Metrics) -> None:
        self._app, self._routes, self._metrics = app, routes, metrics
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
        caller = _caller(scope)
        log.info("%s %s: %d", method, route, status, extra={"fields": {**fields, **caller}})
        if status in WARNING_STATUSES:
            self._warnings.event(
                "request_refused",
                logging.WARNING,
                **caller,
                status=status,
                reason=scope.get("state", {}).get("refusal"),
                method=method,
                route=route,
            )


def _caller(scope: Scope) -> dict[str, Any]:
    """Return the account and key of a request, if the gate has authenticated it."""
    caller = scope.get("state", {}).get("caller")
    if caller is None:
        return {}
    key = {} if caller.key_id is None else {"key": caller.key_id}
    return {"account": caller.account_id, **key}
