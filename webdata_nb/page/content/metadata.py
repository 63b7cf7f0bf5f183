"""Builds the `metadata` of a page from its declarations, its dates and HTTP headers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.content.dates import PageDates
from webdata_nb.page.content.links import MAX_ANCHOR_TEXT_LENGTH, alternative_text
from webdata_nb.page.content.parsed_page import canonical_url
from webdata_nb.page.content.parser import Namespace, collapse_whitespace, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.page.content.links import AnchorTable, Outlink
    from webdata_nb.page.content.page_source import FetchedResponse
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


def transfer_metadata(source: FetchedResponse) -> dict[str, Any]:
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


def declared_language(head: PageHead, source: FetchedResponse) -> str | None:
    """Return the declared language as a BCP 47 tag."""
    declared = head.language or head.meta(*_LANGUAGE)
    if declared is None:
        declared = source.header("content-language") or ""
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


# Reads the facts of a page that a site audit compares: titles, headings, directives, links.


MAX_LISTED: Final = 20
"""Elements of one kind that the facts list one by one."""
MAX_DECLARED: Final = 500
"""Titles, descriptions, headings, directives and languages of a page that are kept."""
MAX_FACT_LENGTH: Final = 500
"""Characters kept of a title, a description or a heading."""
_MEDIA: Final = ("iframe", "video", "audio", "source", "form")
_URL_ATTRIBUTES: Final = {"link": "href", "object": "data", "form": "action"}
_LOADING_LINKS: Final = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})


def audit_facts(
    page: ParsedPage, anchors: AnchorTable, outlinks: Sequence[Outlink], *, is_html: bool
) -> dict[str, Any]:
    """Return the facts of a page, before its content is selected.

    Parameters
    ----------
    page
        The parsed page.
    anchors
        Its links, from which `outlinks` were collected.
    outlinks
        The pages that it links to.
    is_html
        Whether it was HTML, and not a document that was converted.

    Returns
    -------
    dict
        `contract.replies.PageAudit` describes the fields. `anchors` and `rels` belong to the
        outlinks: a text for each, and the `rel` attributes that are not empty by the index.
    """
    elements = page.elements_by_tag.get("title", ())
    titles = (_cut(each.text) for each in elements if each.namespace is Namespace.HTML)
    by_url: dict[str, str] = {}  # the `rel` of the first link to each page
    for url, element in zip(anchors.pages, anchors.elements, strict=True):
        if url is not None and url not in by_url:
            by_url[url] = " ".join((element.attr("rel") or "").lower().split())
    rels = ((index, by_url.get(link.url)) for index, link in enumerate(outlinks))
    headings, images = (page.elements_by_tag.get(tag, ()) for tag in ("h1", "img"))
    bare = [  # without those that assistive technology ignores
        image
        for image in images
        if image.attr("alt") is None
        and (image.attr("role") or "").lower() not in {"presentation", "none"}
        and image.attr("aria-hidden") != "true"
    ]
    sources = (image.attr("src") or "" for image in bare[:MAX_LISTED])
    # In HTML, `xml:lang` has no effect.
    is_xml = "xml" in (page.source.content_type or "").lower()
    languages = (
        _cut(element.attr("lang") or (is_xml and element.attr("xml:lang")) or "")
        for element in page.elements_by_tag.get("html", ())
    )
    # An outlink has the text of its links, or else the first label of one.
    texts = {link.url: link.anchor for link in outlinks}
    if not all(texts.values()):
        for url, element in zip(anchors.pages, anchors.elements, strict=True):
            if url is not None and texts.get(url) == "":
                label = element.attr("aria-label") or element.attr("title") or ""
                texts[url] = _cut(label)[:MAX_ANCHOR_TEXT_LENGTH]
    return {
        "is_html": is_html,
        "bytes": len(page.source.body),
        "language": next(filter(None, languages), None),
        "titles": list(islice(titles, MAX_DECLARED)),
        "h1s": [
            _cut(text_of(each) or alternative_text(each)) for each in islice(headings, MAX_DECLARED)
        ],
        **_metas(page),
        "x_robots": [_cut(value) for value in page.source.header_values("x-robots-tag")],
        **_head_links(page),
        "images": len(images),
        "images_without_alt": len(bare),
        "examples_without_alt": [page.link_resolver[src] or _cut(src) for src in sources],
        "insecure": _insecure(page) if page.source.final_url.startswith("https:") else [],
        "structured_data_errors": [
            _cut(error) for error in islice(page.head.json_ld.strict_errors(), MAX_LISTED)
        ],
        "anchors": list(texts.values()),
        "rels": {str(index): rel for index, rel in rels if rel},
    }


def _cut(text: str) -> str:
    return collapse_whitespace(text)[:MAX_FACT_LENGTH]


def _metas(page: ParsedPage) -> dict[str, Any]:
    """Return descriptions, robots directives, the viewport and the first refresh."""
    by_name: dict[str, list[str]] = {}
    refresh = None
    for element in page.elements_by_tag.get("meta", ()):
        content = _cut(element.attr("content") or "")
        by_name.setdefault((element.attr("name") or "").strip().lower(), []).append(content)
        if refresh is None and (element.attr("http-equiv") or "").strip().lower() == "refresh":
            refresh = content
    return {
        "descriptions": by_name.get("description", [])[:MAX_DECLARED],
        "robots": by_name.get("robots", [])[:MAX_DECLARED],
        "viewport": next(iter(by_name.get("viewport", ())), None),
        "refresh": refresh,
    }


def _head_links(page: ParsedPage) -> dict[str, Any]:
    """Return the canonical URLs, and the alternates of other languages, in their order."""
    canonicals: list[str | None] = []
    malformed: list[str] = []
    hreflang: list[dict[str, str | None]] = []
    for element in page.elements_by_tag.get("link", ()):
        rel = (element.attr("rel") or "").lower().split()
        href = (element.attr("href") or "").partition("#")[0]
        if "canonical" in rel:
            url = page.link_resolver[href] if href else None
            canonicals.append(url)
            malformed += [_cut(href)] if url is None else []
        language = element.attr("hreflang")
        if "alternate" in rel and language is not None and len(hreflang) < MAX_DECLARED:
            url = page.link_resolver[href] if href else None
            hreflang.append({"language": _cut(language), "url": url})
    return {
        "canonicals": canonicals[:MAX_LISTED],
        "malformed_canonicals": malformed[:MAX_LISTED],
        "hreflang": hreflang,
    }


def _insecure(page: ParsedPage) -> list[str]:
    """Return the URLs without TLS that a page loads or sends forms to."""
    elements = [
        each
        for tag in ("img", "script", "link", "object", "embed", "frame")
        for each in page.elements_by_tag.get(tag, ())
    ]
    plain: dict[str, None] = {}
    for element in (*elements, *page.document.iter_elements(_MEDIA)):
        rel = frozenset((element.attr("rel") or "").lower().split())
        if element.tag != "link" or rel & _LOADING_LINKS:
            href = element.attr(_URL_ATTRIBUTES.get(element.tag, "src"))
            url = page.link_resolver[href] if href else None
            if url is not None and url.startswith("http:"):
                plain[url] = None
    return list(plain)[:MAX_LISTED]
