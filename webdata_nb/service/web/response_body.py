"""Reads response bodies within limits of wire bytes and decoded bytes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.content_codings import ContentDecoder, parse_content_codings

if TYPE_CHECKING:
    from aiohttp import ClientResponse

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
        self.wire_bytes = 0

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
        if self._declared_length() > self._wire_limit:
            raise self._too_large()
        return await (self._read_encoded(codings) if codings else self._read_plain())

    def as_sent(self) -> bytes:
        """Return what was received so far; used with `retain`."""
        return b"".join(self._retained or ())

    def _declared_length(self) -> int:
        """Return the Content-Length; responses that never have a body may send one too."""
        has_body = not self._response.content.at_eof()
        return (self._response.content_length or 0) if has_body else 0

    async def _read_chunk(self) -> bytes:
        """Return the next bytes; none at the end of the body."""
        chunk = await self._response.content.readany()
        self.wire_bytes += len(chunk)
        if self.wire_bytes > self._wire_limit:
            raise self._too_large()
        if self._retained is not None:
            self._retained.append(chunk)
        return chunk

    async def _read_plain(self) -> bytes:
        chunks = []
        while chunk := await self._read_chunk():
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

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
