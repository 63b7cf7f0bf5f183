"""Opens connections for the forward proxy: to checked addresses, or through an upstream proxy."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from webdata_nb.page.urls import UrlParts
from webdata_nb.service.web.ca_bundle import tls_context
from webdata_nb.service.web.http_heads import format_head, read_head
from webdata_nb.service.web.proxy_relay import Streams

MAX_HEAD_BYTES: Final = 64 * 1024
_CONNECT_TIMEOUT_S: Final = 10.0


async def connect_to_address(addresses: tuple[str, ...], port: int) -> Streams:
    """Connect to the first of some checked addresses that accepts the connection."""
    last_error: OSError | None = None
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=MAX_HEAD_BYTES)
            except OSError as error:
                last_error = error
    raise last_error or ConnectionError("no address")


class UpstreamProxy:
    """An http or https proxy of the user's own.

    Attributes
    ----------
    credential : list of (str, str)
        The header that authenticates to it; empty without a user name.
    """

    def __init__(self, url: str, ca_bundle: Path | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("A proxy is given as http://host:port or https://host:port.")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._secure = parts.scheme == "https"
        self._ca_bundle = ca_bundle
        self.credential: list[tuple[str, str]] = []
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = b64encode(pair.encode()).decode()
            self.credential.append(("Proxy-Authorization", f"Basic {basic}"))

    async def connect(self, tunnel_to: UrlParts | None) -> Streams:
        """Connect to the proxy, and open a tunnel through it if `tunnel_to` is given."""
        context = await asyncio.to_thread(tls_context, self._ca_bundle) if self._secure else None
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=context, limit=MAX_HEAD_BYTES
            )
            if tunnel_to is not None:
                await self._open_tunnel(reader, writer, tunnel_to)
        return reader, writer

    async def _open_tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: UrlParts
    ) -> None:
        headers = [("Host", target.server), *self.credential]
        is_open = False
        try:
            writer.write(format_head(f"CONNECT {target.server} HTTP/1.1", headers))
            is_open = (await read_head(reader)).status == HTTPStatus.OK
        finally:
            if not is_open:
                writer.transport.abort()
        if not is_open:
            raise ConnectionError("the proxy opened no tunnel")
