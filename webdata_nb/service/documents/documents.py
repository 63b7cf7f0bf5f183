"""What a body is, and bodies that are not HTML: text, JSON, XML, feeds and PDF."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Literal

from webdata_nb.service.content.parsed_page import ParsedPage, parse_converted_page
from webdata_nb.service.content.parser import read_feed
from webdata_nb.service.documents.feeds import feed_to_html
from webdata_nb.service.documents.pdf import pdf_to_html
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.web.charset import decode_text, sniff_charset

if TYPE_CHECKING:
    from webdata_nb.service.content.source import PageSource

DocumentType = Literal["html", "feed", "json", "xml", "text", "pdf"]

_SNIFFED = 1024
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xhtml"})
_VAGUE_TYPES = frozenset(
    {"", "text/plain", "application/octet-stream", "binary/octet-stream", "unknown/unknown", "*/*"}
)
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml"})
_FEED_ROOT = re.compile(rb"<(?:rss|feed|rdf:RDF)[\s>]", re.IGNORECASE)
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_START = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|h1|div|p|table|a|b|br|ul|font"
    rb"|iframe|article|section|main|nav|header|!--)[\s>/-]",
    re.IGNORECASE,
)
# Bytes that no text holds (MIME Sniffing standard, "binary data byte").
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def detect_document_type(source: PageSource) -> DocumentType:
    """Tell what a body is, by its declared type where that is precise, else by how it begins.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type``, with the type that was declared or found.
    """
    declared = (source.content_type or "").partition(";")[0].strip().lower()
    start = source.body[:_SNIFFED]
    if b"%PDF-" in start and (declared == "application/pdf" or declared in _VAGUE_TYPES):
        return "pdf"
    if declared in _HTML_TYPES:
        return "feed" if _FEED_ROOT.match(_root(start)) else "html"
    if declared in _VAGUE_TYPES:
        return _by_content(start, declared)
    kind = _by_type(declared, start)
    if kind is None:
        raise ScrapeError("unsupported_type", f"pages of type {declared} cannot be read")
    return kind


def _by_type(declared: str, start: bytes) -> DocumentType | None:
    subtype = declared.partition("/")[2]
    if declared == "application/pdf":
        raise ScrapeError("parse", "declared as PDF, but it does not begin as one")
    if subtype == "json" or subtype.endswith("+json") or subtype in {"x-ndjson", "jsonl"}:
        return "json"
    if declared in _FEED_TYPES:
        return "feed"
    if declared.startswith("image/"):
        return None
    if subtype == "xml" or subtype.endswith("+xml"):
        return _xml_kind(start)
    return "text" if declared.startswith("text/") else None


def _by_content(start: bytes, declared: str) -> DocumentType:
    bare = start
    for mark in _MARKS:
        bare = bare.removeprefix(mark)
    begins = bare.lstrip()
    if _HTML_ROOT.match(begins) or (declared != "text/plain" and _HTML_START.match(begins)):
        return "html"
    if begins.startswith(b"<?xml") or _FEED_ROOT.match(begins):
        return _xml_kind(start)
    if bare is start and _BINARY.search(start):
        raise ScrapeError("unsupported_type", "the body is binary data of no declared type")
    if declared != "text/plain" and begins[:1] in {b"{", b"["}:
        return "json"
    return "text"


def _xml_kind(start: bytes) -> DocumentType:
    root = _root(start)
    if _HTML_ROOT.match(root):
        return "html"
    return "feed" if _FEED_ROOT.match(root) else "xml"


def _root(start: bytes) -> bytes:
    """Return the start of an XML document from its first element or document type on."""
    at = 0
    while (at := start.find(b"<", at)) >= 0:
        if start.startswith(b"<!--", at):
            at = max(start.find(b"-->", at), at + 1)
        elif start.startswith(b"<?", at):
            at = max(start.find(b"?>", at), at + 1)
        else:
            return start[at:]
    return b""


def parse_document(source: PageSource, kind: DocumentType) -> tuple[ParsedPage, str | None]:
    """Read a body that is not HTML by way of an HTML page made of it.

    Returns
    -------
    tuple
        The reading, and the body as text where it is one.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: a PDF document that cannot be read.
    """
    if kind == "pdf":
        return parse_converted_page(source, pdf_to_html(source.body), None), None
    charset = sniff_charset(source.body, source.content_type)
    text = decode_text(source.body, charset)
    return parse_converted_page(source, _page(text, kind), charset), text


def _page(text: str, kind: DocumentType) -> str:
    if kind == "feed" and (feed := read_feed(text)) is not None:
        return feed_to_html(feed)
    language = {"json": "json", "feed": "xml", "xml": "xml"}.get(kind, "")
    return f'<body><pre><code class="language-{language}">{escape(text)}</code></pre></body>'
