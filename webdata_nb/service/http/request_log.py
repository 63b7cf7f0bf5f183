"""Around every request: an id that its log lines and its answer carry, a count, a line."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.service.observability.logs import REQUEST_ID, EventThrottle
from webdata_nb.service.observability.metrics import METHODS, OTHER, Metrics

HEADER: Final = "X-Request-ID"
# What a proxy makes; anything else could be a secret, or a line of somebody's own in our log.
_SANE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

# What says no to a caller whoever is right: credential, credits, limits, or no room at all. A
# request that does not fit its model is the caller's matter alone.
REFUSALS: Final = frozenset({401, 402, 403, 408, 413, 429, 503})

log = logging.getLogger("webdata_nb.service.requests")


class RequestLogMiddleware:
    """ASGI middleware, outermost; `routes` gives each endpoint's template."""

    def __init__(self, app: ASGIApp, routes: Mapping[Any, str], metrics: Metrics) -> None:
        self._app, self._routes, self._metrics = app, routes, metrics
        self._refusals = EventThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request = given if _SANE.fullmatch(given) else uuid.uuid4().hex
        status = 500
        began = time.perf_counter()

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request
                # Answers are an account's own; one that may be kept says so itself.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        token = REQUEST_ID.set(request)
        try:
            await self._app(scope, receive, told)
        finally:
            self._note(scope, status, time.perf_counter() - began)
            REQUEST_ID.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # The template alone: addresses and queries are the callers' own.
        route = self._routes.get(scope.get("endpoint"), OTHER)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._metrics.count_request(method, route, status, seconds)
        fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
        caller = _caller(scope)
        log.info("%s %s: %d", method, route, status, extra={"fields": {**fields, **caller}})
        if status in REFUSALS:
            level = logging.WARNING
            self._refusals.event(
                "request_refused",
                level,
                **caller,
                status=status,
                reason=scope.get("state", {}).get("refusal"),
                method=method,
                route=route,
            )


def _caller(scope: Scope) -> dict[str, Any]:
    """Return whose request it was, as far as the gate knows."""
    caller = scope.get("state", {}).get("caller")
    if caller is None:
        return {}
    key = {} if caller.key_id is None else {"key": caller.key_id}
    return {"account": caller.account_id, **key}
