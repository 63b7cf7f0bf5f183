"""Finds when a page was published and modified."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from webdata_nb.page.content.date_text import find_dates, parse_date, parse_timestamp
from webdata_nb.page.content.visible_dates import (
    DateRange,
    VisibleDate,
    VisibleDates,
    is_local_time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.json_ld import JsonLd
    from webdata_nb.page.content.parsed_page import ParsedPage

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
    moment
        The time, if the source has one.
    source
        The declaration, such as ``json_ld:datePublished``; ``url``; or in the page: ``time``,
        ``headline`` (text beside it), ``element`` (by its class), ``text``.
    """

    day: date
    moment: datetime | None
    source: str

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
        self._day_first = _begins_with_day(self._language, page.source.final_url)

    def published(self) -> PageDate | None:
        """Return when the page was published."""
        declared = next(self._declared_published(), None)
        if (in_url := self._in_url()) is not None:
            return declared if declared is not None and declared.day == in_url.day else in_url
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
        updates = (each for each in self._beside_headline if each.updated)
        return next((_page_date(each, "headline") for each in updates), None)

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
            yield from self._near_headline()
        yield from self._in_metas(_DATE)
        yield from self._in_works("uploadDate", "dateCreated")
        yield from self._in_metas(_CREATED)
        if self._visible:
            yield from _each(self._tree.in_any_time(), "time")
            yield from _each(self._tree.in_date_elements(), "element")
        yield from self._declared_modified()
        if self._visible:
            yield from _each(self._tree.in_text, "text")

    def _near_headline(self) -> Iterator[PageDate]:
        yield from _each(self._tree.in_microdata(), "microdata:datePublished")
        if not self._tree.has_headline:
            # Without the headline, the date next to the first heading may be that of today.
            yield from self._in_metas(_DATE)
        yield from (_page_date(each, "headline") for each in self._beside_headline)
        yield from _each(self._tree.in_published_time(), "time")

    @cached_property
    def _tree(self) -> VisibleDates:
        return VisibleDates(
            self._page,
            self._language,
            day_first=self._day_first,
            plausible=self._plausible,
        )

    @cached_property
    def _beside_headline(self) -> list[VisibleDate]:
        return self._tree.beside_headline()

    def _in_url(self) -> PageDate | None:
        for pattern in _URL_DATES:
            for match in pattern.finditer(self._page.source.final_url):
                parts = match.groupdict()
                try:
                    day = date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
                except ValueError:
                    continue
                if day in self._plausible:
                    return PageDate(day, None, "url")
        return None

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
            found = PageDate(moment.date(), moment, source)
            return found if found.day in self._plausible else None
        for day in self._days_in(text[:_MAX_TEXT]):
            if day in self._plausible:
                return PageDate(day, None, source)
        return None

    def _days_in(self, text: str) -> Iterator[date]:
        if (compact := parse_date(text)) is not None:
            yield compact
        dates = find_dates(text, language=self._language, day_first=self._day_first)
        yield from (each.day for each in dates)

    def _local(self, declared: PageDate) -> PageDate:
        """Return a time in UTC as the page shows it: its day may be another one there."""
        moment = declared.moment
        if moment is None or moment.utcoffset() != timedelta(0):
            return declared
        for other in self._in_metas((*_ARTICLE, *_PUBLISHED, *_DATE)):
            if other.moment is not None and is_local_time_of(other.moment, moment):
                return other
        if (local := self._tree.same_moment(moment)) is not None:
            return PageDate(local.date(), local, "time")
        visible = next(iter(self._beside_headline), None)
        if visible is not None and abs((visible.day - declared.day).days) == 1:
            return _page_date(visible, "headline")
        return declared


def _page_date(found: VisibleDate, source: str) -> PageDate:
    return PageDate(found.day, found.moment, source)


def _each(found: VisibleDate | None, source: str) -> Iterator[PageDate]:
    if found is not None:
        yield _page_date(found, source)


def _begins_with_day(language: str, url: str) -> bool:
    """Return whether numeric dates of a page begin with the day."""
    domain = (urlsplit(url).hostname or "").rpartition(".")[2]
    if language.lower() in _MONTH_FIRST:
        return domain in _DAY_FIRST_DOMAINS
    return language.lower() not in {"", "en"} or domain not in _GENERIC_DOMAINS
