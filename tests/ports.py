"""Free ports for servers that are stopped and started again on the same port."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below the range from which the kernel takes ports of outgoing connections (32768 by default):
# such a connection could have the port while its server is restarted.
_PORTS: Final = range(10_000, 32_000)


def free_port() -> int:
    """Return a port that was free a moment ago, and that no outgoing connection gets."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))  # on any address of this machine
            except OSError:
                continue
            return port
    raise OSError("none of 100 ports is free")
