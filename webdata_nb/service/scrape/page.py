"""One page, from bytes to every format asked for, in one parse.

``scrape`` is pure computation: it neither waits nor touches the network, so it can run in this
process or in a page worker.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.head import canonical_url, robots_directives
from webdata_nb.service.content.links import AnchorTable, Outlink, collect_outlinks, read_anchors
from webdata_nb.service.content.metadata import build_metadata, declared_language, page_title
from webdata_nb.service.content.minhash import compute_masked_sketch, compute_sketch, sample_text
from webdata_nb.service.content.page_content import PageContent, find_content
from webdata_nb.service.content.page_source import ConversionOptions, PageSource
from webdata_nb.service.content.parsed_page import parse_page
from webdata_nb.service.content.parser import to_text
from webdata_nb.service.content.quality import rate_content, visible_text_length
from webdata_nb.service.documents.conversion import parse_document
from webdata_nb.service.documents.document_type import DocumentType, detect_document_type
from webdata_nb.service.documents.sitemap import SITEMAP_FORMAT, parse_sitemap
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.scrape.formats import CONTENT, WHOLE
from webdata_nb.service.scrape.scraped import Scraped

if TYPE_CHECKING:
    from webdata_nb.service.content.parsed_page import ParsedPage

MOST_OUTLINKS = 20_000
"""Links of a page that a crawl hears of, in document order; metadata counts the others."""

__all__ = ["ConversionOptions", "Outlink", "PageSource", "Scraped", "scrape"]


def scrape(source: PageSource, options: ConversionOptions, *, outlinks: bool = True) -> Scraped:
    """Turn one fetched page into data.

    Parameters
    ----------
    source
        The page as fetched.
    options
        The formats wanted and what they are made from.
    outlinks
        Collect where the page leads; a page that is not crawled from needs none.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type`` (not a document this service reads) or ``parse`` (it is
        broken beyond reading, or a format is not made from text, as a screenshot).
    """
    if options.formats == (SITEMAP_FORMAT,):
        return _listed(source.load_body())
    _check_formats(options)
    source = source.load_body()
    kind = detect_document_type(source)
    if kind == "html":
        scraped = _scrape_html(parse_page(source), options, outlinks=outlinks)
    else:
        scraped = _scrape_document(source, options, kind, outlinks=outlinks)
    return scraped.encoded() if options.encoded else scraped


def _listed(source: PageSource) -> Scraped:
    """Return what a sitemap lists, as the only format."""
    listing = asdict(parse_sitemap(source.body))
    return Scraped(None, {SITEMAP_FORMAT: listing}, {}, {}, (), None, frozenset(), "", "")


def _check_formats(options: ConversionOptions) -> None:
    for name in options.formats:
        if name not in WHOLE and name not in CONTENT:
            raise ScrapeError("parse", f"no such format: {name}")


def _scrape_html(page: ParsedPage, options: ConversionOptions, *, outlinks: bool) -> Scraped:
    head, facts = page.head, options.facts
    leads = collect_outlinks(_leading(page)) if outlinks else ()
    omitted, leads = max(0, len(leads) - MOST_OUTLINKS), leads[:MOST_OUTLINKS]
    searched = options.only_main_content or options.markdown_mode == "article"
    visible = visible_text_length(page) if searched and "quality" in facts else None
    made = {name: WHOLE[name](page) for name in options.formats if name in WHOLE}
    content, text = _make_content(page, options, made)
    title, language = page_title(head), declared_language(head, page.source)
    sample = sample_text(title, text) if facts & {"sketch", "shape"} else ""
    described = build_metadata(page, content.rung) if "metadata" in facts else {}
    if omitted and described:
        described["links_omitted"] = omitted
    judged = (
        rate_content(content, text, visible=visible, language=language)
        if "quality" in facts
        else {}
    )
    return Scraped(
        title=title,
        formats={name: made[name] for name in options.formats},
        metadata=described,
        quality=judged,
        outlinks=leads,
        canonical=canonical_url(head, page.link_resolver),
        robots=robots_directives(head, page.source),
        content_hash=described.get("content_hash", ""),
        text=text,
        sketch=compute_sketch(sample) if "sketch" in facts else b"",
        shape=compute_masked_sketch(sample) if "shape" in facts else b"",
    )


def _scrape_document(
    source: PageSource, options: ConversionOptions, kind: DocumentType, *, outlinks: bool
) -> Scraped:
    """Scrape what is not HTML by way of a page made of it; plain text stays as it is."""
    page, text = parse_document(source, kind)
    whole = replace(options, only_main_content=False, markdown_mode=None)
    scraped = _scrape_html(page, whole, outlinks=outlinks)
    formats = scraped.formats
    if kind == "text" and text is not None and "markdown" in formats:
        formats = formats | {"markdown": text}
    described = scraped.metadata and scraped.metadata | {"rung": kind}
    keep = text if text is not None and kind != "feed" else scraped.text
    return replace(scraped, formats=formats, metadata=described, text=keep)


def _leading(page: ParsedPage) -> AnchorTable:
    """Return the links of the page, those of image maps in their place among them."""
    if "area" not in page.elements_by_tag:
        return page.anchors
    return read_anchors(page.document.iter_elements(("a", "area")), page.link_resolver)


def _make_content(
    page: ParsedPage, options: ConversionOptions, made: dict[str, Any]
) -> tuple[PageContent, str]:
    """Add the formats of the content to `made`; return the content and its text.

    Markdown may be asked for of another part of the page than the rest: then it comes from its
    own copy of the tree, for finding one part destroys the other.
    """
    wanted = [name for name in CONTENT if name in options.formats]
    main = options.only_main_content
    markdown_main = {"article": True, "full": False}.get(options.markdown_mode or "", main)
    if "markdown" in wanted and markdown_main is not main:
        copy = deepcopy(page.document) if len(wanted) > 1 else page.document
        apart = find_content(page, copy, options, main=markdown_main)
        made["markdown"] = CONTENT["markdown"](page, apart)
        wanted.remove("markdown")
        if not wanted:
            return apart, made["markdown"]
    content = find_content(page, page.document, options, main=main)
    text = "" if "markdown" in wanted else to_text(content.element)
    for name in wanted:
        made[name] = CONTENT[name](page, content)
    return content, text or made.get("markdown", "")
