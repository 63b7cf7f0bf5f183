"""Answers that go wrong, as handlers for `Site.page`."""

from __future__ import annotations

import asyncio
import gzip
import io
import itertools
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import brotli  # type: ignore[import-untyped] # it ships no types
from aiohttp import web

from tests.site.document import document, prose
from tests.site.zstd import zstd
from tests.sockets import reset_on_close

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp.abc import AbstractStreamWriter

    from tests.site.server import Answer, Handler

Place = Literal["start", "status", "header", "body", "last_chunk", "length"]
Coding = Literal["gzip", "deflate", "br", "zstd"]

PLACES: Final[tuple[Place, ...]] = ("start", "status", "header", "body", "last_chunk", "length")
CODINGS: Final[tuple[Coding, ...]] = ("gzip", "deflate", "br", "zstd")

_HTML: Final = "text/html"
_PIECE: Final = 1 << 16


class Wire(web.StreamResponse):
    """Bytes put on the connection exactly as they are; then it is closed, or reset."""

    def __init__(self, data: bytes, *, reset: bool = False) -> None:
        super().__init__()
        self._data, self._reset = data, reset
        self._connection: asyncio.WriteTransport | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        self._connection = transport if isinstance(transport, asyncio.WriteTransport) else None
        self.force_close()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        transport = self._connection
        if transport is None:
            return
        transport.write(self._data + data)
        if self._reset:
            reset_on_close(transport.get_extra_info("socket"))
            transport.abort()
        else:
            transport.close()


def wire(data: bytes, *, reset: bool = False) -> Handler:
    """Answer with these bytes, status line included, and close the connection."""
    return lambda _request: Wire(data, reset=reset)


def cut(place: Place, *, reset: bool = False) -> Handler:
    """Cut an answer short: before it, in its status line, headers or body, before the last chunk.

    `length` is a body shorter than its Content-Length, of which the client sees a proper page.
    """
    return wire(_broken(place), reset=reset)


def _broken(place: Place) -> bytes:
    body = document(f"Cut at {place}", text=prose("cut", 400)).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
    sized = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunk = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body)
    longer = b"Content-Length: %d\r\n\r\n" % (len(body) + 100) + body
    broken: dict[Place, bytes] = {
        "start": b"",
        "status": sized[:9],
        "header": sized[: len(head) - 10],
        "body": sized[: -len(body) // 2],
        "last_chunk": head + chunk,
        "length": head + longer,
    }
    return broken[place]


def drip(body: bytes, *, interval: float, size: int = 1) -> Handler:
    """Send `size` bytes of a body every `interval` seconds, of a length declared in full."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"})
        response.content_length = len(body)
        await response.prepare(request)
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
            await asyncio.sleep(interval)
        return response

    return answer


def huge(size: int, *, declared: bool = True) -> Handler:
    """Send an HTML page of about `size` bytes, with its length declared or in chunks."""
    piece = f"<p>{prose('huge', _PIECE // 7)}</p>\n".encode()
    count = -(-size // len(piece))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"})
        if declared:
            response.content_length = count * len(piece)
        await response.prepare(request)
        for _ in range(count):
            await response.write(piece)
        return response

    return answer


def bomb(size: int, *, coding: Coding = "gzip") -> Handler:
    """Send a small body that decodes to an HTML page of `size` bytes."""
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Encoding": coding}
    return lambda _request: web.Response(body=_packed(size, coding), headers=headers)


@lru_cache(maxsize=8)
def _packed(size: int, coding: Coding) -> bytes:
    """Compress piece by piece, so that the bomb never lies unpacked in our memory."""
    head = b"<!DOCTYPE html><title>Bomb</title><p>"
    pieces = itertools.chain([head], itertools.repeat(b"a" * _PIECE, size // _PIECE))
    match coding:
        case "gzip":
            packed = io.BytesIO()
            with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
                file.writelines(pieces)
            return packed.getvalue()
        case "deflate":
            deflater = zlib.compressobj(9)
            return b"".join([*map(deflater.compress, pieces), deflater.flush()])
        case "br":
            compressor = brotli.Compressor(quality=5)
            return b"".join([*map(compressor.process, pieces), compressor.finish()])
        case "zstd":
            compressor = zstd.ZstdCompressor()
            return b"".join([*map(compressor.compress, pieces), compressor.flush()])


def mislabelled(text: str, *, declared: str, actual: str) -> Handler:
    """Send text in one charset under the name of another."""
    headers = {"Content-Type": f"text/html; charset={declared}"}
    return lambda _request: web.Response(body=text.encode(actual), headers=headers)


def status(code: int, *, headers: Mapping[str, str] | None = None) -> Handler:
    """Answer with a status and a small page that names it."""
    body = document(f"Status {code}")
    kind = {"Content-Type": "text/html; charset=utf-8"}
    return lambda _request: web.Response(
        status=code, body=body.encode(), headers={**kind, **(headers or {})}
    )


def sequence(*handlers: Handler) -> Handler:
    """Answer the first request by the first handler, and so on; the last one stays."""
    remaining = iter(handlers[:-1])
    last = handlers[-1]

    def answer(request: web.BaseRequest) -> Answer | Awaitable[Answer]:
        return next(remaining, last)(request)

    return answer


def retry_after(value: str, *, times: int = 1, code: int = 429, then: str = "") -> Handler:
    """Answer `times` requests with `code` and this Retry-After, and the others with a page."""
    busy = status(code, headers={"Retry-After": value})
    body = then or document("At last")
    return sequence(*(busy,) * times, lambda _request: web.Response(text=body, content_type=_HTML))


def counted(make: Callable[[int], Answer]) -> Handler:
    """Answer by a function of the number of the request, from 1."""
    numbers = itertools.count(1)
    return lambda _request: make(next(numbers))
