"""Converts feeds, PDF, JSON, XML and plain text to HTML, which one parser reads."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from webdata_nb.service.content.parsed_page import ParsedPage, parse_converted_page
from webdata_nb.service.content.parser import read_feed
from webdata_nb.service.documents.pdf import pdf_to_html
from webdata_nb.service.web.charset import decode_text, sniff_charset

if TYPE_CHECKING:
    from webdata_nb.service.content.page_source import PageSource
    from webdata_nb.service.content.parser import Entry, Feed
    from webdata_nb.service.documents.document_type import DocumentType


def parse_document(
    source: PageSource, document_type: DocumentType
) -> tuple[ParsedPage, str | None]:
    """Convert a document to HTML and parse it.

    Returns
    -------
    tuple
        The parsed page, and the decoded text of the document; None for PDF.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the PDF document cannot be read.
    """
    if document_type == "pdf":
        return parse_converted_page(source, pdf_to_html(source.body), None), None
    charset = sniff_charset(source.body, source.content_type)
    text = decode_text(source.body, charset)
    return parse_converted_page(source, _text_to_html(text, document_type), charset), text


def _text_to_html(text: str, document_type: DocumentType) -> str:
    if document_type == "feed" and (feed := read_feed(text)) is not None:
        return _feed_to_html(feed)
    language = {"json": "json", "feed": "xml", "xml": "xml"}.get(document_type, "")
    return f'<body><pre><code class="language-{language}">{escape(text)}</code></pre></body>'


def _feed_to_html(feed: Feed) -> str:
    """Write a feed as a page with an article for each entry; HTML of entries is kept."""
    title = escape(feed.title or "")
    head = f"<title>{title}</title>"
    if feed.description:
        head += f'<meta name="description" content="{escape(feed.description)}">'
    heading = _linked(title, feed.link)
    entries = "".join(map(_entry_to_html, feed.entries))
    description = f"<p>{escape(feed.description)}</p>" if feed.description else ""
    return (
        f"<!doctype html><html><head>{head}</head><body><main>"
        f"<h1>{heading}</h1>{description}{entries}</main></body></html>"
    )


def _entry_to_html(entry: Entry) -> str:
    heading = _linked(escape(entry.title or entry.link or ""), entry.link)
    byline = ", ".join(filter(None, (entry.author, entry.published or entry.updated)))
    content = entry.content if isinstance(entry.content, str) else None
    return (
        f"<article><h2>{heading}</h2>"
        + (f"<p>{escape(byline)}</p>" if byline else "")
        + f"<div>{content or entry.summary or ''}</div></article>"
    )


def _linked(html: str, url: str | None) -> str:
    return f'<a href="{escape(url)}">{html}</a>' if url and html else html
