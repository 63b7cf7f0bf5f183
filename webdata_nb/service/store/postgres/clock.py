"""Estimates the server's time from its last answer, to save a query per use."""

from __future__ import annotations

import time
from typing import Any, Final

import psycopg

# A clock that is a few parts in a million off drifts by less than a millisecond in this time.
INTERVAL_S: Final = 60.0
_SAMPLES: Final = 3


class ServerClock:
    """The server's clock, as this process's monotonic clock plus an offset.

    The offset is measured by requests to the server: half of the fastest one's duration is its
    error. The time of this machine does not matter, nor whether someone changes it.

    Attributes
    ----------
    offset : float
        Seconds by which the server's time is ahead of this process's monotonic clock.
    """

    def __init__(self) -> None:
        self.offset = 0.0
        self._measured_at = float("-inf")

    def now(self) -> float:
        """Return the server's time in Unix seconds."""
        return time.monotonic() + self.offset

    @property
    def is_due(self) -> bool:
        """Whether the offset should be measured again."""
        return time.monotonic() - self._measured_at > INTERVAL_S

    def synchronize(self, connection: psycopg.Connection[Any]) -> None:
        """Measure the offset."""
        self._measured_at = time.monotonic()
        samples = [_sample(connection) for _ in range(_SAMPLES)]
        self.offset = min(samples)[1]


def _sample(connection: psycopg.Connection[Any]) -> tuple[float, float]:
    """Return the duration of a request, and the offset by it."""
    start = time.monotonic()
    cursor = connection.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS now")
    end = time.monotonic()
    row = cursor.fetchone()
    server_time = float(row["now"]) if row else 0.0
    return end - start, server_time - (start + end) / 2
