"""The Retry-After header: seconds or a date, as servers really write it."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

CAP_S: Final = 300.0
"""No host is waited for longer at a time."""

# Longer numbers are no measure of time. ASCII only: int() would take any script's digits.
_SECONDS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z :+-]{10,40}")


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Read how long a server asks to be left alone.

    Parameters
    ----------
    value : str, optional
        The header: whole or broken seconds, or a date in one of HTTP's three forms.
    now : datetime
        The present, with a time zone.

    Returns
    -------
    float or None
        Whole seconds from now, at most 300; 0 for a date in the past; None for no header or one
        that makes no sense.

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
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(CAP_S, float(math.ceil(float(text))))
    if not _DATE.fullmatch(text):
        return None
    when = _date(text)
    if when is None:
        return None
    return min(CAP_S, max(0.0, float(math.ceil((when - now).total_seconds()))))


def _date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    # HTTP's dates are in universal time, whether they say so or not.
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
