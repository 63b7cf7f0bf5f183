"""Options of sockets that tests set."""

from __future__ import annotations

import socket
import struct


def reset_on_close(connection: socket.socket) -> None:
    """Let a close of this connection send RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
