"""Parses dates as people and programs write them, in the languages of the web."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT_LENGTH: Final = 64
"""Characters of a text that is a single date or time."""

_MONTHS_PER_YEAR: Final = 12
_YEARS: Final = range(1000, 2443)
_BUDDHIST_YEARS: Final = range(2443, 2800)
_BUDDHIST_ERA: Final = 543

# A date is searched in a few characters on both sides of its year, which takes linear time.
# Years begin with 1 or 2. A search for few first characters is fast, and all other digits that the
# web writes years with are beyond ASCII. Assertions about the neighbours would take longer.
_YEAR: Final = re.compile(r"[12\u0660-\U0010ffff](?<=\d)\d{3}")
_LEFT_LENGTH: Final = 40
_RIGHT_LENGTH: Final = 30
_MAX_NAME_LENGTH: Final = 20
_NAME: Final = (
    rf"(?P<name>[^\s\d.,;:!?()\[\]|/<>\"\u2013\u2014-]{{1,{_MAX_NAME_LENGTH}}}(?:\.\w(?=\.))?)"
)
_DAY: Final = r"(?P<day>\d{1,2})"
_ORDINAL: Final = r"(?:st|nd|rd|th|er|re|η|ής)?"
_DIGIT: Final = re.compile(r"\d")
_MORE_NUMBERS: Final = re.compile(r"\.\d")
_NUMERIC: Final = re.compile(r"(?<![\d.,/-])(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?$")
_DAY_OF: Final = (
    rf"(?<!\d){_DAY}{_ORDINAL}[.ºª°]{{0,2}}[\s/-]{{0,3}}(?:(?:de|of|den|ta)\s|d['\u2019])?"
)
_YEAR_OF: Final = r"(?:(?:de|del|of)\s)?['\u2019]?"
_TIME: Final = r"(?:\s\d\d?:\d\d(?::\d\d)?(?:\s[A-Z]{2,5})?)?"
_LEFT: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_DAY_OF}{_NAME}[.,]{{0,2}}[\s/,-]{{0,3}}{_YEAR_OF}$",
        rf"{_NAME}\.?[\s-]{{0,3}}{_DAY}{_ORDINAL}{_TIME}[.,]?[\s,-]{{0,3}}$",
        r"(?P<month>\d{1,2})\s?[月월]\s?(?P<day>\d{1,2})\s?[日일]?,?\s?$",
        rf"{_DAY}\s(?:tháng|thg)\s(?P<month>\d{{1,2}}),?\s(?:năm\s)?$",
    )
)
_RIGHT: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\s?([./-])\s?(?P<month>\d{{1,2}})\s?\1\s?{_DAY}(?!\d)",
        rf"\s?[年년]\s?(?P<month>\d{{1,2}})\s?[月월]\s?{_DAY}(?!\d)",
        rf"(?:\.\s?|\sm\.\s|,?\s|-){_NAME}\.?[\s-]{_DAY}(?!\d|:\d)",
        rf"\.\sgada\s{_DAY}\.\s{_NAME}",
    )
)

_ISO: Final = re.compile(r"\d{4}-?\d\d-?\d\d(?:[T ]\d\d.*)?", re.DOTALL)
_COMPACT: Final = re.compile(r"[12]\d{7}")
_UNIX_TIME: Final = re.compile(r"1\d{9}(?:\d{3})?")
_CLOCK: Final = r"\d{1,2}[:.h]\d\d(?!\d)"
# Of a text that is a date: what may precede and follow the date.
_BEFORE_DATE: Final = re.compile(rf"(?:{_CLOCK}\D{{0,9}}\s)?(?:[^\s\d]+\s){{0,3}}[^\s\d]*")
_AFTER_DATE: Final = re.compile(
    rf"(?:(?:\D{{0,9}}|T){_CLOCK}.*|\s?[^\s\d]*(?:\s[^\s\d]+){{0,3}})", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class DateMatch:
    """A date in a text.

    Attributes
    ----------
    day
        The date.
    start, end
        Its position in the text.
    ambiguous
        Whether day and month may be the other way round.
    """

    day: date
    start: int
    end: int
    ambiguous: bool = False


def find_dates(
    text: str, *, language: str = "", day_first: bool | None = True
) -> Iterator[DateMatch]:
    """Find the dates with a year of four digits in a text, in their order.

    Parameters
    ----------
    text
        Any text; the time is linear in its length.
    language
        The language of the text, a BCP 47 tag, for the names of months.
    day_first
        Whether 3/4/2026 is in April; None omits such dates. Dates with periods always begin with
        the day.
    """
    end = 0
    for year in _YEAR.finditer(text):
        found = _date_at(text, year, language, day_first=day_first)
        if found is not None and found.start >= end:
            end = found.end
            yield found


def parse_date(text: str, *, language: str = "", day_first: bool | None = None) -> date | None:
    """Return the date in a text that has little else, such as "Published on 3 May 2026, 10:00".

    See `find_dates` for the parameters.
    """
    text = " ".join(text[: 2 * MAX_TEXT_LENGTH].split())
    if _COMPACT.fullmatch(text):
        return _date(int(text[:4]), int(text[4:6]), int(text[6:]))
    found = next(find_dates(text, language=language, day_first=day_first), None)
    if found is None or not _BEFORE_DATE.fullmatch(text, 0, found.start):
        return None
    return found.day if _AFTER_DATE.fullmatch(text, found.end) else None


def parse_timestamp(text: str) -> datetime | None:
    """Return the time that a program wrote: ISO 8601, RFC 5322 or Unix time.

    The result has a UTC offset only if the text has one. A day without a time returns None.
    """
    text = text.strip()
    if len(text) > MAX_TEXT_LENGTH:
        return None
    try:
        if _UNIX_TIME.fullmatch(text):
            return datetime.fromtimestamp(int(text[:10]), UTC)
        if ":" not in text and "T" not in text:
            return None
        return datetime.fromisoformat(text) if _ISO.fullmatch(text) else parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _date_at(
    text: str, match: re.Match[str], language: str, *, day_first: bool | None
) -> DateMatch | None:
    """Return the date whose year is `match`; day and month are on the left or on the right."""
    start, end = match.span()
    if text[start - 1 : start].isdigit() or text[end : end + 1].isdigit():
        return None
    year = _common_era(int(match[0]))
    if year is None:
        return None
    left = text[max(0, start - _LEFT_LENGTH) : start]
    right = text[end : end + _RIGHT_LENGTH]
    before = _LEFT if _DIGIT.search(left) else ()
    if before and (numeric := _NUMERIC.search(left)) and not _MORE_NUMBERS.match(right):
        found = _numeric_date(numeric, year, day_first=day_first)
        begin = start - len(left) + numeric.start()
        return found and DateMatch(found[0], begin, end, found[1])
    for pattern in before:
        if (part := pattern.search(left)) and (day := _named_date(part, year, language)):
            return DateMatch(day, start - len(left) + part.start(), end)
    for pattern in _RIGHT:
        if (part := pattern.match(right)) and (day := _named_date(part, year, language)):
            return DateMatch(day, start, end + part.end())
    return None


def _common_era(year: int) -> int | None:
    if year in _BUDDHIST_YEARS:
        return year - _BUDDHIST_ERA
    return year if year in _YEARS else None


def _named_date(match: re.Match[str], year: int, language: str) -> date | None:
    """Return the date of a match with a `day`, and a `month` or its `name`."""
    groups = match.groupdict()
    month = month_number(groups["name"], language) if "name" in groups else int(groups["month"])
    return _date(year, month or 0, int(groups["day"]))


def _numeric_date(
    match: re.Match[str], year: int, *, day_first: bool | None
) -> tuple[date, bool] | None:
    """Return the date of two numbers and a separator, and whether it is ambiguous."""
    first, second = int(match[1]), int(match[3])
    if match[2] == "." or first > _MONTHS_PER_YEAR or first == second:
        order, ambiguous = True, False
    elif second > _MONTHS_PER_YEAR:
        order, ambiguous = False, False
    elif day_first is None:
        return None
    else:
        order, ambiguous = day_first, True
    day = _date(year, second, first) if order else _date(year, first, second)
    return (day, ambiguous) if day is not None else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


_MIN_ABBREVIATION: Final = 3
# In these, abbreviations are also read on a page that declares another language or none.
_WIDESPREAD: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ru", "sv", "da")
_OTHER_CODES: Final = {"no": "nb", "nn": "nb", "bs": "sr", "sh": "sr", "fil": "tl", "iw": "he"}


@lru_cache(maxsize=4096)
def month_number(name: str, language: str = "") -> int | None:
    """Return the month with a name or an abbreviation of at least three letters.

    Parameters
    ----------
    name
        A name in any case, with or without accents, or with a period at its end.
    language
        A BCP 47 tag. Its names precede those of other languages: "listopada" is October in
        Croatian and November in Polish.

    Returns
    -------
    int or None
        1 to 12; None for other words and for abbreviations of more than one month.
    """
    word = _fold(name).rstrip(".")
    code = language[:3].partition("-")[0].lower()
    code = _OTHER_CODES.get(code, code)
    if code in _names_by_language() and (month := _names_of(code).get(word)) is not None:
        return month
    return _all_names().get(word)


def _fold(name: str) -> str:
    """Return a name in lower case without accents; the dotless i of Turkish has its dot."""
    decomposed = unicodedata.normalize("NFKD", name.lower().replace("\u0131", "i"))
    return "".join(sign for sign in decomposed if unicodedata.category(sign) != "Mn")


@cache
def _names_by_language() -> dict[str, str]:
    import tomllib  # noqa: PLC0415 - pages without dates do not need it

    return tomllib.loads(Path(__file__).with_name("month_names.toml").read_text("utf-8"))


@cache
def _names_of(language: str) -> dict[str, int]:
    """Return the months by each name of a language and each unambiguous beginning of one."""
    names = _whole_names(language)
    months: dict[str, set[int]] = {}
    for name, month in names.items():
        for length in range(_MIN_ABBREVIATION, len(name)):
            months.setdefault(name[:length], set()).add(month)
    beginnings = {text: min(found) for text, found in months.items() if len(found) == 1}
    return beginnings | names


def _whole_names(language: str) -> dict[str, int]:
    return {
        _fold(name): month
        for month, forms in enumerate(_names_by_language()[language].split(), 1)
        for name in forms.split("/")
    }


@cache
def _all_names() -> dict[str, int]:
    """Return the months by name in any language; the first language of the table decides."""
    names: dict[str, int] = {}
    for language in _WIDESPREAD:
        names = _names_of(language) | names
    for language in _names_by_language():
        names = _whole_names(language) | names
    return names
