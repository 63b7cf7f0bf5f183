"""Addresses that a service must not reach, in every spelling, and the names that lead to them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

POLICY_TEXT: Final = "The network policy of this service does not allow that address."
NAME_TEXT: Final = (
    "The host {!r} has no address that this service may reach: its name cannot be resolved, "
    "or the network policy does not allow where it leads."
)
INNER: Final = "127.0.0.9"
# One inner host, as it may be written: a local service reaches it, a team's does not.
INNER_HOSTS: Final = {
    "address": INNER,
    "decimal": "2130706441",
    "octal": "0177.0.0.011",
    "hexadecimal": "0x7f.0.0x9",
    "short": "127.9",
    "mapped": f"[::ffff:{INNER}]",
    "fullwidth": "127。0。0。9",
    "name": "inside.test",
    "mapped-name": "mapped.test",
}
# Never reached by a team's service, and by nobody in these tests.
PRIVATE_HOSTS: Final = {
    "private": "10.0.0.1",
    "private-name": "private.test",
    "public-and-private-name": "mixed.test",
    "unique-local": "[fd12:3456::1]",
    "carrier": "100.64.0.1",
    "nat64": "[64:ff9b::10.0.0.1]",
    "6to4": "[2002:a00:1::]",
    "unspecified": "0.0.0.0",
}
# Reached by no service at all, whatever its mode.
METADATA_HOSTS: Final = {
    "metadata": "169.254.169.254",
    "metadata-decimal": "2852039166",
    "metadata-octal": "0251.0376.0251.0376",
    "metadata-mapped": "[::ffff:a9fe:a9fe]",
    "metadata-nat64": "[64:ff9b::a9fe:a9fe]",
    "metadata-v6": "[fd00:ec2::254]",
    "metadata-name": "metadata.test",
    "metadata-v6-name": "metadata6.test",
    "metadata-of-another-cloud": "100.100.100.200",
}
NAMES: Final = {
    "inside.test": [INNER],
    "mapped.test": [f"::ffff:{INNER}"],
    "private.test": ["10.0.0.1"],
    "mixed.test": ["127.0.0.1", "10.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "metadata6.test": ["fd00:ec2::254"],
}


def look_up(host: str) -> list[str]:
    """Stand in for the operating system's resolver."""
    if host not in NAMES:
        raise OSError(-2, "Name or service not known")
    return list(NAMES[host])


def refusal(mode: str, host: str) -> str:
    """Return what is said of a forbidden host: a team is not told whether a name is known."""
    return NAME_TEXT.format(host) if mode == "team" and host in NAMES else POLICY_TEXT


@dataclass
class Inside:
    """The inner address; `callers` are those who got through to it."""

    port: int
    callers: list[Any] = field(default_factory=list)

    def url(self, host: str = INNER) -> str:
        return f"http://{host}:{self.port}/secret"


@asynccontextmanager
async def inside(*, listening: bool = True) -> AsyncIterator[Inside]:
    """Listen at the inner address, or take a port there that nobody listens on."""
    sock = socket.socket()
    sock.bind((INNER, 0))
    found = Inside(sock.getsockname()[1])
    if not listening:
        with sock:
            yield found
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.callers.append(writer.get_extra_info("peername"))
        await reader.read(1)
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, sock=sock)
    async with server:
        yield found
