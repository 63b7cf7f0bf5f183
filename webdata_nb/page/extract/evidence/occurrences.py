"""Finds the places of a value in a page, in every notation in which the page may write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.page.extract.evidence.page_index import MAX_MATCHES, WORD, PageIndex, Span, fold
from webdata_nb.page.extract.numbers import parse_number
from webdata_nb.page.extract.visible.prices import (
    CODES_OF_SYMBOL,
    CURRENCY_CODES,
    CURRENCY_OF_SYMBOL,
    currency_code,
)

_MAX_WORDS: Final = 60
_MAX_GAP: Final = 12
_MAX_NUMBER_TEXT: Final = 60
_MAX_URL_LENGTH: Final = 2000
_MAX_BEFORE_IN_URL: Final = 200
_UNIT_DISTANCE: Final = 16
_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ].*)?", re.DOTALL)
URL_TEXT: Final = re.compile(r"(?:https?:)?//\S+|/\S*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of a value.

    Attributes
    ----------
    span
        Its place in the folded text.
    notation
        How the page writes the value: ``text``, ``words`` (with other punctuation), ``number``,
        ``date``, ``url`` or ``currency``.
    """

    span: Span
    notation: str


def find_value(index: PageIndex, value: Any, within: Span | None = None) -> list[Occurrence]:
    """Return the places of a text or number, at most `MAX_MATCHES` in a part of the page."""
    if isinstance(value, int | float):
        return _occurrences(index.numbers_at(value, within), "number")[:MAX_MATCHES]
    if not isinstance(value, str) or not (needle := fold(value).strip()):
        return []
    code = currency_of(value)
    beside = islice(_currency_spans(index, code, value, within), MAX_MATCHES if code else 0)
    amounts = _occurrences(beside, "currency")
    known = {occurrence.span for occurrence in amounts}
    texts = (span for span in index.find(needle, within) if span not in known)
    found = _occurrences((s for s in texts if not (code and _is_in_url(index, s))), "text")
    if not found and not amounts:
        found = _occurrences(_words(index, value, within), "words")
    for notation, spans in _other_notations(index, value):
        known = {occurrence.span for occurrence in found}
        found += [
            Occurrence(span, notation)
            for span in spans
            if span not in known
            if within is None or within[0] <= span[0] < within[1]
        ]
    return (amounts + found)[:MAX_MATCHES]


def _occurrences(spans: Iterable[Span], notation: str) -> list[Occurrence]:
    return [Occurrence(span, notation) for span in spans]


def _words(index: PageIndex, value: str, within: Span | None) -> list[Span]:
    """Return the places of a text's words with other punctuation between them."""
    lines = [words for line in value.splitlines() if (words := WORD.findall(fold(line)))]
    words = [word for line in lines for word in line]
    if len(words) > _MAX_WORDS:
        return index.find_across_lines(fold(value).strip())
    if len(words) <= 1:
        return []
    return list(_around_longest_word(index, words, _words_pattern(lines), within))


def _around_longest_word(
    index: PageIndex, words: list[str], pattern: re.Pattern[str], within: Span | None
) -> Iterator[Span]:
    """Match a pattern around its longest word only, which keeps the time linear."""
    reach = sum(map(len, words)) + _MAX_GAP * len(words)
    first, last = within or (0, len(index.text))
    found = -1
    for start, end in index.find(max(words, key=len), within):
        window = max(start - reach, found, first), min(end + reach, last)
        match = pattern.search(index.text, *window)
        if match is not None and match.end() > found:
            found = match.end()
            if index.is_boundary(match.start()) and index.is_boundary(found):
                yield match.span()


def _words_pattern(lines: list[list[str]]) -> re.Pattern[str]:
    joined = (r"[^\w\n]{0,6}".join(map(re.escape, line)) for line in lines)
    return re.compile(rf"\W{{0,{_MAX_GAP}}}".join(joined))


def _other_notations(index: PageIndex, value: str) -> Iterator[tuple[str, Iterable[Span]]]:
    if match := _DAY.fullmatch(value.strip()):
        yield "date", _date_spans(index, *map(int, match.groups()))
    elif any(map(str.isdigit, value)) and len(value) <= _MAX_NUMBER_TEXT:
        yield "number", _quantity_spans(index, value)
    if URL_TEXT.fullmatch(value.strip()) and len(value) <= _MAX_URL_LENGTH:
        yield "url", _url_spans(index, value.strip())


def currency_of(value: object) -> str:
    """Return the code of a text that is the symbol or the code of a currency; else empty."""
    return currency_code(value) if isinstance(value, str) and len(value) <= 8 else ""  # noqa: PLR2004 - no symbol is longer


def _currency_spans(index: PageIndex, code: str, value: str, within: Span | None) -> Iterator[Span]:
    """Return places of a currency's code and symbols beside a number."""
    symbols = {symbol for symbol, each in CURRENCY_OF_SYMBOL.items() if each == code}
    symbols |= {symbol for symbol, codes in CODES_OF_SYMBOL.items() if code in codes}
    if code.lower() in CURRENCY_CODES:
        symbols.add(code.lower())
    for symbol in sorted({*symbols, value.casefold().strip()}):
        for start, end in index.find_anywhere(fold(symbol).strip(), within):
            beside = index.text[max(start - 2, 0) : start].rstrip(), index.text[end : end + 2]
            is_beside = beside[0][-1:].isdecimal() or beside[1].lstrip()[:1].isdecimal()
            is_beside = is_beside and not _is_in_url(index, (start, end))
            if is_beside and _is_between_words(index, start) and _is_between_words(index, end):
                yield start, end


def _is_in_url(index: PageIndex, span: Span) -> bool:
    """Return whether a place is in a URL, where `$` is no currency."""
    before = index.text[max(span[0] - _MAX_BEFORE_IN_URL, 0) : span[0]]
    return "/" in before and not any(map(str.isspace, before[before.rindex("/") :]))


def _is_between_words(index: PageIndex, at: int) -> bool:
    """Return whether no word continues at a place, where digits are no part of a word."""
    around = index.text[max(at - 1, 0) : at + 1]
    return index.is_boundary(at) or any(map(str.isdigit, around))


def _date_spans(index: PageIndex, year: int, month: int, day: int) -> list[Span]:
    try:
        spans = index.dates.get(date(year, month, day), [])
    except ValueError:
        return []
    iso = re.compile(rf"(?<!\d){year:04}-{month:02}-{day:02}(?!\d)")
    return [*spans, *(span for span in index.search(iso) if span not in spans)]


def _quantity_spans(index: PageIndex, value: str) -> Iterator[Span]:
    """Return places of the number of a text such as ``19,99 EUR``, beside the same unit."""
    unit = " ".join(word for word in WORD.findall(fold(value)) if not word[0].isdigit())
    for decimal_comma in (False, True):
        number = parse_number(fold(value), decimal_comma=decimal_comma)
        for span in index.numbers.get(number, ()) if number is not None else ():
            if not unit or _has_unit_near(index, span, value, unit):
                yield span


def _has_unit_near(index: PageIndex, span: Span, value: str, unit: str) -> bool:
    near = index.text[max(0, span[0] - _UNIT_DISTANCE) : span[1] + _UNIT_DISTANCE]
    if unit in near:
        return True
    code = currency_of("".join(each for each in value if not each.isdigit() and each not in ".,'"))
    symbols = (symbol for symbol, each in CURRENCY_OF_SYMBOL.items() if each == code and code)
    return any(fold(symbol) in near for symbol in (*symbols, code.lower()) if symbol)


def _url_spans(index: PageIndex, value: str) -> list[Span]:
    """Return places of the path of a URL that the page writes relative to its own."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return []
    path = fold(parts._replace(scheme="", netloc="", fragment="").geturl())
    return index.find(path) if len(path) > 1 else []
