"""Converts one page from bytes to all requested formats, in one parse.

``scrape`` is pure computation: it does not wait and does not use the network, so it runs in this
process or in a page worker.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import msgspec

from webdata_nb.page.content.audit_facts import audit_facts
from webdata_nb.page.content.links import (
    NO_ANCHORS,
    AnchorTable,
    Outlink,
    collect_outlinks,
    read_page_links,
)
from webdata_nb.page.content.main_content import PageContent, find_content
from webdata_nb.page.content.metadata import build_metadata, declared_language, page_title
from webdata_nb.page.content.page_source import ConversionOptions, PageSource
from webdata_nb.page.content.parsed_page import (
    canonical_url,
    find_declarations,
    parse_page,
    robots_directives,
)
from webdata_nb.page.content.parser import to_text
from webdata_nb.page.content.quality import (
    compute_masked_sketch,
    compute_sketch,
    rate_content,
    sample_text,
    visible_text_length,
)
from webdata_nb.page.documents import DocumentType, detect_document_type, parse_document
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.formats import CONTENT_FORMATS, PAGE_FORMATS
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.page.sitemap import SITEMAP_FORMAT, parse_sitemap

if TYPE_CHECKING:
    from webdata_nb.page.content.parsed_page import ParsedPage

MAX_OUTLINKS = 20_000
"""Maximum links of a page that a crawl receives, in document order; metadata counts the others."""

__all__ = ["ConversionOptions", "Outlink", "PageSource", "Scraped", "scrape"]


def scrape(source: PageSource, options: ConversionOptions, *, outlinks: bool = True) -> Scraped:
    """Convert one fetched page.

    Parameters
    ----------
    source
        The page as fetched.
    options
        The formats, and the content that they are made from.
    outlinks
        Collect the links that a crawl may follow.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type`` (the service cannot read this type of document) or ``parse``
        (the document is broken, or a format is not made from text, such as a screenshot).
    """
    if options.formats == (SITEMAP_FORMAT,):
        return _scrape_sitemap(source.load_body())
    for name in options.formats:
        if name not in PAGE_FORMATS and name not in CONTENT_FORMATS:
            raise ScrapeError("parse", f"no such format: {name}")
    source = source.load_body()
    kind = detect_document_type(source)
    if kind == "html":
        scraped = _scrape_html(parse_page(source), options, kind, outlinks=outlinks)
    else:
        scraped = _scrape_document(source, options, kind, outlinks=outlinks)
    return scraped.encoded() if options.encoded else scraped


def _scrape_sitemap(source: PageSource) -> Scraped:
    """Return the entries of a sitemap as the only format."""
    listing = asdict(parse_sitemap(source.body))
    return Scraped(None, {SITEMAP_FORMAT: listing}, {}, {}, (), None, frozenset(), "", "")


def _scrape_html(
    page: ParsedPage, options: ConversionOptions, kind: DocumentType, *, outlinks: bool
) -> Scraped:
    head, facts, is_html = page.head, options.facts, kind == "html"
    metadata = build_metadata(page, visible_dates=is_html) if "metadata" in facts else {}
    anchors = _page_links(page) if outlinks else NO_ANCHORS
    links = collect_outlinks(anchors)
    omitted_count, links = max(0, len(links) - MAX_OUTLINKS), links[:MAX_OUTLINKS]
    audit = audit_facts(page, anchors, links, is_html=is_html) if "audit" in facts else {}
    selects_content = options.only_main_content or options.markdown_mode == "article"
    declarations = find_declarations(page) if "rights" in facts else ()
    visible = visible_text_length(page) if selects_content and "quality" in facts else None
    formats = {name: PAGE_FORMATS[name](page) for name in options.formats if name in PAGE_FORMATS}
    content, text = _convert_content(page, options, formats)
    title, language = page_title(head), declared_language(head, page.source)
    sample = sample_text(title, text) if facts & {"sketch", "shape"} else ""
    if metadata:
        metadata["rung"] = content.rung
    if omitted_count and metadata:
        metadata["links_omitted"] = omitted_count
    quality = (
        rate_content(page, content, text, visible=visible, language=language, kind=kind)
        if "quality" in facts
        else {}
    )
    return Scraped(
        title=title,
        formats={name: formats[name] for name in options.formats},
        metadata=metadata,
        quality=quality,
        outlinks=links,
        canonical=canonical_url(head, page.link_resolver),
        robots=robots_directives(head, page.source),
        content_hash=metadata.get("content_hash", ""),
        text=text,
        sketch=compute_sketch(sample) if "sketch" in facts else b"",
        shape=compute_masked_sketch(sample) if "shape" in facts else b"",
        audit=audit,
        declarations=declarations,
    )


def _scrape_document(
    source: PageSource, options: ConversionOptions, kind: DocumentType, *, outlinks: bool
) -> Scraped:
    """Convert a document to HTML and scrape that; Markdown and plain text keep their own text."""
    page, document = parse_document(source, kind)
    full_page = replace(options, only_main_content=False, markdown_mode=None)
    scraped = _scrape_html(page, full_page, kind, outlinks=outlinks)
    formats, text = scraped.formats, scraped.text if document.text is None else document.text
    selects_elements = options.include_tags or options.exclude_tags
    if document.markdown is not None and "markdown" in formats and not selects_elements:
        formats = formats | {"markdown": document.markdown}
    if selects_elements:
        text = scraped.text
    metadata = scraped.metadata and scraped.metadata | document.metadata | {"rung": kind}
    return msgspec.structs.replace(scraped, formats=formats, metadata=metadata, text=text)


def _page_links(page: ParsedPage) -> AnchorTable:
    """Return the links of the page in document order, with those of image maps and frames."""
    has_refresh = "refresh" in page.head.metas
    if not has_refresh and page.elements_by_tag.keys().isdisjoint(("area", "frame", "iframe")):
        return page.anchors
    return read_page_links(page.document, page.link_resolver)


def _convert_content(
    page: ParsedPage, options: ConversionOptions, formats: dict[str, Any]
) -> tuple[PageContent, str]:
    """Add the formats of the content to `formats`; return the content and its text.

    The Markdown may be of another part of the page than the other formats. It is then made from
    its own copy of the tree, because selecting one part destroys the other.
    """
    names = [name for name in CONTENT_FORMATS if name in options.formats]
    main = options.only_main_content
    markdown_main = {"article": True, "full": False}.get(options.markdown_mode or "", main)
    if "markdown" in names and markdown_main is not main:
        copy = deepcopy(page.document) if len(names) > 1 else page.document
        markdown_content = find_content(page, copy, options, main=markdown_main)
        formats["markdown"] = CONTENT_FORMATS["markdown"](page, markdown_content)
        names.remove("markdown")
        if not names:
            return markdown_content, formats["markdown"]
    content = find_content(page, page.document, options, main=main)
    text = "" if "markdown" in names else to_text(content.element)
    for name in names:
        formats[name] = CONTENT_FORMATS[name](page, content)
    return content, text or formats.get("markdown", "")
