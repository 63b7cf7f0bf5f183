"""Reads dates: as people and programs write them, and when a page was published and modified.

The second part finds the dates of a page in its declarations and in what it shows.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from webdata_nb.page.content.parser import (
    NOT_RENDERED,
    Element,
    Text,
    body_of,
    collapse_whitespace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.structured_data import JsonLd


MAX_TEXT_LENGTH: Final = 64
"""Characters of a text that is a single date or time."""

_MONTHS_PER_YEAR: Final = 12
_YEARS: Final = range(1000, 2443)
_BUDDHIST_YEARS: Final = range(2443, 2800)
_BUDDHIST_ERA: Final = 543

# A date is searched in a few characters on both sides of its year, which takes linear time.
# Years begin with 1 or 2. A search for one first character is many times faster than one for a set,
# and all other digits that the web writes years with are beyond ASCII.
_YEARS_BY_DIGIT: Final = tuple(
    re.compile(pattern) for pattern in (r"1\d{3}", r"2\d{3}", r"[\u0660-\U0010ffff](?<=\d)\d{3}")
)
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
    years = chain.from_iterable(
        pattern.finditer(text) for pattern in _YEARS_BY_DIGIT[: 2 if text.isascii() else 3]
    )
    for year in sorted(years, key=re.Match.start):
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
    year = int(match[0])
    if year in _BUDDHIST_YEARS:
        year -= _BUDDHIST_ERA
    elif year not in _YEARS:
        return None
    left = text[max(0, start - _LEFT_LENGTH) : start]
    right = text[end : end + _RIGHT_LENGTH]
    before = _LEFT if _DIGIT.search(left) else ()
    if before and (numeric := _NUMERIC.search(left)) and not _MORE_NUMBERS.match(right):
        first, second = int(numeric[1]), int(numeric[3])
        if numeric[2] == "." or first > _MONTHS_PER_YEAR or first == second:
            begins_with_day, ambiguous = True, False
        elif second > _MONTHS_PER_YEAR:
            begins_with_day, ambiguous = False, False
        elif day_first is None:
            return None
        else:
            begins_with_day, ambiguous = day_first, True
        found = _date(year, second, first) if begins_with_day else _date(year, first, second)
        begin = start - len(left) + numeric.start()
        return None if found is None else DateMatch(found, begin, end, ambiguous)
    for pattern in before:
        if (part := pattern.search(left)) and (day := _named_date(part, year, language)):
            return DateMatch(day, start - len(left) + part.start(), end)
    for pattern in _RIGHT:
        if (part := pattern.match(right)) and (day := _named_date(part, year, language)):
            return DateMatch(day, start, end + part.end())
    return None


def _named_date(match: re.Match[str], year: int, language: str) -> date | None:
    """Return the date of a match with a `day`, and a `month` or its `name`."""
    groups = match.groupdict()
    month = month_number(groups["name"], language) if "name" in groups else int(groups["month"])
    return _date(year, month or 0, int(groups["day"]))


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


EARLIEST: Final = date(1995, 1, 1)
"""Earlier dates are events or errors: hardly any page is older."""

# fmt: off
_ARTICLE: Final = (
    "article:published_time", "og:article:published_time", "og:published_time",
    "article:published", "article:published_date", "article:publicationdate", "article.published",
)
_PUBLISHED: Final = (
    "datepublished", "date_published", "og:datepublished", "parsely-pub-date", "sailthru.date",
    "pubdate", "og:pubdate", "bt:pubdate", "rbpubdate", "publishdate", "publish-date",
    "publish_date", "og:publish_date", "publish_time", "published-date", "published_date",
    "published_time", "publisheddate", "publication_date", "originalpublicationdate",
    "citation_online_date", "citation_publication_date", "citation_date",
    "prism.publicationdate", "dc.date.issued", "dcterms.issued", "dc.issued",
    "cxenseparse:recs:publishtime", "displaydate", "mediator_published_time", "vr:published_time",
)
# Many publishing systems write the time of the last change or of an import into these.
_DATE: Final = ("dc.date", "dc:date", "dcterms.date", "date")
_CREATED: Final = (
    "dcterms.created", "dcterms:created", "dc.created", "dc:created", "dc.date.created",
    "datecreated", "date_created", "created", "article.created", "content_create_date",
    "release_date", "video:release_date",
)
_MODIFIED: Final = (
    "article:modified_time", "og:article:modified_time", "og:updated_time", "og:modified_time",
    "article:modified", "article:modified_date", "datemodified", "dateupdate", "bt:moddate",
    "dc.modified", "dc.date.modified", "dcterms.modified", "last-modified", "lastmod",
    "lastmodified", "modified_time", "updated_time", "revision_date", "revised", "modified",
)
# fmt: on
_MAX_TEXT: Final = 200
_URL_DATES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!\d)(?P<year>(?:19|20)\d\d)([/_-])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d)",
        r"(?<![^/_.-])(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)(?![^/_.-])",
    )
)
# English begins numeric dates with the month in some countries, and no other major language does.
_MONTH_FIRST: Final = frozenset({"en-us", "en-ph", "es-us"})
_DAY_FIRST_DOMAINS: Final = frozenset({"uk", "ie", "au", "nz", "in", "za", "pk", "sg", "ng", "ke"})
_GENERIC_DOMAINS: Final = frozenset({"com", "org", "net", "us", "gov", "edu", "mil", "info", "io"})


@dataclass(frozen=True, slots=True)
class PageDate:
    """The day or the time of a page, and where it was read.

    Attributes
    ----------
    day
        The day, in the time zone of the source.
    source
        The declaration, such as ``json_ld:datePublished``; ``url``; or in the page: ``time``,
        ``headline`` (text beside it), ``element`` (by its class), ``text``.
    moment
        The time, if the source has one.
    updated
        Whether words beside it say that the page was changed then.
    """

    day: date
    source: str
    moment: datetime | None = None
    updated: bool = False

    def __str__(self) -> str:
        """Return the time, or the day, in ISO 8601."""
        return (self.moment or self.day).isoformat()


class PageDates:
    """Finds the dates of one page.

    Parameters
    ----------
    page
        The parsed page; if `visible`, before its content is selected.
    works
        The creative works in its JSON-LD.
    language
        Its language, a BCP 47 tag, or None.
    visible
        Whether the page may be searched for dates that are not declared.
    """

    def __init__(
        self, page: ParsedPage, works: JsonLd, language: str | None, *, visible: bool
    ) -> None:
        self._page = page
        self._works = works
        self._language = language or ""
        self._visible = visible
        self._plausible = DateRange(EARLIEST, page.source.fetched_at.date() + timedelta(days=1))
        domain = (urlsplit(page.source.final_url).hostname or "").rpartition(".")[2]
        if self._language.lower() in _MONTH_FIRST:
            self._day_first = domain in _DAY_FIRST_DOMAINS
        else:
            is_english = self._language.lower() in {"", "en"}
            self._day_first = not is_english or domain not in _GENERIC_DOMAINS

    def published(self) -> PageDate | None:
        """Return when the page was published."""
        declared = next(self._declared_published(), None)
        for pattern in _URL_DATES:
            for match in pattern.finditer(self._page.source.final_url):
                day = _date(int(match["year"]), int(match["month"]), int(match["day"]))
                if day is not None and day in self._plausible:
                    is_same = declared is not None and declared.day == day
                    return declared if is_same else PageDate(day, "url")
        if declared is not None:
            return self._local(declared) if self._visible else declared
        return next(self._undeclared(), None)

    def modified(self) -> PageDate | None:
        """Return when the page was last modified.

        A page that declares neither date is searched for words such as "Updated" before a date
        beside its headline.
        """
        if (declared := next(self._declared_modified(), None)) is not None:
            return declared
        if not self._visible or next(self._declared_published(), None) is not None:
            return None
        return next((each for each in self._beside_headline if each.updated), None)

    def _declared_published(self) -> Iterator[PageDate]:
        yield from self._in_metas(_ARTICLE)
        yield from self._in_works("datePublished")
        yield from self._in_metas(_PUBLISHED)

    def _declared_modified(self) -> Iterator[PageDate]:
        yield from self._in_metas(_MODIFIED)
        yield from self._in_works("dateModified")

    def _undeclared(self) -> Iterator[PageDate]:
        """Return dates of sources that are less certain, the best first."""
        if self._visible:
            yield from self._tree.in_microdata()
            if not self._tree.has_headline:
                # Without the headline, the date next to the first heading may be that of today.
                yield from self._in_metas(_DATE)
            yield from self._beside_headline
            yield from self._tree.in_published_time()
        yield from self._in_metas(_DATE)
        yield from self._in_works("uploadDate", "dateCreated")
        yield from self._in_metas(_CREATED)
        if self._visible:
            yield from self._tree.in_any_time()
            yield from self._tree.in_date_elements()
        yield from self._declared_modified()
        if self._visible:
            yield from self._tree.in_text

    @cached_property
    def _tree(self) -> VisibleDates:
        return VisibleDates(
            self._page,
            self._language,
            day_first=self._day_first,
            plausible=self._plausible,
        )

    @cached_property
    def _beside_headline(self) -> list[PageDate]:
        return self._tree.beside_headline()

    def _in_metas(self, names: tuple[str, ...]) -> Iterator[PageDate]:
        metas = self._page.head.metas
        for name in names:
            if name in metas and (found := self._read(metas[name][0], f"meta:{name}")):
                yield found

    def _in_works(self, *names: str) -> Iterator[PageDate]:
        for name in names:
            text = self._works.text(name)
            if text is not None and (found := self._read(text, f"json_ld:{name}")):
                yield found

    def _read(self, text: str, source: str) -> PageDate | None:
        """Return the date of a declaration."""
        moment = parse_timestamp(text)
        if moment is not None:
            found = PageDate(moment.date(), source, moment)
            return found if found.day in self._plausible else None
        text = text[:_MAX_TEXT]
        dates = find_dates(text, language=self._language, day_first=self._day_first)
        for day in chain([parse_date(text)], (each.day for each in dates)):
            if day is not None and day in self._plausible:
                return PageDate(day, source)
        return None

    def _local(self, declared: PageDate) -> PageDate:
        """Return a time in UTC as the page shows it: its day may be another one there."""
        moment = declared.moment
        if moment is None or moment.utcoffset() != timedelta(0):
            return declared
        for other in self._in_metas((*_ARTICLE, *_PUBLISHED, *_DATE)):
            if other.moment is not None and is_local_time_of(other.moment, moment):
                return other
        if (local := self._tree.same_moment(moment)) is not None:
            return PageDate(local.date(), "time", local)
        visible = next(iter(self._beside_headline), None)
        if visible is not None and abs((visible.day - declared.day).days) == 1:
            return visible
        return declared


# Bounds of what is read, whatever the size of the page.
_MAX_HEADINGS: Final = 80
_MAX_HEADINGS_TEXT: Final = 20_000
_MAX_TIMES: Final = 200
_MAX_TEXT_CHARACTERS: Final = 2000
_MAX_ELEMENTS: Final = 20
_MAX_STRINGS: Final = 20
_NODES_AFTER: Final = 60
_NODES_BEFORE: Final = 60
_TEXT_AFTER: Final = 1000
_TEXT_BEFORE: Final = 400
_PAGE_TEXT: Final = 20_000

_HEADLINE_TAGS: Final = ("h1", "h2", "h3")
_HEADLINE_LENGTHS: Final = range(8, 401)
_SHORT_TEXT: Final = 200
_PROSE: Final = 100
"""Characters from which a text is a paragraph, whose dates are those of events."""
_DATELINE: Final = 30
_DATELINE_END: Final = re.compile(r"\s?[-\u2013\u2014:|)\u2022/]")
_FIRST_WORDS: Final = 1
_BEFORE_PENALTY: Final = 5
_MAX_OFFSET: Final = 14 * 3600
_OFFSET_STEP: Final = 1800
_CUE_LENGTH: Final = 30
_UPDATE: Final = re.compile(
    r"updat|modif|last edit|aktualis|ge[äa]ndert|bearbeitet|mis à jour|actualiz|aggiorn|atualiz"
    r"|bijgewerkt|gewijzigd|aktualiz|güncel|обновл|измен|oppdater|uppdater|opdater|更新",
    re.IGNORECASE,
)
# The steps of a paper before its publication, and notices of copyright.
_NOT_PUBLISHED: Final = re.compile(
    r"©|\(c\)|copyright|received|accepted|submitted|eingegangen|angenommen|eingereicht"
    r"|reçu|accepté|recibido|aceptado|aceito|ricevuto|accettato",
    re.IGNORECASE,
)
# With "[class]", an element without a class costs one test instead of six.
_DATE_ELEMENTS: Final = (
    "[itemprop~=datePublished i],[id*=date i],[class]:is([class*=date i],[class*=publi i],"
    "[class*=posted i],[class*=byline i],[class*=datum i],[class*=fecha i])"
)
_PUBLISHED_CLASSES: Final = re.compile(r"publi|posted|entry-date", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DateRange:
    """The days from `first` to `last`."""

    first: date
    last: date

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last


class VisibleDates:
    """Searches the tree of one page for dates.

    Parameters
    ----------
    page
        The parsed page, before its content is selected.
    language
        Its language, a BCP 47 tag, or "".
    day_first
        Whether 3/4/2026 is in April.
    plausible
        The days that the page may be of.
    """

    def __init__(
        self,
        page: ParsedPage,
        language: str,
        *,
        day_first: bool,
        plausible: DateRange,
    ) -> None:
        self._page = page
        self._language = language
        self._day_first = day_first
        self._plausible = plausible
        self._headline, has_headline = _find_headline(page)
        self.has_headline: bool = has_headline

    def beside_headline(self) -> list[PageDate]:
        """Return the dates near the headline: those of updates last, otherwise nearest first."""
        if self._headline is None:
            return []
        after = _read_nodes(islice(self._headline.following, _NODES_AFTER), _TEXT_AFTER)
        before = _read_nodes(islice(self._headline.preceding, _NODES_BEFORE), _TEXT_BEFORE)
        ranked, _ = self._dates_of(after)
        preceding, length = self._dates_of(before[::-1])
        ranked += [(length - at + _BEFORE_PENALTY, found) for at, found in preceding]
        ranked.sort(key=lambda each: (each[1].updated, each[0]))
        return [found for _, found in ranked]

    def in_published_time(self) -> Iterator[PageDate]:
        """Yield the date of the first `time` that is marked as the time of publication."""
        times = (
            each
            for each in self._times()
            if each.attr("pubdate") is not None or _PUBLISHED_CLASSES.search(_class_of(each))
        )
        return self._first_of(times, "time")

    def in_any_time(self) -> Iterator[PageDate]:
        """Yield the date of the first `time` with one."""
        return self._first_of(self._times(), "time")

    def in_microdata(self) -> Iterator[PageDate]:
        """Yield the first value of the microdata property `datePublished`."""
        times = (each for each in self._times() if each.attr("itemprop") == "datePublished")
        return self._first_of(times, "microdata:datePublished")

    def in_date_elements(self) -> Iterator[PageDate]:
        """Yield the date in the first short element whose attributes are about dates."""
        elements = self._page.document.select(_DATE_ELEMENTS) if self.in_text else ()
        return self._first_of(elements, "element")

    @cached_property
    def in_text(self) -> list[PageDate]:
        """The first date in the text of the page that may be that of its publication."""
        text = body_of(self._page.document).to_text()[:_PAGE_TEXT]
        for match in self._matches(text):
            if not _NOT_PUBLISHED.search(text, max(0, match.start - _CUE_LENGTH), match.start):
                return [PageDate(match.day, "text")]
        return []

    def same_moment(self, moment: datetime) -> datetime | None:
        """Return the time of a `time` element that is `moment` in another time zone."""
        for element in islice(self._times(), _MAX_ELEMENTS):
            other = parse_timestamp(element.attr("datetime") or "")
            if other is not None and is_local_time_of(other, moment):
                return other
        return None

    def _times(self) -> Iterable[Element]:
        return self._page.elements_by_tag.get("time", [])[:_MAX_TIMES]

    def _first_of(self, elements: Iterable[Element], source: str) -> Iterator[PageDate]:
        found = (self._date_of(element, source) for element in islice(elements, _MAX_ELEMENTS))
        return islice(filter(None, found), 1)

    def _date_of(self, element: Element, source: str) -> PageDate | None:
        """Return the date of an element: of its attributes, otherwise of its text."""
        strings = list(islice(element.strings, _MAX_STRINGS + 1))
        is_long = len(strings) > _MAX_STRINGS or sum(map(len, strings)) > 4 * _SHORT_TEXT
        text = "" if is_long else collapse_whitespace("".join(strings))
        if len(text) > _SHORT_TEXT:  # more than a line or two
            text = ""
        for name in ("content", "datetime", "title"):
            if (value := element.attr(name)) and (found := self._date_in(value, source)):
                match = next(self._matches(text), None)
                differs = match is not None and abs((match.day - found.day).days) > 1
                return PageDate(match.day, source) if differs and match is not None else found
        return self._date_in(text, source)

    def _date_in(self, text: str, source: str) -> PageDate | None:
        moment = parse_timestamp(text)
        if moment is not None:
            day = moment.date()
            return PageDate(day, source, moment) if day in self._plausible else None
        match = next(self._matches(text[:_SHORT_TEXT]), None)
        return PageDate(match.day, source) if match is not None else None

    def _matches(self, text: str) -> Iterator[DateMatch]:
        matches = find_dates(text, language=self._language, day_first=self._day_first)
        return (match for match in matches if match.day in self._plausible)

    def _dates_of(self, items: list[str | Element]) -> tuple[list[tuple[int, PageDate]], int]:
        """Return the dates of texts and `time` elements with their positions; and the length."""
        joined = " ".join(item for item in items if isinstance(item, str))
        found: list[tuple[int, PageDate]] = []
        bounds: list[tuple[int, int]] = []  # of each text
        position = 0
        for item in items:
            if isinstance(item, str):
                bounds.append((position, position + len(item)))
                position += len(item) + 1
            elif (of_time := self._date_of(item, "headline")) is not None:
                before = joined[max(0, position - _CUE_LENGTH) : position]
                updated = _UPDATE.search(before + _class_of(item)) is not None
                found.append((position, replace(of_time, updated=updated)))
        end = 0
        for match in self._matches(joined):
            cue = joined[max(end, match.start - _CUE_LENGTH) : match.start]
            end = match.end
            if not (_NOT_PUBLISHED.search(cue) or _is_in_prose(match, joined, bounds)):
                updated = _UPDATE.search(cue) is not None
                found.append((match.start, PageDate(match.day, "headline", updated=updated)))
        return found, len(joined)


def is_local_time_of(local: datetime, moment: datetime) -> bool:
    """Return whether `local` is the time `moment`, which is in UTC, at another place.

    A time without an offset counts if it differs by whole half hours.
    """
    if local.tzinfo is not None:
        return local == moment and local.utcoffset() != moment.utcoffset()
    distance = abs((local - moment.replace(tzinfo=None)).total_seconds())
    return 0 < distance <= _MAX_OFFSET and distance % _OFFSET_STEP == 0


def _find_headline(page: ParsedPage) -> tuple[Element | None, bool]:
    """Return the longest heading in the title of the page, otherwise the first of level one."""
    titles = [page.head.title or "", page.head.meta("og:title", "twitter:title") or ""]
    titles = [title for title in map(_words_of, titles) if title]
    best: Element | None = None
    first: Element | None = None
    length = read = 0
    groups = (page.elements_by_tag.get(tag, ()) for tag in _HEADLINE_TAGS)
    for heading in islice(chain.from_iterable(groups), _MAX_HEADINGS):
        text = _words_of(heading.text)
        read += len(text)
        if read > _MAX_HEADINGS_TEXT:
            break
        if first is None and text and heading.tag == "h1":
            first = heading
        longer = len(text) in _HEADLINE_LENGTHS and len(text) > length
        if longer and any(text in title for title in titles):
            best, length = heading, len(text)
    return (first, False) if best is None else (best, True)


def _words_of(text: str) -> str:
    return collapse_whitespace(text).replace("\xad", "").lower()


def _read_nodes(nodes: Iterable[object], max_length: int) -> list[str | Element]:
    """Return the visible texts and the `time` elements among nodes."""
    items: list[str | Element] = []
    length = 0
    for node in nodes:
        if type(node) is Text:
            text = collapse_whitespace(node.data[:_MAX_TEXT_CHARACTERS])
            parent = node.parent
            if text and not (isinstance(parent, Element) and parent.tag in NOT_RENDERED):
                items.append(text)
                length += len(text)
        elif type(node) is Element and node.tag == "time" and node.attr("datetime"):
            items.append(node)
        if length > max_length:
            break
    return items


def _is_in_prose(match: DateMatch, joined: str, bounds: list[tuple[int, int]]) -> bool:
    """Return whether a date is in a paragraph, and does not begin it like a dateline."""
    around = [(start, end) for start, end in bounds if start < match.end and end > match.start]
    if all(end - start <= _PROSE for start, end in around):
        return False
    offset = match.start - around[0][0]
    dateline = offset < _DATELINE and _DATELINE_END.match(joined, match.end) is not None
    return not (offset <= _FIRST_WORDS or dateline)


def _class_of(element: Element) -> str:
    classes = element.attr("class")
    return classes if isinstance(classes, str) else ""
