"""Parses the date formats of web pages, for schema fields of format `date` and `date-time`."""

from __future__ import annotations

import re
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_DATE_LENGTH: Final = 64

_MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAY_MONTH: Final = re.compile(
    r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([a-z]{3,9})\.?,?\s+(\d{4})", re.IGNORECASE
)
_MONTH_DAY: Final = re.compile(
    r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.IGNORECASE
)
_NUMERIC: Final = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
_YEAR_FIRST: Final = re.compile(r"(\d{4})[./-](\d{1,2})[./-](\d{1,2})")
_ISO: Final = re.compile(r"\d{4}-?\d\d-?\d\d([T ]\d\d.*)?", re.DOTALL)
_PREFIX: Final = re.compile(r"^(?:(?:on|published|posted|updated)\b:? ?)+", re.IGNORECASE)
_TIME_OF_DAY: Final = re.compile(r"(?:,? (?:at )?|T)\d{1,2}:\d\d\b.*$", re.DOTALL)
_MONTHS_PER_YEAR: Final = 12
_MIN_DATE_LENGTH: Final = 3


def iso_date(text: str) -> str | None:
    """Return the day of a date or time as ``YYYY-MM-DD``, in the time zone of the text."""
    time = _parse_datetime(text)
    day = time.date() if time is not None else _parse_date(_strip_context(text))
    return day.isoformat() if day is not None else None


def iso_datetime(text: str) -> str | None:
    """Return a time in ISO 8601; None for a day without a time.

    The result has a UTC offset only if the text has one.
    """
    time = _parse_datetime(text)
    return time.isoformat() if time is not None else None


def _strip_context(text: str) -> str:
    """Return a text without words such as "Published on", and without the time of day."""
    text = " ".join(text[: 2 * MAX_DATE_LENGTH].split())
    return _TIME_OF_DAY.sub("", _PREFIX.sub("", text))


def _parse_datetime(text: str) -> datetime | None:
    text = text.strip()
    if not _MIN_DATE_LENGTH < len(text) <= MAX_DATE_LENGTH or (":" not in text and "T" not in text):
        return None
    try:
        if _ISO.fullmatch(text):
            return datetime.fromisoformat(text)
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _parse_date(text: str) -> date | None:
    if match := _YEAR_FIRST.fullmatch(text):
        return _date(int(match[1]), int(match[2]), int(match[3]))
    if match := _DAY_MONTH.fullmatch(text):
        return _date(int(match[3]), _month_number(match[2]), int(match[1]))
    if match := _MONTH_DAY.fullmatch(text):
        return _date(int(match[3]), _month_number(match[1]), int(match[2]))
    if match := _NUMERIC.fullmatch(text):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        return _unambiguous_date(first, second, year, day_first=match[2] == ".")
    try:
        return date.fromisoformat(text) if _ISO.fullmatch(text) else None
    except ValueError:
        return None


def _unambiguous_date(first: int, second: int, year: int, *, day_first: bool) -> date | None:
    """Return a date whose order of day and month is clear: 03.04. is, 03/04 is not."""
    if day_first or first > _MONTHS_PER_YEAR or first == second:
        return _date(year, second, first)
    return _date(year, first, second) if second > _MONTHS_PER_YEAR else None


def _month_number(name: str) -> int:
    """Return the month with a name or abbreviation; 0 if there is none or more than one."""
    if name.lower() == "sept":
        return _MONTHS.index("september") + 1
    matches = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    return matches[0] if len(matches) == 1 else 0


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
