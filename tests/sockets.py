"""Options and states of TCP connections that tests need."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Final

_DEADLINE_S: Final = 120


def reset_on_close(connection: socket.socket) -> None:
    """Let a close of this connection send RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wait_until_read(connection: socket.socket) -> None:
    """Wait until the other end, on 127.0.0.1 too, has read all that was sent. Linux only.

    A reset before that discards what was sent.
    """
    ends = [_proc_address(end) for end in (connection.getpeername(), connection.getsockname())]
    deadline = time.monotonic() + _DEADLINE_S
    while not _is_read(ends):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_read(ends: list[str]) -> bool:
    """Return whether the connection with these ends is listed with an empty receive queue."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines())
    # Connections that open or close while the file is read may hide a row, or repeat it.
    queues = {row[4].partition(":")[2] for row in rows if row[1:3] == ends}
    return queues == {"00000000"}


def _proc_address(address: tuple[str, int]) -> str:
    """Return an IPv4 address and port as /proc/net/tcp writes them."""
    [number] = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
