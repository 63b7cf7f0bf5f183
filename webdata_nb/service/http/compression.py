"""Compresses large replies with gzip, adds entity tags, and answers 304 for unchanged replies.

Event streams and compressed types (ZIP, PNG) are not changed. Compression and hashing that take
longer than a millisecond run on another thread; zlib and hashlib release the GIL.

Clients on loopback get plain replies: a megabyte takes a millisecond to send and 60 ms to compress.
All tags are weak (RFC 9110, 8.8.3), because compressed and plain replies share them and there are
no byte ranges. Tags of ended jobs come from their records, whose rows never change. `no-store`
applies to tagged replies too, so that no client writes private pages to disk.
"""

from __future__ import annotations

import asyncio
import zlib
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdata_nb.service.http.client_limits import address_of

MIN_BYTES: Final = 4096
"""Smaller replies are neither compressed nor hashed: they fit into three packets."""
LEVEL: Final = 2
_PART_BYTES: Final = 64 * 1024
# Parts up to this size take about a millisecond and are compressed on the event loop.
_INLINE_BYTES: Final = 16 * 1024
# Parts compressed at the same time, each on a thread.
_MAX_THREADS: Final = 2
_GZIP_WINDOW: Final = 31
_TYPES: Final = frozenset(
    {"application/json", "text/csv", "text/html", "text/css", "text/javascript", "text/plain"}
)
_READ_METHODS: Final = frozenset({"GET", "HEAD"})


class CompressionMiddleware:
    """ASGI middleware that compresses large replies and answers conditional requests.

    Replies to clients on this machine are not compressed, because loopback is faster.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._thread_slots = asyncio.Semaphore(_MAX_THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply = _ReplySender(scope, send, self._thread_slots)
        await self._app(scope, receive, reply.send)


class _ReplySender:
    """Sends one reply. Delays its headers until the first part of the body is known."""

    def __init__(self, scope: Scope, send: Send, thread_slots: asyncio.Semaphore) -> None:
        headers, client = Headers(scope=scope), scope.get("client")
        self._send, self._thread_slots = send, thread_slots
        self._reads = scope["method"] in _READ_METHODS
        self._if_none_match = headers.get("if-none-match") if self._reads else None
        self._may_compress = (
            scope["method"] != "HEAD"
            and accepts_gzip(headers.get("accept-encoding", ""))
            # The client, or the one that a trusted proxy names, is not on this machine.
            and client is not None
            and client[0] != "::1"
            and not address_of(client[0]).startswith("127.")
        )
        self._start: Message | None = None
        self._unchanged = False
        self._gzip: Any = None

    async def send(self, message: Message) -> None:
        """Process the next ASGI message of the application."""
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
        body, has_more = message.get("body", b""), message.get("more_body", False)
        # The length of a stream is unknown.
        size = int(headers.get("content-length", MIN_BYTES)) if has_more else len(body)
        if self._reads and not has_more and size >= MIN_BYTES and "etag" not in headers:
            is_small = len(body) <= _PART_BYTES
            headers["ETag"] = etag_of(body) if is_small else await asyncio.to_thread(etag_of, body)
        etag = headers.get("etag")
        if "vary" not in headers and (size >= MIN_BYTES or etag is not None):
            headers.add_vary_header("Accept-Encoding")
        if etag is not None and etag_matches(self._if_none_match, etag):
            self._unchanged = True
            lines = [
                line for line in start["headers"] if not line[0].lower().startswith(b"content-")
            ]
            await self._send({**start, "status": int(HTTPStatus.NOT_MODIFIED), "headers": lines})
            await self._send({"type": "http.response.body", "body": b""})
        elif size >= MIN_BYTES and self._may_compress:
            headers["Content-Encoding"] = "gzip"
            del headers["accept-ranges"]
            if etag is not None and etag.startswith('"'):
                headers["ETag"] = f"W/{etag}"
            self._gzip = zlib.compressobj(LEVEL, wbits=_GZIP_WINDOW)
            if len(body) <= _INLINE_BYTES and not has_more:
                compressed = self._gzip.compress(body) + self._gzip.flush()
                headers["Content-Length"] = str(len(compressed))
                await self._send(start)
                await self._send({"type": "http.response.body", "body": compressed})
            else:
                del headers["content-length"]
                await self._send(start)
                await self._compress(message)
        else:
            await self._send(start)
            await self._send(message)

    async def _compress(self, message: Message) -> None:
        """Compress and send the body of a message; the compressor may buffer all of it."""
        view = memoryview(message.get("body", b""))
        for begin in range(0, len(view), _PART_BYTES):
            part = view[begin : begin + _PART_BYTES]
            if len(part) <= _INLINE_BYTES:
                compressed = self._gzip.compress(part)
            else:
                async with self._thread_slots:
                    compressed = await asyncio.to_thread(self._gzip.compress, part)
            if compressed:
                await self._send(
                    {"type": "http.response.body", "body": compressed, "more_body": True}
                )
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
    for coding in header.lower().split(","):
        name, _, parameter = coding.partition(";")
        key, _, value = parameter.partition("=")
        try:
            weights[name.strip()] = float(value) if key.strip() == "q" else 1.0
        except ValueError:
            weights[name.strip()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _is_eligible(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    media_type = headers.get("content-type", "").partition(";")[0]
    return (
        start["status"] == HTTPStatus.OK
        and media_type in _TYPES
        and "content-encoding" not in headers
    )


_DIGEST_BYTES: Final = 16


def etag_of(*parts: bytes) -> str:
    """Return the weak entity tag of these bytes.

    Examples
    --------
    >>> etag_of(b"rows")
    'W/"f2305e3ea413d261c40604673f9fbe7d"'
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return f'W/"{digest.hexdigest()}"'


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match header contains this tag, strong or weak.

    Examples
    --------
    >>> etag_matches('"b", W/"a"', 'W/"a"'), etag_matches("*", '"a"'), etag_matches("a", '"a"')
    (True, True, False)
    """
    if if_none_match is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags
