"""The connections of a process to PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

POOL_SIZE: Final = 8
READERS: Final = 4
# The pool, a connection that listens for signals, one for the pacing, and two for locks.
CONNECTIONS_PER_PROCESS: Final = POOL_SIZE + READERS + 4
# A server that does not answer, or a network that loses everything, ends a call.
CONNECTION: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
