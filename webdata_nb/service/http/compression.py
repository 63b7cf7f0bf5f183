"""Around the gate: gzip for large replies, entity tags, and 304 for what a client has already.

Streams of events pass as they are, as does what is compressed already (ZIP, PNG). What takes longer
than a millisecond, compressing or hashing, is done on another thread; zlib and hashlib free the
interpreter meanwhile.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.service.http.client_limits import address_of
from webdata_nb.service.http.etags import etag_matches, etag_of

LEAST_BYTES: Final = 4096
"""Smaller replies are neither compressed nor hashed: they fit into three packets."""
LEVEL: Final = 2
_PART: Final = 64 * 1024
# CompressionMiddleware in about a millisecond, and so on the loop.
_INLINE: Final = 16 * 1024
# Replies compressed at the same time, each on a thread; others wait for their next part.
_AT_ONCE: Final = 2
_GZIP_WINDOW: Final = 31
_TYPES: Final = frozenset(
    {"application/json", "text/csv", "text/html", "text/css", "text/javascript", "text/plain"}
)
_READS: Final = frozenset({"GET", "HEAD"})


class CompressionMiddleware:
    """ASGI middleware: compresses what is large, and tells a client that its copy still holds.

    A client on this machine gets its replies as they are: loopback is faster than any compression.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply = _Reply(scope, send, self._turns)
        await self._app(scope, receive, reply.send)


class _Reply:
    """One reply on its way out. Its start is held back until its first bytes are known."""

    def __init__(self, scope: Scope, send: Send, turns: asyncio.Semaphore) -> None:
        headers = Headers(scope=scope)
        self._send, self._turns = send, turns
        self._reads = scope["method"] in _READS
        self._known = headers.get("if-none-match") if self._reads else None
        self._may_compress = (
            scope["method"] != "HEAD"
            and accepts_gzip(headers.get("accept-encoding", ""))
            and not _is_local(scope.get("client"))
        )
        self._start: Message | None = None
        self._unchanged = False
        self._gzip: Any = None

    async def send(self, message: Message) -> None:
        """Take the application's next message."""
        if message["type"] == "http.response.start" and _is_eligible(message):
            self._start = message
        elif self._unchanged:
            pass  # a 304 has no body
        elif self._start is not None:
            start, self._start = self._start, None
            await self._begin(start, message)
        elif self._gzip is not None:
            await self._compress(message)
        else:
            await self._send(message)

    async def _begin(self, start: Message, message: Message) -> None:
        headers = MutableHeaders(scope=start)
        body, more = message.get("body", b""), message.get("more_body", False)
        # A stream does not say how long it will be.
        size = int(headers.get("content-length", LEAST_BYTES)) if more else len(body)
        if self._reads and not more and size >= LEAST_BYTES and "etag" not in headers:
            headers["ETag"] = await self._hashed(body)
        etag = headers.get("etag")
        if "vary" not in headers and (size >= LEAST_BYTES or etag is not None):
            headers.add_vary_header("Accept-Encoding")
        if etag is not None and etag_matches(self._known, etag):
            self._unchanged = True
            await _send_unchanged(start, self._send)
        elif size >= LEAST_BYTES and self._may_compress:
            await self._begin_gzip(start, message)
        else:
            await self._send(start)
            await self._send(message)

    async def _hashed(self, body: bytes) -> str:
        if len(body) <= _PART:
            return etag_of(body)
        return await asyncio.to_thread(etag_of, body)

    async def _begin_gzip(self, start: Message, message: Message) -> None:
        headers = MutableHeaders(scope=start)
        headers["Content-Encoding"] = "gzip"
        del headers["accept-ranges"]
        if (etag := headers.get("etag", "")).startswith('"'):
            headers["ETag"] = f"W/{etag}"
        self._gzip = zlib.compressobj(LEVEL, wbits=_GZIP_WINDOW)
        body = message.get("body", b"")
        if len(body) <= _INLINE and not message.get("more_body", False):
            whole = self._gzip.compress(body) + self._gzip.flush()
            headers["Content-Length"] = str(len(whole))
            await self._send(start)
            await self._send({"type": "http.response.body", "body": whole})
            return
        del headers["content-length"]
        await self._send(start)
        await self._compress(message)

    async def _compress(self, message: Message) -> None:
        """Send a message's bytes compressed; nothing is sent where the compressor keeps them."""
        for part in _parts(message.get("body", b"")):
            if len(part) <= _INLINE:
                packed = self._gzip.compress(part)
            else:
                async with self._turns:
                    packed = await asyncio.to_thread(self._gzip.compress, part)
            if packed:
                await self._send({"type": "http.response.body", "body": packed, "more_body": True})
        if not message.get("more_body", False):
            await self._send({"type": "http.response.body", "body": self._gzip.flush()})


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3).

    Examples
    --------
    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("*"), accepts_gzip("*, gzip;q=0")
    (True, True, False)
    """
    weights: dict[str, float] = {}
    for each in header.lower().split(","):
        name, _, parameter = each.partition(";")
        key, _, value = parameter.partition("=")
        try:
            weights[name.strip()] = float(value) if key.strip() == "q" else 1.0
        except ValueError:
            weights[name.strip()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _is_local(client: tuple[str, int] | None) -> bool:
    """Whether the client is on this machine; behind a trusted proxy it is whom the proxy names."""
    return client is None or client[0] == "::1" or address_of(client[0]).startswith("127.")


def _is_eligible(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    media_type = headers.get("content-type", "").partition(";")[0]
    return (
        start["status"] == HTTPStatus.OK
        and media_type in _TYPES
        and "content-encoding" not in headers
    )


async def _send_unchanged(start: Message, send: Send) -> None:
    lines = [line for line in start["headers"] if not line[0].lower().startswith(b"content-")]
    await send({**start, "status": int(HTTPStatus.NOT_MODIFIED), "headers": lines})
    await send({"type": "http.response.body", "body": b""})


def _parts(body: bytes) -> Iterator[memoryview]:
    view = memoryview(body)
    for begin in range(0, len(view), _PART):
        yield view[begin : begin + _PART]
