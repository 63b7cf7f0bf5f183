"""Dates as pages write them, for schemas that ask for ISO 8601."""

from __future__ import annotations

import re
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_LENGTH: Final = 64

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
_SAID: Final = re.compile(r"^(?:(?:on|published|posted|updated)\b:? ?)+", re.IGNORECASE)
_TIME: Final = re.compile(r"(?:,? (?:at )?|T)\d{1,2}:\d\d\b.*$", re.DOTALL)
_MONTHS_A_YEAR: Final = 12
_SHORTEST: Final = 3


def iso_date(text: str) -> str | None:
    """Return the day that `text` names as ``YYYY-MM-DD``, in the zone it is written in."""
    moment = _moment(text)
    found = moment.date() if moment is not None else _day(_bare(text))
    return found.isoformat() if found is not None else None


def iso_datetime(text: str) -> str | None:
    """Return the moment that `text` names in ISO 8601; a day without a time is none.

    An offset that is not written is not added.
    """
    moment = _moment(text)
    return moment.isoformat() if moment is not None else None


def _bare(text: str) -> str:
    """Return the day in a text without the word before it and the time of day after it."""
    folded = " ".join(text[: 2 * MAX_LENGTH].split())
    return _TIME.sub("", _SAID.sub("", folded))


def _moment(text: str) -> datetime | None:
    written = text.strip()
    if not _SHORTEST < len(written) <= MAX_LENGTH or (":" not in written and "T" not in written):
        return None
    try:
        if _ISO.fullmatch(written):
            return datetime.fromisoformat(written)
        return parsedate_to_datetime(written)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _day(written: str) -> date | None:
    if match := _YEAR_FIRST.fullmatch(written):
        return _date(int(match[1]), int(match[2]), int(match[3]))
    if match := _DAY_MONTH.fullmatch(written):
        return _date(int(match[3]), _month(match[2]), int(match[1]))
    if match := _MONTH_DAY.fullmatch(written):
        return _date(int(match[3]), _month(match[1]), int(match[2]))
    if match := _NUMERIC.fullmatch(written):
        return _numeric(int(match[1]), int(match[3]), int(match[4]), point=match[2] == ".")
    try:
        return date.fromisoformat(written) if _ISO.fullmatch(written) else None
    except ValueError:
        return None


def _numeric(first: int, second: int, year: int, *, point: bool) -> date | None:
    """Read day and month where their order is plain; 03/04 may be either, 03.04. is the day."""
    if point or first > _MONTHS_A_YEAR or first == second:
        return _date(year, second, first)
    return _date(year, first, second) if second > _MONTHS_A_YEAR else None


def _month(name: str) -> int:
    known = [at for at, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    if name.lower() == "sept":
        return _MONTHS.index("september") + 1
    return known[0] if len(known) == 1 else 0


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
