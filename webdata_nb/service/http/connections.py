"""Limits the number of connections, the time for request headers and the time for unread replies.

uvicorn limits none of these. A client that sends one header a minute, or that never reads its
reply, would keep its connection open, and enough such clients would lock out all others.

A connection that waits for a request is idle. When no place is free, the connection that has been
idle longest is closed, first among those of the same address. When every connection is busy, a new
one takes one of the reserved places, which answer health checks only.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from webdata_nb.contract.paths import HEALTH, READY
from webdata_nb.service.http.client_limits import (
    ClientLimits,
    RequestCounter,
    TooManyRequests,
    address_of,
)
from webdata_nb.service.observability.logs import EventThrottle

# From the connection's first moment, or the first byte of a further request, to the last header.
HEADERS_S: Final = 10.0
# httptools, which reads faster than h11, sets no bound to what it reads of them.
HEADER_BYTES: Final = 64 * 1024
# A client that reads nothing of its reply for this long loses the connection.
UNREAD_S: Final = 30.0
_CHECK_S: Final = 5.0
MAX_CONNECTIONS: Final = 1000
# Beyond those, for health checks.
RESERVED: Final = 32
# Files and sockets that the service needs besides its connections.
OTHER_FILES: Final = 512
WANTED_FILES: Final = 8192
RETRY_S: Final = 1
_ALWAYS_ANSWERED: Final = frozenset({HEALTH, READY})


def _answer(status: HTTPStatus, detail: str, extra: str = "", **fields: str) -> bytes:
    body = orjson.dumps({"detail": detail, **fields})
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{extra}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


_SLOW: Final = _answer(
    HTTPStatus.REQUEST_TIMEOUT, f"the request's headers took longer than {HEADERS_S:g} s"
)
_LARGE: Final = _answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"the request's headers are larger than {HEADER_BYTES} bytes",
)
_RETRY: Final = f"Retry-After: {RETRY_S}\r\n"
_FULL: Final = "too many connections; close those that are not needed"
_CROWDED: Final = "too many connections from this address; close those that are not needed"
_GARBLED: Final = _answer(HTTPStatus.BAD_REQUEST, "not a valid HTTP request")


def _count_nothing(_limit: str) -> None:
    """Count nothing."""


class ConnectionLimiter:
    """The open connections of one server.

    Parameters
    ----------
    limits : ClientLimits
        What one address may have, and whose addresses are proxies'.
    most : int
        How many there may be in all.
    reserved : int
        How many more for health checks.
    refused : callable
        Told of each connection or request without a place, by the limit that it met: `address`
        or `total`.
    """

    def __init__(
        self,
        limits: ClientLimits = ClientLimits(),  # noqa: B008 - frozen, so one default serves all
        *,
        most: int = MAX_CONNECTIONS,
        reserved: int = RESERVED,
        refused: Callable[[str], None] = _count_nothing,
    ) -> None:
        self._refused, self._repeats = refused, EventThrottle()
        self.limits, self._most, self._reserved_most = limits, most, reserved
        # Least recently used first.
        self._open: dict[LimitedHttpProtocol, None] = {}
        self._by_address: dict[str, dict[LimitedHttpProtocol, None]] = {}
        self._reserved: dict[tuple[str, int], tuple[LimitedHttpProtocol, str]] = {}
        self._checks: asyncio.TimerHandle | None = None

    def protocol(self, **told: Any) -> LimitedHttpProtocol:
        """Make what uvicorn wants for each connection."""
        return LimitedHttpProtocol(self, **told)

    def admit(self, connection: LimitedHttpProtocol) -> str | None:
        """Take a connection; return why there is no place for it."""
        if self._checks is None:
            self._schedule_check()
        peer = connection.peer
        address = "" if self.limits.trusts(peer[0]) else address_of(peer[0])
        same = self._by_address.get(address, {}) if address else {}
        reason = None
        if len(same) >= self.limits.per_address and not self._drop_idle(same):
            reason = _CROWDED
        elif len(self._open) >= self._most and not self._drop_idle(self._open):
            reason = _FULL
        if reason is None:
            connection.address = address
            self._open[connection] = None
            if address:
                self._by_address.setdefault(address, {})[connection] = None
            return None
        waiting = [each for each, _ in self._reserved.values()]
        if len(waiting) >= self._reserved_most and not self._drop_idle(waiting):
            return reason
        self._reserved[peer] = connection, reason
        return None

    def _schedule_check(self) -> None:
        self._checks = asyncio.get_running_loop().call_later(_CHECK_S, self._check_unread)

    def _check_unread(self) -> None:
        """Abort connections whose clients have stopped reading."""
        now = asyncio.get_running_loop().time()
        connections = [*self._open, *(connection for connection, _ in self._reserved.values())]
        for connection in connections:
            connection.abort_if_unread(now)
        self._checks = None
        if connections:
            self._schedule_check()

    def refuse(self, reason: str) -> None:
        """Count a refusal, and write of it once a minute: addresses are as many as there are."""
        limit = "address" if reason == _CROWDED else "total"
        self._refused(limit)
        self._repeats.event("connection_refused", logging.WARNING, limit=limit)

    def touched(self, connection: LimitedHttpProtocol) -> None:
        """Note that a connection was used."""
        for group in (self._open, self._by_address.get(connection.address, {})):
            if connection in group:
                del group[connection]
                group[connection] = None

    def forget(self, connection: LimitedHttpProtocol) -> None:
        """Free a connection's place."""
        self._open.pop(connection, None)
        same = self._by_address.get(connection.address, {})
        same.pop(connection, None)
        if not same:
            self._by_address.pop(connection.address, None)
        if self._reserved.get(connection.peer, (None,))[0] is connection:
            del self._reserved[connection.peer]

    def reserved_reason(self, peer: tuple[str, int] | None) -> str | None:
        """Return why a peer's connection is for health checks only; None for an ordinary one."""
        found = None if peer is None else self._reserved.get(peer)
        return None if found is None else found[1]

    def _drop_idle(self, group: Iterable[LimitedHttpProtocol]) -> bool:
        """Close the connection that has been idle longest; tell whether there was one."""
        idle = next((each for each in group if each.idle), None)
        if idle is None:
            return False
        self.forget(idle)
        idle.close()
        return True


class AdmissionMiddleware:
    """ASGI middleware, outermost: whom the service is too busy to answer, and who the client is.

    Behind a trusted proxy the client is whom `X-Forwarded-For` names; its requests under way are
    counted in place of its connections, which end at the proxy.
    """

    def __init__(self, app: ASGIApp, connections: ConnectionLimiter) -> None:
        self._app, self._connections = app, connections
        self._requests = RequestCounter(connections.limits.per_address)
        trusted = [str(network) for network in connections.limits.trusted_proxies]
        self._named: Any = ProxyHeadersMiddleware(self._counted, trusted)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say that it must wait."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        peer = scope.get("client")
        reason = self._connections.reserved_reason(peer)
        if reason is not None and scope["path"] not in _ALWAYS_ANSWERED:
            self._connections.refuse(reason)
            await _refusal(reason, self._connections.limits.per_address)(scope, receive, send)
            return
        scope.setdefault("state", {})["peer"] = peer
        await self._named(scope, receive, send if reason is None else _closing(send))

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client is None or client == scope["state"]["peer"] or scope["path"] in _ALWAYS_ANSWERED:
            await self._app(scope, receive, send)
            return
        try:
            with self._requests.one(address_of(client[0])):
                await self._app(scope, receive, send)
        except TooManyRequests as refusal:
            self._connections.refuse(_CROWDED)
            await _refusal(_CROWDED, refusal.most)(scope, receive, send)


def _status(reason: str) -> tuple[HTTPStatus, dict[str, str]]:
    """Return the status of a refusal, and what its body says beside the sentence."""
    if reason == _CROWDED:
        return HTTPStatus.TOO_MANY_REQUESTS, {"code": "rate"}
    return HTTPStatus.SERVICE_UNAVAILABLE, {}


def _refusal(reason: str, most: int) -> JSONResponse:
    status, fields = _status(reason)
    headers = {"Retry-After": str(RETRY_S), "Connection": "close", **dict(_shares(status, most))}
    return JSONResponse({"detail": reason, **fields}, status, headers)


def _shares(status: HTTPStatus, most: int) -> Iterable[tuple[str, str]]:
    """Return the headers that a 429 has besides the time to wait."""
    if status != HTTPStatus.TOO_MANY_REQUESTS:
        return ()
    return (("X-Concurrency-Limit", str(most)), ("X-Concurrency-Active", str(most)))


def _closing(send: Send) -> Send:
    """Have the connection closed behind the answer: its place is wanted."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return closing


class LimitedHttpProtocol(asyncio.Protocol):
    """uvicorn's HTTP protocol behind a watch; made by uvicorn for each connection."""

    def __init__(self, connections: ConnectionLimiter, **told: Any) -> None:
        self._connections = connections
        self.peer, self.address = ("", 0), ""
        self._inner: Any = AutoHTTPProtocol(**told)
        vars(self._inner)["send_400_response"] = self._garbled
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._header_bytes = 0
        self._unsent_bytes = 0
        self._unread_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, or refuse it where there are too many."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self.peer = (str(host), int(port))
        if (reason := self._connections.admit(self)) is not None:
            self._connections.refuse(reason)
            status, fields = _status(reason)
            shares = _shares(status, self._connections.limits.per_address)
            extra = "".join(f"{name}: {value}\r\n" for name, value in shares)
            _end(transport, _answer(status, reason, _RETRY + extra, **fields))
            return
        self._transport = transport
        self._inner.connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Hand bytes on, and see whether they completed the headers."""
        if self._transport is None:
            return
        self._inner.data_received(data)
        self._connections.touched(self)
        self._watch()
        self._header_bytes = self._header_bytes + len(data) if self._between else 0
        if self._header_bytes > HEADER_BYTES and not self._transport.is_closing():
            _end(self._transport, _LARGE)

    @property
    def _between(self) -> bool:
        """Whether the last request was read to its end, and answered."""
        cycle = self._inner.cycle
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def eof_received(self) -> None:
        """Hand on."""
        if self._transport is not None:
            self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._rest()
        self._connections.forget(self)
        if self._transport is not None:
            self._inner.connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is under way: the next one's headers are awaited."""
        cycle = self._inner.cycle
        return cycle is None or cycle.response_complete

    def close(self) -> None:
        """Close an idle connection at once.

        `Transport.close` would wait for a client that does not read its reply.
        """
        self._rest()
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def abort_if_unread(self, now: float) -> None:
        """Abort the connection if its client has read nothing for `UNREAD_S`."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent_bytes or self._unread_since is None:
            self._unread_since = now if unsent else None
        elif now - self._unread_since >= UNREAD_S and self._transport is not None:
            self._transport.abort()
        self._unsent_bytes = unsent

    def pause_writing(self) -> None:
        """Hand on."""
        if self._transport is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        self._unread_since = None
        if self._transport is not None:
            self._inner.resume_writing()

    def _watch(self) -> None:
        """Let the deadline run exactly while a request's headers are awaited."""
        cycle = self._inner.cycle
        if cycle is not None and not cycle.response_complete:
            self._rest()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEADERS_S, self._slow)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _slow(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            _end(self._transport, _SLOW)

    def _garbled(self, _message: str) -> None:
        if self._transport is not None:
            _end(self._transport, _GARBLED)


def _end(transport: asyncio.Transport, answer: bytes) -> None:
    transport.write(answer)
    transport.close()


def max_connections() -> int:
    """Return how many connections this process can hold, after asking for more open files."""
    if os.name != "posix":
        return MAX_CONNECTIONS
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    spare = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - OTHER_FILES
    return max(MAX_CONNECTIONS // 10, min(MAX_CONNECTIONS, spare))
