"""Reads responses: heads that browsers accept, and bodies within limits of their size.

Heads that the parser of aiohttp would refuse or confuse are corrected before it sees them. Bodies
are decoded (gzip, deflate, br, zstd and chains of them) within a limit of wire bytes and one of
decoded bytes.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import brotli  # type: ignore[import-untyped]  # it ships no types
from aiohttp.client_proto import ResponseHandler

from webdata_nb.page.charset import encoding_for_label
from webdata_nb.page.errors import FetchError
from webdata_nb.service.compression import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aiohttp import ClientResponse


ACCEPTED: Final = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding."""

_DECOMPRESSION_ERRORS: Final = (zlib.error, brotli.error, zstd.ZstdError)
_MAX_CODINGS: Final = 5
_ALIASES: Final = {"x-gzip": "gzip"}
# What servers send for a body without a coding: transfer codings and MIME's, too. Amazon S3 stores
# `aws-chunked` with the objects of some clients.
_NO_CODING: Final = frozenset(
    ("", "identity", "none", "binary", "7bit", "8bit", "text", "chunked", "aws-chunked")
)
_CHUNK_BYTES: Final = 64 * 1024
_MAX_GZIP_MEMBERS: Final = 1024
_MAX_ZSTD_FRAMES: Final = 1024
_ZSTD_OPTIONS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 23}  # 8 MiB
_GZIP_MAGIC: Final = b"\x1f\x8b"


class _BoundedOutput:
    """Passes the output of a stage on, and counts it against a limit."""

    def __init__(self, write: Callable[[bytes], None], limit: int) -> None:
        self._write = write
        self._limit = limit
        self.byte_count = 0

    def max_chunk(self) -> int:
        """Return the size of the next chunk, up to one byte beyond the limit to detect overflow."""
        return min(_CHUNK_BYTES, self._limit - self.byte_count + 1)

    def write(self, chunk: bytes) -> None:
        """Pass a chunk on; raise `FetchError` of kind ``too_large`` beyond the limit."""
        self.byte_count += len(chunk)
        if self.byte_count > self._limit:
            raise FetchError("too_large", f"The page unpacks to more than {self._limit:,} bytes.")
        self._write(chunk)


class _Decompressor(Protocol):
    """Decodes one coding: takes bytes by `feed` and writes decoded chunks to its output."""

    output: _BoundedOutput

    def feed(self, data: bytes) -> None:
        """Decode the next bytes; raises one of `_DECOMPRESSION_ERRORS` for damaged ones."""

    def is_complete(self) -> bool:
        """Tell, after the last bytes, whether the stream has reached its end mark."""


class _Inflater(Protocol):
    """The interface of zlib's decompressor."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _inflate(stream: _Inflater, data: bytes, output: _BoundedOutput) -> bytes:
    """Decode up to the end of the stream; return the bytes after it."""
    while True:
        max_chunk = output.max_chunk()
        chunk = stream.decompress(data, max_chunk)
        if chunk:
            output.write(chunk)
        if stream.eof:
            return stream.unused_data
        data = stream.unconsumed_tail
        if not data and len(chunk) < max_chunk:
            return b""


class _Gzip:
    """Gzip, of one or more members; like gzip, it ignores bytes after the last member."""

    def __init__(self, output: _BoundedOutput) -> None:
        self.output = output
        self._stream: _Inflater | None = None
        self._members = 0
        self._pending = b""
        self._at_end = False

    def feed(self, data: bytes) -> None:
        data, self._pending = self._pending + data, b""
        while data and not self._at_end:
            stream = self._stream
            if stream is None:
                if self._members and len(data) < len(_GZIP_MAGIC):
                    self._pending = data  # too few bytes to decide
                    return
                if self._members and not data.startswith(_GZIP_MAGIC):
                    self._at_end = True
                    return
                self._members += 1
                if self._members > _MAX_GZIP_MEMBERS:
                    raise FetchError(
                        "decode", f"The body has more than {_MAX_GZIP_MEMBERS} gzip members."
                    )
                stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = _inflate(stream, data, self.output)
            self._stream = None if stream.eof else stream

    def is_complete(self) -> bool:
        return self._members > 0 and self._stream is None


class _Deflate:
    """Deflate, with the zlib header of the standard, or without it as many servers send it."""

    def __init__(self, output: _BoundedOutput) -> None:
        self.output = output
        self._stream: _Inflater | None = None
        self._pending = b""

    def feed(self, data: bytes) -> None:
        data, self._pending = self._pending + data, b""
        if self._stream is None:
            if len(data) < len(b"\x78\x9c"):
                self._pending = data
                return
            # Some servers send deflate without the header of zlib.
            checked = int.from_bytes(data[:2], "big") % 31 == 0
            has_header = data[0] & 0x0F == zlib.DEFLATED and checked
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        if not self._stream.eof:
            _inflate(self._stream, data, self.output)

    def is_complete(self) -> bool:
        return self._stream is not None and self._stream.eof


class _BrotliStream(Protocol):
    """The interface of brotli's decompressor."""

    def process(self, data: bytes, *, output_buffer_limit: int) -> bytes: ...

    def is_finished(self) -> bool: ...


class _Brotli:
    """Brotli; its window is at most 16 MiB."""

    # The decoder grows its output by whole blocks. With a limit below the size of the first block,
    # 32 KiB, a chunk is never larger than that.
    _LIMIT: Final = 32_000

    def __init__(self, output: _BoundedOutput) -> None:
        self.output = output
        self._stream: _BrotliStream = brotli.Decompressor()

    def feed(self, data: bytes) -> None:
        # It consumes the whole input at once; only empty output means that nothing is pending.
        while chunk := self._stream.process(data, output_buffer_limit=self._LIMIT):
            self.output.write(chunk)
            data = b""

    def is_complete(self) -> bool:
        return self._stream.is_finished()


class _Zstd:
    """Zstandard, of one or more frames, with windows up to 8 MiB (RFC 9659)."""

    def __init__(self, output: _BoundedOutput) -> None:
        self.output = output
        self._frame: zstd.ZstdDecompressor | None = None
        self._frames = 0

    def feed(self, data: bytes) -> None:
        while data or (self._frame is not None and not self._frame.needs_input):
            if self._frame is None:
                self._frames += 1
                if self._frames > _MAX_ZSTD_FRAMES:
                    raise zstd.ZstdError(f"more than {_MAX_ZSTD_FRAMES} frames")
                self._frame = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
            frame = self._frame
            self.output.write(frame.decompress(data, self.output.max_chunk()))
            data = b""
            if frame.eof:
                self._frame, data = None, frame.unused_data

    def is_complete(self) -> bool:
        return self._frame is None


_DECOMPRESSORS: Final[dict[str, Callable[[_BoundedOutput], _Decompressor]]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
"""The known content codings, by their HTTP names."""


class ContentDecoder:
    """Decodes the content codings of one body while it arrives.

    Parameters
    ----------
    codings : sequence of str
        The result of `parse_content_codings`, in the order of their application.
    limit : int
        Upper bound of the decoded bytes, also between two codings.
    """

    def __init__(self, codings: Iterable[str], limit: int) -> None:
        self._chunks: list[bytes] = []
        self._decompressors: list[_Decompressor] = []
        write: Callable[[bytes], None] = self._chunks.append
        for coding in codings:
            decompressor = _DECOMPRESSORS[coding](_BoundedOutput(write, limit))
            self._decompressors.append(decompressor)
            write = decompressor.feed
        self._feed = write

    @property
    def decoded_bytes(self) -> int:
        """Number of decoded bytes so far."""
        if not self._decompressors:
            return sum(map(len, self._chunks))
        return self._decompressors[0].output.byte_count

    def feed(self, data: bytes) -> None:
        """Decode the next bytes of the body.

        Raises
        ------
        FetchError
            Of kind ``decode`` for damaged bytes, ``too_large`` for output beyond the limit.
        """
        with _as_fetch_error():
            self._feed(data)

    def finish(self) -> bytes:
        """Return the whole decoded body.

        Raises
        ------
        FetchError
            Of kind ``decode`` for a truncated stream.
        """
        with _as_fetch_error():
            complete = all(
                decompressor.is_complete() for decompressor in reversed(self._decompressors)
            )
        if not complete:
            raise FetchError("decode", "The compressed body ends before its end mark.")
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)


def parse_content_codings(values: Iterable[str]) -> tuple[str, ...]:
    """Parse the Content-Encoding headers of a response, without names that are no coding.

    Raises
    ------
    FetchError
        Of kind ``decode`` for an unknown coding, or too many.

    Examples
    --------
    >>> parse_content_codings(["x-gzip, br"]), parse_content_codings(["UTF-8"])
    (('gzip', 'br'), ())
    """
    names = [name.strip().lower() for value in values for name in value.split(",")]
    codings = tuple(
        _ALIASES.get(name, name)
        for name in names
        # The name of a character encoding is there by mistake.
        if name not in _NO_CODING and encoding_for_label(name) is None
    )
    for coding in codings:
        if coding not in _DECOMPRESSORS:
            raise FetchError("decode", f"The body has the unknown content coding {coding[:40]!r}.")
    if len(codings) > _MAX_CODINGS:
        raise FetchError("decode", f"The body is compressed more than {_MAX_CODINGS} times over.")
    return codings


@contextmanager
def _as_fetch_error() -> Iterator[None]:
    try:
        yield
    except _DECOMPRESSION_ERRORS as exc:
        raise FetchError("decode", f"The compressed body is damaged ({exc}).") from exc


_SLICE_BYTES: Final = 16 * 1024
_DECODED_BYTES_PER_STEP: Final = 1024 * 1024


class ResponseBody:
    """Reads the body of one response.

    Parameters
    ----------
    response : aiohttp.ClientResponse
        A response whose body has not been read.
    wire_limit, decoded_limit : int
        Limits of the bytes as sent, and of the decoded bytes.

    retain : bool
        Whether to retain the bytes as sent.

    Attributes
    ----------
    wire_bytes : int
        Bytes of the body received so far, as sent.
    """

    __slots__ = ("_decoded_limit", "_response", "_retained", "_wire_limit", "wire_bytes")

    def __init__(
        self,
        response: ClientResponse,
        wire_limit: int,
        decoded_limit: int,
        *,
        retain: bool = False,
    ) -> None:
        self._retained: list[bytes] | None = [] if retain else None
        self._response = response
        self._wire_limit = wire_limit
        self._decoded_limit = decoded_limit
        self.wire_bytes: int = 0

    async def read(self) -> bytes:
        """Read the whole body and decode its content codings.

        Raises
        ------
        FetchError
            Of kind ``too_large`` or ``decode``.
        aiohttp.ClientError
            The connection ended before the body did.
        """
        codings = parse_content_codings(self._response.headers.getall("Content-Encoding", ()))
        if not codings:
            self._wire_limit = min(self._wire_limit, self._decoded_limit)
        # Responses that never have a body may declare a length too.
        if not self._response.content.at_eof():
            declared_length = self._response.content_length or 0
            if declared_length > self._wire_limit:
                raise self._too_large()
        if codings:
            return await self._read_encoded(codings)
        chunks: list[bytes] = []
        while chunk := await self._read_chunk():
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def as_sent(self) -> bytes:
        """Return what was received so far; used with `retain`."""
        return b"".join(self._retained or ())

    async def _read_chunk(self) -> bytes:
        """Return the next bytes; none at the end of the body."""
        chunk = await self._response.content.readany()
        self.wire_bytes += len(chunk)
        if self.wire_bytes > self._wire_limit:
            raise self._too_large()
        if self._retained is not None:
            self._retained.append(chunk)
        return chunk

    async def _read_encoded(self, codings: tuple[str, ...]) -> bytes:
        decoder = ContentDecoder(codings, self._decoded_limit)
        next_pause = _DECODED_BYTES_PER_STEP
        while chunk := await self._read_chunk():
            for start in range(0, len(chunk), _SLICE_BYTES):
                decoder.feed(chunk[start : start + _SLICE_BYTES])
                if decoder.decoded_bytes > next_pause:
                    # A few bytes can unpack to megabytes: yield to other pages.
                    next_pause = decoder.decoded_bytes + _DECODED_BYTES_PER_STEP
                    await asyncio.sleep(0)
        return decoder.finish() if self.wire_bytes else b""

    def _too_large(self) -> FetchError:
        return FetchError("too_large", f"The page is larger than {self._wire_limit:,} bytes.")


_MAX_BYTES: Final = 256 * 1024
"""A larger head is left to the parser, which refuses it."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE: Final = re.compile(rb"([^\r\n]*)\r?\n")
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER: Final = re.compile(rb"(" + _TOKEN + rb")[ \t]*:([^\n]*)")
_WELL_FORMED: Final = re.compile(
    rb"HTTP/[^\r\n]*\r?\n(?:" + _TOKEN + rb":[^\n]*\n|[ \t][^\n]*\n)*\r?\n"
)
_START: Final = b"HTTP/"
_STATUS: Final = slice(9, 12)
_BODILESS: Final = frozenset({b"204", b"304"})
_SWITCHING_PROTOCOLS: Final = b"101"
_ANNOUNCES_BODY: Final = re.compile(
    rb"\n(?:content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE
)


def repair_head(head: bytes) -> bytes:
    r"""Return the head of a response as the parser accepts it, with the empty line at its end.

    Spaces before a colon, lines without one, and repetitions of one Content-Length are dropped, as
    browsers do.

    Examples
    --------
    >>> repair_head(b"HTTP/1.1 200 OK\r\nServer : x\r\n\"junk\"\r\n\r\n")
    b'HTTP/1.1 200 OK\r\nServer: x\r\n\r\n'
    """
    if _WELL_FORMED.fullmatch(head) and head.lower().count(b"\ncontent-length:") <= 1:
        return head
    start_line, *lines = [match[1] for match in _LINE.finditer(head)]
    kept = [start_line]
    lengths: set[bytes] = set()
    is_kept = False
    for line in lines:
        header = _HEADER.fullmatch(line)
        if line[:1] in {b" ", b"\t"}:  # goes on with the header before it
            kept += [line] * is_kept
            continue
        is_kept = header is not None
        if header is None:
            continue
        name, value = header.groups()
        if name.lower() == b"content-length":
            is_kept = value.strip() not in lengths
            lengths.add(value.strip())
        kept += [name + b":" + value] * is_kept
    return b"\r\n".join([*kept, b"", b""])


class ResponseReader(ResponseHandler):
    """Reads the responses of one connection: repairs their heads, drops bodies that HTTP forbids.

    Some servers send a body with a 204 or 304, or in reply to HEAD. The parser would take it for
    the next response, so that this response, or a later one on the connection, would be lost. A
    connection whose response was changed is not used again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        # What came of the head of the current response; None once it is complete.
        self._head: bytes | None = None
        self._is_reply_to_head = self._is_complete = False
        # Whether the response before had no body, which may still come.
        self._follows_bodiless = False

    def set_response_params(self, *, skip_payload: bool = False, **options: Any) -> None:
        """Begin the next response of the connection."""
        self._follows_bodiless = self._is_complete
        self._head, self._is_complete = b"", False
        self._is_reply_to_head = skip_payload
        super().set_response_params(skip_payload=skip_payload, **options)

    def data_received(self, data: bytes) -> None:
        """Hand the next bytes on to the parser, heads as a whole."""
        is_body_of_last = (
            self._follows_bodiless and self._head == b"" and data[:5] != _START[: len(data)]
        )
        if data and (self._is_complete or is_body_of_last):
            self.force_close()
            if self.transport is not None:
                self.transport.close()  # the next request is sent again on another connection
            return
        while self._head is not None:
            received = self._head + data
            end = _END.search(received, max(0, len(self._head) - 3))
            if end is None and len(received) <= _MAX_BYTES:
                self._head = received
                return
            self._head, data = None, received
            if end is None:
                break
            head, rest = repair_head(received[: end.end()]), received[end.end() :]
            if head != received[: end.end()]:
                self.force_close()
            if head[_STATUS].startswith(b"1") and head[_STATUS] != _SWITCHING_PROTOCOLS:
                super().data_received(head)
                self._head, data = b"", rest
            else:
                data = head + self._allowed_body(head, rest)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let the parser judge a head that was cut off."""
        head, self._head = self._head, None
        if head:
            super().data_received(head)
        super().connection_lost(exc)

    def _allowed_body(self, head: bytes, body: bytes) -> bytes:
        """Return the start of a body, nothing of one that HTTP forbids."""
        has_no_body = head[_STATUS] in _BODILESS
        if not has_no_body and not self._is_reply_to_head:
            return body
        self._is_complete = True
        # A body that the head announces may still come, and must not meet the next response.
        if body or (has_no_body and _ANNOUNCES_BODY.search(head)):
            self.force_close()
        return b""
