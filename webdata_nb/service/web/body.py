"""Reading a response's body: wire bytes and decoded bytes are bounded while they arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.content_codings import ContentDecoder, content_codings

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_SLICE: Final = 16 * 1024
_DECODED_PER_PAUSE: Final = 1024 * 1024


class ResponseBody:
    """The body of one response as it crosses the wire.

    Parameters
    ----------
    response : aiohttp.ClientResponse
        With its headers read and its body not.
    wire_limit, decoded_limit : int
        The most bytes to take from the wire, and the most that they may unpack to.

    Attributes
    ----------
    received : int
        Bytes of the body that have come so far, as sent.
    """

    __slots__ = ("_decoded_limit", "_response", "_wire_limit", "received")

    def __init__(self, response: ClientResponse, wire_limit: int, decoded_limit: int) -> None:
        self._response = response
        self._wire_limit = wire_limit
        self._decoded_limit = decoded_limit
        self.received = 0

    async def read(self) -> bytes:
        """Read to the end, and undo the content codings.

        Raises
        ------
        FetchError
            Of kind ``too_large`` or ``decode``.
        aiohttp.ClientError
            When the connection ended before the body did.
        """
        codings = content_codings(self._response.headers.getall("Content-Encoding", ()))
        if not codings:
            self._wire_limit = min(self._wire_limit, self._decoded_limit)
        if self._declared() > self._wire_limit:
            raise self._too_large()
        return await (self._read_coded(codings) if codings else self._read_plain())

    def _declared(self) -> int:
        """Give the announced length; answers that never have a body may announce one too."""
        has_body = not self._response.content.at_eof()
        return (self._response.content_length or 0) if has_body else 0

    async def _chunk(self) -> bytes:
        """Give what has arrived; nothing at the end of the body."""
        chunk = await self._response.content.readany()
        self.received += len(chunk)
        if self.received > self._wire_limit:
            raise self._too_large()
        return chunk

    async def _read_plain(self) -> bytes:
        chunks = []
        while chunk := await self._chunk():
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _read_coded(self, codings: tuple[str, ...]) -> bytes:
        decoder = ContentDecoder(codings, self._decoded_limit)
        pause_at = _DECODED_PER_PAUSE
        while chunk := await self._chunk():
            for start in range(0, len(chunk), _SLICE):
                decoder.feed(chunk[start : start + _SLICE])
                if decoder.decoded_bytes > pause_at:
                    # A few bytes can unpack to megabytes: other pages get their turn meanwhile.
                    pause_at = decoder.decoded_bytes + _DECODED_PER_PAUSE
                    await asyncio.sleep(0)
        return decoder.finish() if self.received else b""

    def _too_large(self) -> FetchError:
        return FetchError("too_large", f"The page is larger than {self._wire_limit:,} bytes.")
