"""Parses the dates of web pages, for schema fields of format `date` and `date-time`."""

from __future__ import annotations

from webdata_nb.page.content.date_text import parse_date, parse_timestamp


def iso_date(text: str, language: str = "") -> str | None:
    """Return the day of a date or time as ``YYYY-MM-DD``, in the time zone of the text.

    Parameters
    ----------
    text
        A text with one date and little else. If it does not say which number is the month, as in
        3/4/2026, the result is None.
    language
        The language of the text, a BCP 47 tag, for names of months that differ by language.
    """
    time = parse_timestamp(text)
    day = time.date() if time is not None else parse_date(text, language=language)
    return day.isoformat() if day is not None else None


def iso_datetime(text: str) -> str | None:
    """Return a time in ISO 8601; None for a day without a time.

    The result has a UTC offset only if the text has one.
    """
    time = parse_timestamp(text)
    return time.isoformat() if time is not None else None
