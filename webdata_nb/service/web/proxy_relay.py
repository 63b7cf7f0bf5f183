"""Relays bytes between a browser and a server through the forward proxy, within a page's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final

from webdata_nb.service.web.http_heads import read_head
from webdata_nb.service.web.proxy_session import ProxySession

_CHUNK_BYTES: Final = 64 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyRelay:
    """Relays one connection of a browser to a server and back."""

    def __init__(self, session: ProxySession, browser: Streams, server: Streams) -> None:
        self._session = session
        self._browser, self._server = browser, server
        self._clock = asyncio.get_running_loop().time
        self._last_activity = self._clock()

    async def relay_tunnel(self) -> None:
        """Relay both directions until either side closes."""
        await _run_until_first_ends(
            self._copy(self._browser[0], self._server[1]),
            self._copy(self._server[0], self._browser[1]),
        )

    async def relay_exchange(self, method: str, body_length: int) -> None:
        """Relay one request's body and its response, and nothing after them."""
        await _run_until_first_ends(
            self._send_request_body(body_length), self._return_response(method)
        )

    async def _send_request_body(self, length: int) -> None:
        await self._copy(self._browser[0], self._server[1], length=length)
        # Nothing after the request is forwarded. Reading on detects that the browser disconnects.
        await self._browser[0].read(1)

    async def _return_response(self, method: str) -> None:
        """Return the response with "Connection: close"."""
        async with asyncio.timeout(self._session.limits.idle_s):
            head = await read_head(self._server[0])
            while 100 <= head.status < 200:  # noqa: PLR2004 - interim responses
                head = await read_head(self._server[0])
        response = head.forwarded_response([("Connection", "close")])
        self._session.add_traffic(len(response))
        self._browser[1].write(response)
        # Not every server closes the connection, so the length of the response ends it.
        length = head.response_length(method)
        await self._copy(self._server[0], self._browser[1], length=length)

    async def _copy(
        self,
        source: asyncio.StreamReader,
        destination: asyncio.StreamWriter,
        *,
        length: int | None = None,
    ) -> None:
        remaining = length
        while remaining is None or remaining > 0:
            size = _CHUNK_BYTES if remaining is None else min(remaining, _CHUNK_BYTES)
            chunk = await self._read(source, size)
            if not chunk:
                return
            remaining = None if remaining is None else remaining - len(chunk)
            self._session.add_traffic(len(chunk))
            destination.write(chunk)
            try:
                async with asyncio.timeout(self._session.limits.idle_s):
                    await destination.drain()
            except TimeoutError:
                return  # The receiver reads no more.

    async def _read(self, source: asyncio.StreamReader, size: int) -> bytes:
        """Read the next chunk; return nothing after the idle timeout of both directions."""
        while True:
            idle_s = self._clock() - self._last_activity
            remaining_s = self._session.limits.idle_s - idle_s
            if remaining_s <= 0:
                return b""
            try:
                async with asyncio.timeout(remaining_s):
                    chunk = await source.read(size)
            except TimeoutError:
                continue
            self._last_activity = self._clock()
            return chunk


async def _run_until_first_ends(*directions: Coroutine[None, None, None]) -> None:
    """Run until one direction ends. Its failure ends the connection, and is not reported."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
