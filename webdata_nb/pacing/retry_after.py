"""Parses the Retry-After header: seconds, or any of the three forms of an HTTP date."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_RETRY_AFTER_S: Final = 300.0
"""Longest delay that a server may impose at a time."""

# Longer numbers are not a measure of time. ASCII only: int() accepts the digits of any script.
_SECONDS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z :+-]{10,40}")


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
