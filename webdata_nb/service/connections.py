"""What a connection may take: time for its headers, and a place among so many.

uvicorn bounds neither: a client that sends a header a minute keeps its connection for ever, and
enough of them keep everybody else out.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import Any, Final

import orjson
from uvicorn.protocols.http.auto import AutoHTTPProtocol

# From the connection's first moment, or the first byte of a further request, to the last header.
HEADERS_S: Final = 10.0
# httptools, which reads faster than h11, sets no bound to what it reads of them.
HEADER_BYTES: Final = 64 * 1024
MOST: Final = 1000
# Files and sockets that the service needs besides its connections.
OTHER_FILES: Final = 512
WANTED_FILES: Final = 8192
RETRY_S: Final = 1


def _answer(status: HTTPStatus, detail: str, extra: str = "") -> bytes:
    body = orjson.dumps({"detail": detail})
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
_FULL: Final = _answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too many connections; close those that are not needed",
    f"Retry-After: {RETRY_S}\r\n",
)
_GARBLED: Final = _answer(HTTPStatus.BAD_REQUEST, "not a valid HTTP request")


class Bounded(asyncio.Protocol):
    """uvicorn's HTTP protocol behind a watch; made by uvicorn for each connection."""

    most = MOST

    def __init__(self, **told: Any) -> None:
        self._inner: Any = AutoHTTPProtocol(**told)
        vars(self._inner)["send_400_response"] = self._garbled
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, or refuse it where there are too many."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        if len(self._inner.connections) >= self.most:
            _end(transport, _FULL)
            return
        self._transport = transport
        self._inner.connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Hand bytes on, and see whether they completed the headers."""
        if self._transport is None:
            return
        self._inner.data_received(data)
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
        if self._transport is not None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Hand on."""
        if self._transport is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
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


def room() -> int:
    """Return how many connections this process can hold, after asking for more open files."""
    if os.name != "posix":
        return MOST
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    spare = MOST if soft == resource.RLIM_INFINITY else soft - OTHER_FILES
    return max(MOST // 10, min(MOST, spare))
