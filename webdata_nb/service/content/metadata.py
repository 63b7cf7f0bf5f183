"""The `metadata` of a scraped page: what it is, who wrote it, and how it was fetched."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.head import canonical_url
from webdata_nb.service.content.parser import collapse_whitespace
from webdata_nb.service.content.structured_data import decode_json_ld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.content.head import PageHead
    from webdata_nb.service.content.page_source import PageSource
    from webdata_nb.service.content.parsed_page import ParsedPage

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
_LANGUAGE = ("content-language", "dc.language", "og:locale")
MOST_NODES = 1000
"""Nodes that are looked at; a page has a handful."""

_WORKS = ("article", "posting", "report", "webpage", "product", "recipe", "videoobject", "book")


def page_metadata(page: ParsedPage, rung: str) -> dict[str, Any]:
    """Describe an HTML page; what the page does not say is None.

    Parameters
    ----------
    page
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
    head = page.head
    data = JsonLdWorks(decode_json_ld(head.json_ld)) if head.json_ld else _NO_DATA
    return {
        "title": page_title(head),
        "description": _cut(head.meta(*_DESCRIPTION) or data.text("description")),
        "language": declared_language(head, page.source),
        "canonical": canonical_url(head, page.link_resolver),
        "author": _cut(_author(head, data)),
        "published": _published(head, data),
        "site_name": _cut(head.meta(*_SITE) or next(iter(data.names("publisher")), None)),
        "charset": page.charset.name if page.charset is not None else None,
        "content_hash": page.content_hash,
        "rung": rung,
        **transfer_metadata(page.source),
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


class JsonLdWorks:
    """The nodes of a page's JSON-LD that describe works, articles first.

    Parameters
    ----------
    blocks
        The decoded JSON-LD blocks of one page.
    """

    def __init__(self, blocks: list[Any]) -> None:
        works = [node for node in _nodes(blocks) if _rank(node) < len(_WORKS)]
        self._works = sorted(works, key=_rank)

    def text(self, *names: str) -> str | None:
        """Return the first text among the properties `names` of any work."""
        found = (_text(work.get(name)) for work in self._works for name in names)
        return next((text for text in found if text), None)

    def names(self, *names: str) -> list[str]:
        """Return what the first of the properties `names` that is given is called."""
        for work in self._works:
            for name in names:
                if called := list(_called(work.get(name))):
                    return called
        return []


def _nodes(blocks: list[Any]) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = list(reversed(blocks))
    for _ in range(MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            yield node
            waiting += [node[key] for key in ("mainEntity", "@graph") if key in node]


def _rank(node: dict[str, Any]) -> int:
    """Return how far down the list of works the node's type stands."""
    types = node.get("@type")
    words = [
        each.lower()
        for each in (types if isinstance(types, list) else [types])
        if isinstance(each, str)
    ]
    ranks = [at for at, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@value")
    return collapse_whitespace(value) or None if isinstance(value, str) else None


def _called(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        name = _text(each.get("name") if isinstance(each, dict) and "name" in each else each)
        if name:
            yield name


_NO_DATA = JsonLdWorks([])
