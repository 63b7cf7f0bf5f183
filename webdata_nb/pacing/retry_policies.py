"""All retry policies: how often each kind of operation is tried again, and after which delays.

The code that retries takes its policy from here and decides which failures may pass. A
`Retry-After` of the server, which `parse_retry_after` reads, replaces the delay of a policy. The
delays between the deliveries of a webhook are part of its profile
(`service.webhooks.schedule`), and circuit breakers have policies of their own
(`circuit_breaker`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_RETRY_AFTER_S: Final = 300.0
"""Longest delay that a server may impose at a time."""

# Longer numbers are not a measure of time. ASCII only: int() accepts the digits of any script.
_SECONDS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z :+-]{10,40}")

# A larger exponent could overflow a float; every policy has reached its longest delay by then.
_MAX_EXPONENT: Final = 60


def growing_delay_s(
    number: int, first_delay_s: float, max_delay_s: float, factor: float = 2.0
) -> float:
    """Return the delay of a number, counted from 1, in a geometric series with an upper bound."""
    return min(max_delay_s, first_delay_s * factor ** min(number - 1, _MAX_EXPONENT))


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Delays that grow by a constant factor from attempt to attempt.

    Attributes
    ----------
    first_delay_s, max_delay_s : float
        Seconds before the second attempt, and the upper bound of every delay.
    factor : float
        Growth of the delay from one attempt to the next.
    max_attempts : int, optional
        Attempts in all, the first included; None for no limit.
    jitter : tuple of float
        Smallest and largest factor by which a random number changes a delay.

    Examples
    --------
    >>> [MODEL_CALL.delay_s(attempt) for attempt in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
    >>> MODEL_CALL.next_delay_s(6) is None
    True
    """

    first_delay_s: float
    max_delay_s: float
    factor: float = 2.0
    max_attempts: int | None = None
    jitter: tuple[float, float] = (1.0, 1.0)

    def delay_s(self, attempt: int, random_fraction: float = 0.0) -> float:
        """Return the seconds to wait after an attempt, counted from 1.

        `random_fraction` is a random number from 0 to 1 that selects the jitter.
        """
        delay_s = growing_delay_s(attempt, self.first_delay_s, self.max_delay_s, self.factor)
        return self.jittered(delay_s, random_fraction)

    def next_delay_s(
        self, attempt: int, *, retry_after_s: float | None = None, random_fraction: float = 0.0
    ) -> float | None:
        """Return the seconds to wait after an attempt, or None after the last attempt.

        The delay that a server asks for (`retry_after_s`) replaces the policy's own.
        """
        if self.max_attempts is not None and attempt >= self.max_attempts:
            return None
        return self.delay_s(attempt, random_fraction) if retry_after_s is None else retry_after_s

    def increased(self, delay_s: float) -> float:
        """Return the delay that follows `delay_s`, before jitter."""
        return max(self.first_delay_s, min(self.max_delay_s, delay_s * self.factor))

    def jittered(self, delay_s: float, random_fraction: float) -> float:
        """Return a delay changed by the policy's jitter."""
        smallest, largest = self.jitter
        return delay_s * (smallest + (largest - smallest) * random_fraction)


PAGE: Final = BackoffPolicy(0.25, math.inf, max_attempts=3)
"""Pages, checked links, robots.txt, sitemaps and other files of sites, within their timeout."""
PAGE_WITH_RETRY_AFTER: Final = replace(PAGE, max_attempts=30)
"""The same if the site sends Retry-After: their timeout usually ends the attempts first."""
HOST_SLOWDOWN: Final = BackoffPolicy(0.25, 8.0, jitter=(1.0, 1.25))
"""The interval between requests to a host that sends overload replies. The jitter keeps processes
from returning together."""
MODEL_CALL: Final = BackoffPolicy(1.0, 16.0, max_attempts=6)
"""Calls of language models after a rate limit."""
FAILED_MODEL_CALL: Final = replace(MODEL_CALL, max_attempts=3)
"""Calls of language models after another failure that may pass."""
ARCHIVE_ATTEMPTS: Final = 5
"""Requests to a web archive; each waits for the pause that the failure before imposed on it."""
AD_SOURCE_ATTEMPTS: Final = 3
"""Requests to a source of ads, likewise."""
STORE: Final = BackoffPolicy(0.1, 5.0)
"""Writes of jobs while the store is unavailable."""
STORE_SIGNALS: Final = replace(STORE, max_delay_s=2.0)
"""The connection for signals of other processes; receivers look for changes after each delay."""
TRANSACTION: Final = BackoffPolicy(0.01, 1.0, max_attempts=10, jitter=(0.0, 1.0))
"""Transactions that PostgreSQL rolled back in favour of others."""
CLIENT_REQUEST: Final = BackoffPolicy(0.25, 8.0, max_attempts=5, jitter=(0.5, 1.0))
"""Requests of the toolkit to the service."""
UNREADABLE_REPLY: Final = replace(CLIENT_REQUEST, max_attempts=3)
"""Requests of the toolkit whose reply is not JSON."""
EVENT_STREAM: Final = BackoffPolicy(0.2, 0.6)
"""Event streams that broke or ended early."""
FILE_LOCK: Final = BackoffPolicy(0.02, 0.25, factor=1.5)
"""Locks of the cache that another process holds."""


def parse_retry_after(
    value: str | None, now: datetime, *, max_s: float = MAX_RETRY_AFTER_S
) -> float | None:
    """Return the seconds for which a server asks its clients to wait.

    Parameters
    ----------
    value : str, optional
        The header: seconds, whole or with a fraction, or an HTTP date.
    now : datetime
        The present time, with a time zone.
    max_s : float
        Upper bound of the result.

    Returns
    -------
    float or None
        Whole seconds from now, rounded up; 0 for a date in the past; None for a missing or
        invalid header.

    Examples
    --------
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> parse_retry_after("1.5", now)
    2.0
    >>> parse_retry_after("Thu, 01 Jan 2026 00:02:00 GMT", now)
    120.0
    >>> parse_retry_after("soon", now) is None
    True
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return min(max_s, float(math.ceil(float(text))))
    date = parse_http_date(text)
    if date is None:
        return None
    return min(max_s, max(0.0, float(math.ceil((date - now).total_seconds()))))


def parse_http_date(text: str) -> datetime | None:
    """Return an HTTP date with its time zone; None for an invalid one."""
    if not _DATE.fullmatch(text):
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    # HTTP dates are in UTC, whether they say so or not.
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
