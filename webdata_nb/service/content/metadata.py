"""The `metadata` of a scraped page: what it is, who wrote it, and how it was fetched."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.head import canonical_url
from webdata_nb.service.content.linked_data import JsonLdWorks
from webdata_nb.service.content.structured_data import decode_json_ld

if TYPE_CHECKING:
    from webdata_nb.service.content.head import PageHead
    from webdata_nb.service.content.parsed_page import ParsedPage
    from webdata_nb.service.content.source import PageSource

MAX_TEXT_LENGTH = 2000
"""Characters of a description, author or title that are kept."""

_TITLE = ("og:title", "twitter:title", "dc.title", "citation_title")
_DESCRIPTION = ("description", "og:description", "twitter:description", "dc.description")
_SITE = ("og:site_name", "application-name")
_AUTHOR = ("author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author", "byl")
_PUBLISHED = (
    "article:published_time",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.created",
    "citation_publication_date",
    "parsely-pub-date",
    "pubdate",
)
_DAY = len("2026-01-31")
_NO_DATA = JsonLdWorks([])
_LANGUAGE = ("content-language", "dc.language", "og:locale")


def page_metadata(reading: ParsedPage, rung: str) -> dict[str, Any]:
    """Describe an HTML page; what the page does not say is None.

    Parameters
    ----------
    reading
        The parsed page.
    rung
        Which step of the content ladder gave the content.

    Returns
    -------
    dict
        `title`, `description`, `language` (as declared, a BCP 47 tag), `canonical` (absolute),
        `author` (names joined by commas), `published` (ISO 8601 where it can be read so, else as
        written), `site_name`, `charset`, `content_hash`, `rung`, and the fields of `transfer`.
    """
    head = reading.head
    data = JsonLdWorks(decode_json_ld(head.json_ld)) if head.json_ld else _NO_DATA
    return {
        "title": page_title(head),
        "description": _cut(head.meta(*_DESCRIPTION) or data.text("description")),
        "language": declared_language(head, reading.source),
        "canonical": canonical_url(head, reading.links),
        "author": _cut(_author(head, data)),
        "published": _published(head, data),
        "site_name": _cut(head.meta(*_SITE) or next(iter(data.names("publisher")), None)),
        "charset": reading.charset.name if reading.charset is not None else None,
        "content_hash": reading.content_hash,
        "rung": rung,
        **transfer_metadata(reading.source),
    }


def transfer_metadata(source: PageSource) -> dict[str, Any]:
    """Describe how a page was fetched.

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
    """Return the page's title, else the one it gives to those that share it, else its heading."""
    return _cut(head.title or head.meta(*_TITLE) or head.heading)


def declared_language(head: PageHead, source: PageSource) -> str | None:
    """Return the language the page declares, as a BCP 47 tag."""
    declared = head.language or head.meta(*_LANGUAGE)
    if declared is None:
        declared = next(iter(source.header("content-language")), "")
    return declared.split(",")[0].strip().replace("_", "-")[:35] or None


def _author(head: PageHead, data: JsonLdWorks) -> str | None:
    if named := ", ".join(data.names("author", "creator")):
        return named
    declared = head.meta(*_AUTHOR, "article:author")
    return declared if declared and not declared.startswith(("http://", "https://")) else None


def _published(head: PageHead, data: JsonLdWorks) -> str | None:
    written = head.meta(*_PUBLISHED) or data.text("datePublished", "uploadDate", "dateCreated")
    if written is None:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            read_as = read(written)
        except (ValueError, TypeError, OverflowError):
            continue
        return (read_as.date() if len(written) <= _DAY else read_as).isoformat()
    return written[:100]


def _cut(text: str | None) -> str | None:
    return text[:MAX_TEXT_LENGTH] if text is not None else None
