"""Builds the `metadata` of a page from meta tags, JSON-LD and HTTP headers."""

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
"""Characters kept of a title, description or author."""

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
_DATE_LENGTH = len("2026-01-31")
_LANGUAGE = ("content-language", "dc.language", "og:locale")
MAX_NODES = 1000
"""JSON-LD nodes read from one page."""

_WORKS = ("article", "posting", "report", "webpage", "product", "recipe", "videoobject", "book")


def build_metadata(page: ParsedPage, rung: str) -> dict[str, Any]:
    """Return the metadata of an HTML page; undeclared fields are None.

    Parameters
    ----------
    page
        The parsed page.
    rung
        How the content was selected.

    Returns
    -------
    dict
        `title`, `description`, `language` (as declared, a BCP 47 tag), `canonical` (absolute),
        `author` (names joined by commas), `published` (ISO 8601 where it can be parsed, else as
        written), `site_name`, `charset`, `content_hash`, `rung`, and the fields of
        `transfer_metadata`.
    """
    head = page.head
    data = JsonLdWorks(decode_json_ld(head.json_ld)) if head.json_ld else _NO_JSON_LD
    return {
        "title": page_title(head),
        "description": _truncate(head.meta(*_DESCRIPTION) or data.text("description")),
        "language": declared_language(head, page.source),
        "canonical": canonical_url(head, page.link_resolver),
        "author": _truncate(_author(head, data)),
        "published": _published(head, data),
        "site_name": _truncate(head.meta(*_SITE) or next(iter(data.names("publisher")), None)),
        "charset": page.charset.name if page.charset is not None else None,
        "content_hash": page.content_hash,
        "rung": rung,
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


def _author(head: PageHead, data: JsonLdWorks) -> str | None:
    if names := ", ".join(data.names("author", "creator")):
        return names
    declared = head.meta(*_AUTHOR, "article:author")
    return declared if declared and not declared.startswith(("http://", "https://")) else None


def _published(head: PageHead, data: JsonLdWorks) -> str | None:
    date_text = head.meta(*_PUBLISHED) or data.text("datePublished", "uploadDate", "dateCreated")
    if date_text is None:
        return None
    for parse_date in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse_date(date_text)
        except (ValueError, TypeError, OverflowError):
            continue
        return (moment.date() if len(date_text) <= _DATE_LENGTH else moment).isoformat()
    return date_text[:100]


def _truncate(text: str | None) -> str | None:
    return text[:MAX_TEXT_LENGTH] if text is not None else None


class JsonLdWorks:
    """The JSON-LD nodes that describe creative works, articles first.

    Parameters
    ----------
    blocks
        The decoded JSON-LD blocks of one page.
    """

    def __init__(self, blocks: list[Any]) -> None:
        works = [node for node in _nodes(blocks) if _rank(node) < len(_WORKS)]
        self._works = sorted(works, key=_rank)

    def text(self, *names: str) -> str | None:
        """Return the first text of the properties `names` in any work."""
        texts = (_text(work.get(name)) for work in self._works for name in names)
        return next((text for text in texts if text), None)

    def names(self, *names: str) -> list[str]:
        """Return the names of the objects in the first property of `names` that has any."""
        for work in self._works:
            for name in names:
                if object_names := list(_object_names(work.get(name))):
                    return object_names
        return []


def _nodes(blocks: list[Any]) -> Iterator[dict[str, Any]]:
    queue: list[Any] = list(reversed(blocks))
    for _ in range(MAX_NODES):
        if not queue:
            return
        node = queue.pop()
        if isinstance(node, list):
            queue += reversed(node)
        elif isinstance(node, dict):
            yield node
            queue += [node[key] for key in ("mainEntity", "@graph") if key in node]


def _rank(node: dict[str, Any]) -> int:
    """Return the position of the node type in the list of works."""
    types = node.get("@type")
    words = [
        name.lower()
        for name in (types if isinstance(types, list) else [types])
        if isinstance(name, str)
    ]
    ranks = [rank for rank, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@value")
    return collapse_whitespace(value) or None if isinstance(value, str) else None


def _object_names(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        name = _text(item.get("name") if isinstance(item, dict) and "name" in item else item)
        if name:
            yield name


_NO_JSON_LD = JsonLdWorks([])
