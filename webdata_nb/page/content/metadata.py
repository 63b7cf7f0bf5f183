"""Builds the `metadata` of a page from its declarations, its dates and HTTP headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.content.dates import PageDates
from webdata_nb.page.content.parsed_page import canonical_url
from webdata_nb.page.content.parser import text_of

if TYPE_CHECKING:
    from webdata_nb.page.content.page_source import PageSource
    from webdata_nb.page.content.parsed_page import PageHead, ParsedPage
    from webdata_nb.page.content.structured_data import JsonLd

MAX_TEXT_LENGTH = 2000
"""Characters kept of a title, description or author."""

_TITLE = ("og:title", "twitter:title", "dc.title", "citation_title")
_DESCRIPTION = ("description", "og:description", "twitter:description", "dc.description")
_SITE = ("og:site_name", "application-name")
_AUTHOR = ("author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author", "byl")
_LANGUAGE = ("content-language", "dc.language", "og:locale")


def build_metadata(page: ParsedPage, *, visible_dates: bool) -> dict[str, Any]:
    """Return the metadata of an HTML page; fields without a value are None.

    Parameters
    ----------
    page
        The parsed page, before its content is selected.
    visible_dates
        Whether the dates of the page may be those that it shows.

    Returns
    -------
    dict
        `title`, `description`, `language` (as declared, a BCP 47 tag), `canonical` (absolute),
        `author` (names joined by commas), `published` and `modified` (ISO 8601), `sources` (where
        these two were read, by name), `site_name`, `charset`, `content_hash`, and the fields of
        `transfer_metadata`.
    """
    head = page.head
    data = head.json_ld
    language = declared_language(head, page.source)
    dates = PageDates(page, data, language, visible=visible_dates)
    found = {"published": dates.published(), "modified": dates.modified()}
    return {
        "title": page_title(head),
        "description": _truncate(head.meta(*_DESCRIPTION) or data.text("description")),
        "language": language,
        "canonical": canonical_url(head, page.link_resolver),
        "author": _truncate(_author(page, data)),
        **{name: str(value) if value else None for name, value in found.items()},
        "sources": {name: value.source for name, value in found.items() if value},
        "site_name": _truncate(head.meta(*_SITE) or next(iter(data.names("publisher")), None)),
        "charset": page.charset,
        "content_hash": page.content_hash,
        **transfer_metadata(page.source),
    }


def transfer_metadata(source: PageSource) -> dict[str, Any]:
    """Return how a page was fetched.

    Returns
    -------
    dict
        `status_code`, `content_type` (the header as received), `final_url`, `redirects` (a list of
        ``{"url", "status_code"}``, in order) and `fetched_at` (ISO 8601, UTC).
    """
    return {
        "status_code": source.status,
        "content_type": source.content_type,
        "final_url": source.final_url,
        "redirects": [{"url": url, "status_code": status} for url, status in source.redirects],
        "fetched_at": source.fetched_at.isoformat(),
    }


def page_title(head: PageHead) -> str | None:
    """Return the title, else the one for social media, else the first heading."""
    return _truncate(head.title or head.meta(*_TITLE) or head.heading)


def declared_language(head: PageHead, source: PageSource) -> str | None:
    """Return the declared language as a BCP 47 tag."""
    declared = head.language or head.meta(*_LANGUAGE)
    if declared is None:
        declared = next(iter(source.header("content-language")), "")
    return declared.split(",")[0].strip().replace("_", "-")[:35] or None


def _author(page: ParsedPage, data: JsonLd) -> str | None:
    if names := ", ".join(data.names("author", "creator")):
        return names
    declared = page.head.meta(*_AUTHOR, "article:author")
    if declared and not declared.startswith(("http://", "https://")):
        return declared
    link = page.document.select_one("a[rel~=author i]")
    return text_of(link) or None if link is not None else None


def _truncate(text: str | None) -> str | None:
    return text[:MAX_TEXT_LENGTH] if text is not None else None
