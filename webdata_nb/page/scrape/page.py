"""Converts one page from bytes to all requested formats, in one parse.

``scrape`` is pure computation: it does not wait and does not use the network, so it runs in this
process or in a page worker.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from webdata_nb.page.charset import decode_text
from webdata_nb.page.content import structured_data as declared
from webdata_nb.page.content.links import (
    NO_ANCHORS,
    Outlink,
    best_source,
    collect_outlinks,
    read_page_links,
)
from webdata_nb.page.content.main_content import find_content
from webdata_nb.page.content.metadata import (
    audit_facts,
    build_metadata,
    declared_language,
    page_title,
)
from webdata_nb.page.content.page_source import SOURCE, ConversionOptions, FetchedResponse
from webdata_nb.page.content.parsed_page import (
    canonical_url,
    find_declarations,
    parse_converted_page,
    parse_page,
    robots_directives,
)
from webdata_nb.page.content.parser import (
    HEADINGS,
    Element,
    collapse_whitespace,
    comments_of,
    nearest_ancestor,
    parse,
    text_of,
    unwrap_all,
)
from webdata_nb.page.content.quality import (
    compute_masked_sketch,
    compute_sketch,
    rate_content,
    sample_text,
    visible_text_length,
)
from webdata_nb.page.content.tables import (
    TableTexts,
    cell_text,
    child_elements,
    find_tables,
    table_texts,
)
from webdata_nb.page.documents import DocumentType, detect_document_type, parse_document
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.extract.records import read_records
from webdata_nb.page.extract.visible_values import LABELS, VISIBLE, read_labels, read_visible_values
from webdata_nb.page.markdown import MarkdownWriter, write_with_footnotes
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.page.sitemap import SITEMAP_FORMAT, parse_sitemap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markdown_it import MarkdownIt

    from webdata_nb.page.content.parsed_page import ParsedPage

# Reads the tables of pages as plain text: of HTML and, later, of texts that were kept.


TABLES: Final = "tables"
"""The key of the tables in the formats that `scrape` returns; no request can name it."""
MAX_TABLES = 200
MAX_CELLS = 20_000
"""Maximum cells of all tables of a page, including repeated ones."""
MAX_CELL_CHARACTERS = 500
"""Maximum characters of a cell; the rest is cut."""

_MAX_ANCESTORS = 64  # ancestors that are searched for an outer table
_PAIR = 2
_MAX_NAMES = 5  # names that share one value


def read_tables(page: ParsedPage) -> list[dict[str, Any]]:
    """Read the tables of the whole page, in document order.

    A table has `header`, the names of its columns (empty without a header), `rows`, lists of texts,
    and `totals`, the indexes of the rows that add up others. A definition list has an empty header
    and a row of two texts for each pair of name and value.
    """
    tables: list[dict[str, Any]] = []
    max_cells = MAX_CELLS
    found = dict(find_tables(page.document, lenient=True))
    elements = (
        element
        for element in page.document.iter_elements({"table", "dl"})
        if element.tag == "dl" or element in found
    )
    for element in islice(elements, 2 * MAX_TABLES):
        if element.tag == "dl":
            # Only a list that contains no list or table, and is in no table.
            if element.select_one("dl,table") is not None:
                continue
            outer = nearest_ancestor(element, {"table"}, levels=_MAX_ANCESTORS)
            while outer is not None and outer not in found:
                outer = nearest_ancestor(outer, {"table"}, levels=_MAX_ANCESTORS)
            if outer is not None:
                continue
            table = _read_definition_list(element, max_cells)
        else:
            data = found[element]
            data.rows[max(0, max_cells // max(1, data.width)) :] = []
            texts = table_texts(data)
            rows = [[text[:MAX_CELL_CHARACTERS] for text in row] for row in texts.rows]
            table = {"header": texts.header, "rows": rows, "totals": texts.totals}
            if any(len(names) > 1 for names in data.header):
                inner = [cell_text(names[-1]) if names else "" for names in data.header]
                table["inner_header"] = inner
        if table["rows"]:
            tables.append(table)
            max_cells -= sum(len(row) for row in (table["header"], *table["rows"]))
        if len(tables) == MAX_TABLES or max_cells <= 0:
            break
    return tables


def _read_definition_list(definitions: Element, max_cells: int) -> dict[str, Any]:
    """Read a definition list, also one with its pairs in ``div`` elements."""
    rows: list[list[str]] = []
    names: list[str] = []
    last_tag = ""
    parts = (
        part
        for element in child_elements(definitions, {"dt", "dd", "div"})
        for part in (child_elements(element, {"dt", "dd"}) if element.tag == "div" else (element,))
    )
    for part in parts:
        if len(rows) * _PAIR >= max_cells:
            break
        if part.tag == "dt":
            names = (
                [*names, cell_text(part)[:MAX_CELL_CHARACTERS]][-_MAX_NAMES:]
                if last_tag == "dt"
                else [cell_text(part)[:MAX_CELL_CHARACTERS]]
            )
        else:
            value = cell_text(part)[:MAX_CELL_CHARACTERS]
            rows += ([name, value] for name in names)
        last_tag = part.tag
    return {"header": [], "rows": rows, "totals": []}


_CODE_FENCE: Final = re.compile(r"[ >]{0,12}(`{3,}|~{3,})")
_DELIMITER_ROW: Final = re.compile(r"[\s>]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_MARKS: Final = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])?\s*")
_FOOTNOTE: Final = re.compile(r"(?<!\\)\[\^[^\]\s]{1,100}\]")


def html_tables(text: str, url: str) -> list[TableTexts]:
    """Return the tables of a page's HTML text, as it shows them without scripts."""
    source = FetchedResponse(url, url, HTTPStatus.OK, None, b"", (), datetime.now(UTC))
    page = parse_converted_page(source, text, None)
    content = find_content(page, page.document, ConversionOptions(), main=False)
    return [table_texts(table) for _, table in find_tables(content.element)]


def html_records(text: str, url: str) -> dict[str, Any]:
    """Return the records of a page's HTML text, as `read_records` does."""
    source = FetchedResponse(url, url, HTTPStatus.OK, None, b"", (), datetime.now(UTC))
    return read_records(parse_converted_page(source, text, None))


def markdown_tables(text: str) -> list[TableTexts]:
    """Return the tables of a Markdown text, an extension of GitHub's."""
    html = "".join(map(_parser().render, _table_blocks(text)))
    return [table_texts(table) for _, table in find_tables(parse(html))] if html else []


@cache
def _parser() -> MarkdownIt:
    # Page workers read HTML, and load no parser of Markdown for it.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _table_blocks(text: str) -> Iterator[str]:
    """Yield the lines of each table, without the marks of a list or quotation around it."""
    lines = text.splitlines()
    fence, at = "", 0
    while at < len(lines):
        line = lines[at]
        mark = _CODE_FENCE.match(line)
        if fence:
            fence = "" if mark is not None and mark[1].startswith(fence) else fence
        elif mark is not None:
            fence = mark[1]
        elif (
            "|" in line
            and at + 1 < len(lines)
            and "-" in lines[at + 1]
            and _DELIMITER_ROW.fullmatch(lines[at + 1]) is not None
        ):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            block = ""
            for row in lines[at:end]:
                start = row.find("|")
                is_marked = start > 0 and _MARKS.fullmatch(row, 0, start) is not None
                block += (row[start:] if is_marked else row) + "\n"
            yield _FOOTNOTE.sub("", block)
            at = end
            continue
        at += 1


def headings(content: ParsedPage) -> list[dict[str, Any]]:
    """List the headings in tree order: `level` 1 to 6, `text`, and `anchor`.

    The anchor is the id for links to the heading: its own, that of an element in it, or that of the
    section that begins with it; None without one. Headings without text are omitted.
    """
    return [
        {"level": int(heading.tag[1]), "text": text, "anchor": _anchor(heading)}
        for heading in content.element.iter_elements(HEADINGS)
        if (text := text_of(heading))
    ]


def _anchor(heading: Element) -> str | None:
    if heading_id := heading.attr("id"):
        return heading_id
    for inner in heading.select("[id],a[name]"):
        if inner_id := inner.attr("id") or inner.attr("name"):
            return inner_id
    parent = heading.parent
    if isinstance(parent, Element) and parent.tag in {"section", "div", "header", "article"}:
        first_child = next((child for child in parent.children if isinstance(child, Element)), None)
        if first_child == heading:
            return parent.attr("id") or None
    return None


# fmt: off
_URL_ATTRIBUTES = frozenset({
    "action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster",
    "src", "srcset", "xlink:href",
})
# fmt: on
MAX_HANDLERS = 200
"""Maximum event handlers of an element. An element with more is replaced by its content, because
the time to remove attributes one by one is quadratic in their number."""

_ACTIVE_SCHEMES = ("javascript:", "vbscript:", "data:text/", "data:application/", "data:image/svg")


def html(content: ParsedPage) -> str:
    """Return the content as HTML: no scripts, styles, handlers or comments; links absolute."""
    content.element.rewrite_links(content.link_resolver.__getitem__)
    for comment in comments_of(content.element):
        comment.extract()
    overloaded: list[Element] = []
    for element in list(content.element.iter_elements(include_self=True)):
        active = [name for name in element.attrs if _is_active(element, name)]
        if len(active) > MAX_HANDLERS and element != content.element:
            overloaded.append(element)
        else:
            for name in active:
                del element.attrs[name]
    unwrap_all(overloaded)
    return content.element.serialize()


def _is_active(element: Element, name: str) -> bool:
    if name.startswith("on") or name in {"style", "srcdoc"}:
        return True
    if name not in _URL_ATTRIBUTES:
        return False
    value = element.attr(name) or ""
    scheme = "".join(character for character in value[:100].lower() if character > " ")
    return scheme.startswith(_ACTIVE_SCHEMES)


CAPTION_LIMIT = 1000
"""Maximum characters of a caption; the rest is cut."""


def images(content: ParsedPage) -> list[dict[str, Any]]:
    """List the images of the content in order, without duplicate URLs.

    Each row has `url` (absolute, of the largest variant), `alt`, `width` and `height` (CSS
    pixels, as declared) and `caption`; values that the page does not declare are None. ``data:``
    images are omitted.
    """
    rows: dict[str, dict[str, Any]] = {}
    for image in content.element.select("img"):
        source = best_source(image)
        url = content.link_resolver[source] if source is not None else None
        if url is not None and url not in rows:
            figure = image.closest("figure")
            caption = figure.select_one("figcaption") if figure is not None else None
            rows[url] = {
                "url": url,
                "alt": collapse_whitespace(image.attr("alt") or "") or None,
                "width": _pixels(image.attr("width")),
                "height": _pixels(image.attr("height")),
                "caption": (
                    text_of(caption)[:CAPTION_LIMIT] or None if caption is not None else None
                ),
            }
    return list(rows.values())


def _pixels(value: str | None) -> int | None:
    digits = (value or "").strip().lower().removesuffix("px")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 6 else None  # noqa: PLR2004 - no picture is a million pixels wide


def links(content: ParsedPage) -> list[str]:
    """List the http and https links of the content, absolute, unique, in order.

    A link to an anchor of another page keeps its fragment; links within this page are omitted.
    """
    own_anchor_prefix = content.source.final_url.partition("#")[0] + "#"
    targets = dict(zip(content.anchors.elements, content.anchors.targets, strict=True))
    for area in content.elements_by_tag.get("area", ()):
        targets[area] = content.link_resolver[area.attr("href")]
    urls = map(targets.get, content.element.select("a[href],area[href]"))
    return [
        url
        for url in dict.fromkeys(urls)
        if url is not None and not url.startswith(own_anchor_prefix)
    ]


def markdown(content: ParsedPage) -> str:
    """Write the content as Markdown."""
    if content.footnotes is not None:
        return write_with_footnotes(content)
    return MarkdownWriter(content.link_resolver, content.anchors).write(content.element)


def raw_html(page: ParsedPage) -> str:
    """Return the body as received, decoded to text; '' if the body is not text."""
    return decode_text(page.source.body, page.charset) if page.charset is not None else ""


def structured_data(page: ParsedPage) -> dict[str, Any]:
    """Return what the page declares for programs, each syntax under its own key."""
    head, base = page.head, page.link_resolver.base
    return declared.structured_data(page.document, base, json_ld=head.json_ld, metas=head.metas)


PAGE_FORMATS: dict[str, Callable[[ParsedPage], Any]] = {
    "raw_html": raw_html,
    SOURCE: raw_html,
    "structured_data": structured_data,
    "records": read_records,
    TABLES: read_tables,
    LABELS: read_labels,
    VISIBLE: read_visible_values,
}
"""Formats of the whole page, made before its tree is pruned; not all of them are public."""

CONTENT_FORMATS: dict[str, Callable[[ParsedPage], Any]] = {
    "links": links,
    "images": images,
    "headings": headings,
    "html": html,
    "markdown": markdown,
}
"""Formats of the content, in the order in which they are made."""


MAX_OUTLINKS = 20_000
"""Maximum links of a page that a crawl receives, in document order; metadata counts the others."""

__all__ = ["ConversionOptions", "FetchedResponse", "Outlink", "Scraped", "scrape"]


def scrape(
    source: FetchedResponse, options: ConversionOptions, *, outlinks: bool = True
) -> Scraped:
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
        listing = asdict(parse_sitemap(source.load_body().body))
        return Scraped(None, {SITEMAP_FORMAT: listing}, {}, {}, (), None, frozenset(), "", "")
    for name in options.formats:
        if name not in PAGE_FORMATS and name not in CONTENT_FORMATS:
            raise ScrapeError("parse", f"no such format: {name}")
    source = source.load_body()
    kind = detect_document_type(source)
    if kind == "html":
        scraped = _scrape_html(parse_page(source), options, kind, outlinks=outlinks)
    else:
        # It is converted to HTML; Markdown and plain text keep their own text.
        page, document = parse_document(source, kind)
        full_page = replace(options, only_main_content=False, markdown_mode=None)
        scraped = _scrape_html(page, full_page, kind, outlinks=outlinks)
        formats, text = scraped.formats, document.text
        selects_elements = options.include_tags or options.exclude_tags
        if document.markdown is not None and "markdown" in formats and not selects_elements:
            formats = formats | {"markdown": document.markdown}
        if text is None or selects_elements:
            text = scraped.text
        metadata = scraped.metadata and scraped.metadata | document.metadata | {"rung": kind}
        scraped = msgspec.structs.replace(scraped, formats=formats, metadata=metadata, text=text)
    return scraped.encoded() if options.encoded else scraped


def _scrape_html(
    page: ParsedPage, options: ConversionOptions, kind: DocumentType, *, outlinks: bool
) -> Scraped:
    head, facts, is_html = page.head, options.facts, kind == "html"
    metadata = build_metadata(page, visible_dates=is_html) if "metadata" in facts else {}
    # Image maps, frames and refreshes also lead to pages.
    others = {"area", "frame", "iframe"} & page.elements_by_tag.keys()
    if not outlinks:
        anchors = NO_ANCHORS
    elif others or "refresh" in head.metas:
        anchors = read_page_links(page.document, page.link_resolver)
    else:
        anchors = page.anchors
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
        rate_content(content, text, visible=visible, language=language, kind=kind)
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


def _convert_content(
    page: ParsedPage, options: ConversionOptions, formats: dict[str, Any]
) -> tuple[ParsedPage, str]:
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
        formats["markdown"] = markdown(markdown_content)
        names.remove("markdown")
        if not names:
            return markdown_content, formats["markdown"]
    content = find_content(page, page.document, options, main=main)
    text = "" if "markdown" in names else content.element.to_text()
    for name in names:
        formats[name] = CONTENT_FORMATS[name](content)
    return content, text or formats.get("markdown", "")
