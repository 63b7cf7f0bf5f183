"""Limits the number of connections, the time for request headers and the time for unread replies.

uvicorn limits none of these, so slow clients could occupy all connections. `LimitedHttpProtocol`
is a subclass of its protocol, which `uvicorn.Config` takes as `http`. What is overridden is no
documented interface: `tests/test_private_members.py` says when a release changes it, and
`pyproject.toml` has an upper bound.

A connection that waits for a request is idle. At a limit, the connection that has been idle longest
is closed, first among those of the same address. If every connection is busy, a new one takes a
reserved slot, which serves only health checks.

A connection whose first request was not read yet may have one under way, always behind a proxy. It
is refused with a reply, and read until its client closes it: closing a connection with unread data
resets it, and the client loses the reply. nginx returns 502 then. The reply follows the request:
nginx joins one that comes before it to the reply of the replica that it tries next.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import orjson
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webdata_nb.contract.paths import HEALTH, READY
from webdata_nb.service.http.client_limits import (
    ClientLimits,
    RequestCounter,
    TooManyRequests,
    address_of,
    concurrency_headers,
)
from webdata_nb.service.observability.logs import EventThrottle

# From the start of the connection, or the first byte of a further request, to the last header.
HEADERS_TIMEOUT_S: Final = 10.0
# How much later a connection without a request is closed, so that what arrived is read first.
READ_FIRST_S: Final = 0.05
# httptools does not limit the size of headers.
MAX_HEADER_BYTES: Final = 64 * 1024
# The connection is aborted if the client reads nothing of its reply for this long.
UNREAD_TIMEOUT_S: Final = 30.0
# How long the request of a refused connection is waited for, and its end; and how many there are.
LINGER_S: Final = 2.0
MAX_LINGERING: Final = 256
_CHECK_INTERVAL_S: Final = 5.0
MAX_CONNECTIONS: Final = 1000
# Further connections, for health checks only.
RESERVED_CONNECTIONS: Final = 32
# Files and sockets that the service needs besides its connections.
OTHER_FILES: Final = 512
MAX_FILES: Final = 8192
RETRY_AFTER_S: Final = 1
_ALWAYS_ANSWERED: Final = frozenset({HEALTH, READY})


def _raw_reply(
    status: HTTPStatus, body: Mapping[str, str], headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    content = orjson.dumps(dict(body))
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n{''.join(lines)}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + content


_HEADERS_TIMEOUT: Final = _raw_reply(
    HTTPStatus.REQUEST_TIMEOUT,
    {"detail": f"the request's headers took longer than {HEADERS_TIMEOUT_S:g} s"},
)
_HEADERS_TOO_LARGE: Final = _raw_reply(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    {"detail": f"the request's headers are larger than {MAX_HEADER_BYTES} bytes"},
)
_TOTAL_LIMIT: Final = "too many connections; close those that are not needed"
_ADDRESS_LIMIT: Final = "too many connections from this address; close those that are not needed"
_INVALID_REQUEST: Final = _raw_reply(HTTPStatus.BAD_REQUEST, {"detail": "not a valid HTTP request"})


class ConnectionLimiter:
    """Tracks and limits the open connections of one server.

    Parameters
    ----------
    limits : ClientLimits
        Limits of one address, and the trusted proxies.
    most : int
        Most connections in all.
    reserved : int
        Further connections for health checks.
    on_refusal : callable, optional
        Called with the limit, `address` or `total`, for each refused connection or request.
    """

    def __init__(
        self,
        limits: ClientLimits = ClientLimits(),  # noqa: B008 - frozen, so one default serves all
        *,
        most: int = MAX_CONNECTIONS,
        reserved: int = RESERVED_CONNECTIONS,
        on_refusal: Callable[[str], None] | None = None,
    ) -> None:
        self._on_refusal, self._log = on_refusal, EventThrottle()
        self._most, self._reserved_most = most, reserved
        self.limits: ClientLimits = limits
        # Least recently used first.
        self._open: dict[LimitedHttpProtocol, None] = {}
        self._by_address: dict[str, dict[LimitedHttpProtocol, None]] = {}
        self._reserved: dict[tuple[str, int], tuple[LimitedHttpProtocol, str]] = {}
        self._lingering: set[LimitedHttpProtocol] = set()
        self._checks: asyncio.TimerHandle | None = None

    def protocol(self, **options: Any) -> LimitedHttpProtocol:
        """Create the protocol of a connection; uvicorn's factory."""
        return LimitedHttpProtocol(self, **options)

    def admit(self, connection: LimitedHttpProtocol) -> str | None:
        """Register a connection; return the reason if it is refused."""
        if self._checks is None:
            self._schedule_check()
        peer = connection.peer
        address = "" if self.limits.trusts(peer[0]) else address_of(peer[0])
        same_address = self._by_address.get(address, {}) if address else {}
        reason = None
        if len(same_address) >= self.limits.per_address and not self._drop_idle(
            same_address, _ADDRESS_LIMIT
        ):
            reason = _ADDRESS_LIMIT
        elif len(self._open) >= self._most and not self._drop_idle(self._open, _TOTAL_LIMIT):
            reason = _TOTAL_LIMIT
        if reason is None:
            connection.address = address
            self._open[connection] = None
            if address:
                self._by_address.setdefault(address, {})[connection] = None
            return None
        reserved = [reserved_connection for reserved_connection, _ in self._reserved.values()]
        if len(reserved) >= self._reserved_most and not self._drop_idle(reserved, reason):
            return reason
        self._reserved[peer] = connection, reason
        return None

    def _schedule_check(self) -> None:
        self._checks = asyncio.get_running_loop().call_later(_CHECK_INTERVAL_S, self._check_unread)

    def _check_unread(self) -> None:
        """Abort connections whose clients do not read their replies."""
        now = asyncio.get_running_loop().time()
        connections = [*self._open, *(connection for connection, _ in self._reserved.values())]
        for connection in connections:
            connection.abort_if_unread(now)
        self._checks = None
        if connections:
            self._schedule_check()

    def refuse(self, reason: str) -> None:
        """Count a refusal, and log it at most once a minute."""
        limit = "address" if reason == _ADDRESS_LIMIT else "total"
        if self._on_refusal is not None:
            self._on_refusal(limit)
        self._log.event("connection_refused", logging.WARNING, limit=limit)

    def mark_used(self, connection: LimitedHttpProtocol) -> None:
        """Make a connection the most recently used one."""
        for group in (self._open, self._by_address.get(connection.address, {})):
            if connection in group:
                del group[connection]
                group[connection] = None

    def remove(self, connection: LimitedHttpProtocol) -> None:
        """Remove a closed connection."""
        self._open.pop(connection, None)
        same_address = self._by_address.get(connection.address, {})
        same_address.pop(connection, None)
        if not same_address:
            self._by_address.pop(connection.address, None)
        if self._reserved.get(connection.peer, (None,))[0] is connection:
            del self._reserved[connection.peer]
        self._lingering.discard(connection)

    def may_linger(self, connection: LimitedHttpProtocol) -> bool:
        """Whether a connection may stay open for a moment after its last reply; registers it."""
        if connection not in self._lingering and len(self._lingering) >= MAX_LINGERING:
            return False
        self._lingering.add(connection)
        return True

    def reserved_reason(self, peer: tuple[str, int] | None) -> str | None:
        """Return why a peer has a reserved slot; None if its connection is a normal one."""
        reserved = None if peer is None else self._reserved.get(peer)
        return None if reserved is None else reserved[1]

    def _drop_idle(self, group: Iterable[LimitedHttpProtocol], reason: str) -> bool:
        """Close the connection that has been idle longest; False if none is idle."""
        now = asyncio.get_running_loop().time()
        idle = next((connection for connection in group if connection.may_be_dropped(now)), None)
        if idle is None:
            return False
        self.remove(idle)
        if idle.cycle is None:
            self.refuse(reason)
            idle.refuse(_raw_reply(*_refusal(reason, self.limits.per_address)))
        else:
            idle.close()
        return True


class AdmissionMiddleware:
    """ASGI middleware that refuses requests at the limits and determines the client's address.

    Behind a trusted proxy, the client is the one in `X-Forwarded-For`, and its active requests are
    counted instead of its connections, which end at the proxy.
    """

    def __init__(self, app: ASGIApp, connections: ConnectionLimiter) -> None:
        self._app, self._connections = app, connections
        self._requests = RequestCounter(connections.limits.per_address)
        trusted = [str(network) for network in connections.limits.trusted_proxies]
        self._with_proxy_headers: Any = ProxyHeadersMiddleware(self._counted, trusted)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or refuse it with a Retry-After."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        receive = _whole_request(receive)
        peer = scope.get("client")
        reason = self._connections.reserved_reason(peer)
        if reason is not None and scope["path"] not in _ALWAYS_ANSWERED:
            self._connections.refuse(reason)
            reply = _refusal_response(reason, self._connections.limits.per_address)
            await reply(scope, receive, send)
            return
        scope.setdefault("state", {})["peer"] = peer
        await self._with_proxy_headers(scope, receive, send if reason is None else _closing(send))

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client is None or client == scope["state"]["peer"] or scope["path"] in _ALWAYS_ANSWERED:
            await self._app(scope, receive, send)
            return
        try:
            with self._requests.count(address_of(client[0])):
                await self._app(scope, receive, send)
        except TooManyRequests as error:
            self._connections.refuse(_ADDRESS_LIMIT)
            await _refusal_response(_ADDRESS_LIMIT, error.limit)(scope, receive, send)


def _whole_request(receive: Receive) -> Receive:
    """Return a `receive` that delivers a request which was read before its client disconnected.

    uvicorn drops what the application has not read by then: a cancellation would be lost if its
    client stops waiting while the service is busy.
    """
    cycle = getattr(receive, "__self__", None)
    is_delivered = False

    async def receive_whole() -> Message:
        nonlocal is_delivered
        message = await receive()
        if message["type"] == "http.disconnect" and not is_delivered:
            is_delivered = True
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                return {"type": "http.request", "body": bytes(cycle.body), "more_body": False}
        elif not message.get("more_body", False):
            is_delivered = True
        return message

    return receive_whole


def _refusal(reason: str, limit: int) -> tuple[HTTPStatus, dict[str, str], dict[str, str]]:
    """Return the status of a refusal, its body, and its headers."""
    if reason == _ADDRESS_LIMIT:
        body = {"detail": reason, "code": "rate"}
        return HTTPStatus.TOO_MANY_REQUESTS, body, concurrency_headers(limit, active=limit)
    return HTTPStatus.SERVICE_UNAVAILABLE, {"detail": reason}, {"Retry-After": str(RETRY_AFTER_S)}


def _refusal_response(reason: str, limit: int) -> JSONResponse:
    status, body, headers = _refusal(reason, limit)
    return JSONResponse(body, status, {**headers, "Connection": "close"})


def _closing(send: Send) -> Send:
    """Return a `send` that closes the connection after the reply, to free its slot."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return closing


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits and timeouts; one for each connection."""

    def __init__(self, limiter: ConnectionLimiter, **options: Any) -> None:
        super().__init__(**options)
        self._limiter = limiter
        self.peer: tuple[str, int] = ("", 0)
        self.address: str = ""
        self._admitted = False
        self._timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._unsent_bytes = 0
        self._unread_since: float | None = None
        self._refusal: bytes | None = None
        self._is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it at a limit."""
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self.peer = (str(host), int(port))
        if (reason := self._limiter.admit(self)) is not None:
            self._limiter.refuse(reason)
            self.transport = transport
            self.refuse(_raw_reply(*_refusal(reason, self._limiter.limits.per_address)))
            return
        self._admitted = True
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Process data, and check the size and time of the headers."""
        if self._refusal is not None:
            self._send_refusal()
            return
        if self._is_ending:
            return
        super().data_received(data)
        if self._is_ending:  # it is no valid request
            return
        self._limiter.mark_used(self)
        self._update_timer()
        # Once the last request was read and answered completely, data is of headers.
        awaits_request = self.idle and (self.cycle is None or not self.cycle.more_body)
        self._header_bytes = self._header_bytes + len(data) if awaits_request else 0
        if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._send_and_close(_HEADERS_TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._cancel_timer()
        self._limiter.remove(self)
        if self._admitted:
            super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is active."""
        return self.cycle is None or self.cycle.response_complete

    def close(self) -> None:
        """Close an idle connection at once.

        `Transport.close` would wait for a client that does not read its reply.
        """
        self._cancel_timer()
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def may_be_dropped(self, now: float) -> bool:
        """Whether no request is active, and no reply is being read."""
        if not self.idle or not self.transport.get_write_buffer_size():
            return self.idle
        return self._unread_since is not None and now - self._unread_since >= _CHECK_INTERVAL_S

    def refuse(self, reply: bytes) -> None:
        """Reply to the request that arrives next, and close the connection."""
        self._cancel_timer()
        if not self._limiter.may_linger(self):
            self._send_and_close(reply)
            return
        self._refusal = reply
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._send_refusal)

    def _send_refusal(self) -> None:
        reply, self._refusal = self._refusal, None
        if reply is not None and not self.transport.is_closing():
            self._send_and_close(reply)

    def _send_and_close(self, reply: bytes) -> None:
        """Send the last reply, and close the connection when its client has read it.

        What arrives meanwhile is dropped.
        """
        self._cancel_timer()
        self._is_ending = True
        self.transport.write(reply)
        # A request under way still writes to the transport.
        if not self.idle or not self._limiter.may_linger(self):
            self.transport.close()
            return
        self.transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.close)

    def abort_if_unread(self, now: float) -> None:
        """Abort the connection if its client read nothing for `UNREAD_TIMEOUT_S`."""
        unsent = self.transport.get_write_buffer_size() if self._admitted else 0
        if not unsent or unsent < self._unsent_bytes or self._unread_since is None:
            self._unread_since = now if unsent else None
        elif now - self._unread_since >= UNREAD_TIMEOUT_S:
            self.transport.abort()
        self._unsent_bytes = unsent

    def pause_writing(self) -> None:
        """Pause the reply; a refusal has none."""
        if self._admitted:
            super().pause_writing()

    def resume_writing(self) -> None:
        """Resume the reply."""
        self._unread_since = None
        if self._admitted:
            super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request; with JSON, like every other error."""
        del msg  # uvicorn's sentence
        self._send_and_close(_INVALID_REQUEST)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless a request on it is read first.

        When a process stood still, its timers run before it reads what has arrived meanwhile.
        """
        loop, close = asyncio.get_running_loop(), super().timeout_keep_alive_handler
        self.timeout_keep_alive_task: asyncio.TimerHandle | None = loop.call_later(
            READ_FIRST_S, close
        )

    def _update_timer(self) -> None:
        """Run the timer only while the connection waits for request headers."""
        if not self.idle:
            self._cancel_timer()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                HEADERS_TIMEOUT_S, self._on_headers_timeout
            )

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_headers_timeout(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(READ_FIRST_S, self._refuse_slow_headers)

    def _refuse_slow_headers(self) -> None:
        if not self.transport.is_closing():
            self._send_and_close(_HEADERS_TIMEOUT)


def max_connections() -> int:
    """Raise the limit of open files, and return how many connections it allows."""
    if os.name != "posix":
        return MAX_CONNECTIONS
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    max_files = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < max_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, hard))
        soft = max_files
    spare = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - OTHER_FILES
    return max(MAX_CONNECTIONS // 10, min(MAX_CONNECTIONS, spare))
