"""Detects the type of a document from its Content-Type and its first bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from webdata_nb.service.errors import ScrapeError

if TYPE_CHECKING:
    from webdata_nb.service.content.page_source import PageSource

DocumentType = Literal["html", "feed", "json", "xml", "text", "pdf"]

_SNIFFED_BYTES = 1024
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
# "Binary data bytes" of the MIME Sniffing standard: no text contains them.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def detect_document_type(source: PageSource) -> DocumentType:
    """Detect a document type: a precise Content-Type decides, else the first bytes.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type``: no supported document; or ``parse``: declared as PDF,
        but it is none.
    """
    declared = (source.content_type or "").partition(";")[0].strip().lower()
    start = source.body[:_SNIFFED_BYTES]
    if b"%PDF-" in start and (declared == "application/pdf" or declared in _VAGUE_TYPES):
        return "pdf"
    if declared in _HTML_TYPES:
        return "feed" if _FEED_ROOT.match(_without_prolog(start)) else "html"
    if declared in _VAGUE_TYPES:
        return _by_content(start, declared)
    document_type = _by_content_type(declared, start)
    if document_type is None:
        raise ScrapeError("unsupported_type", f"pages of type {declared} cannot be read")
    return document_type


def _by_content_type(declared: str, start: bytes) -> DocumentType | None:
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
        return _xml_type(start)
    return "text" if declared.startswith("text/") else None


def _by_content(start: bytes, declared: str) -> DocumentType:
    unmarked = start
    for mark in _BYTE_ORDER_MARKS:
        unmarked = unmarked.removeprefix(mark)
    text = unmarked.lstrip()
    if _HTML_ROOT.match(text) or (declared != "text/plain" and _HTML_START.match(text)):
        return "html"
    if text.startswith(b"<?xml") or _FEED_ROOT.match(text):
        return _xml_type(start)
    if unmarked is start and _BINARY.search(start):
        raise ScrapeError("unsupported_type", "the body is binary data of no declared type")
    if declared != "text/plain" and text[:1] in {b"{", b"["}:
        return "json"
    return "text"


def _xml_type(start: bytes) -> DocumentType:
    root = _without_prolog(start)
    if _HTML_ROOT.match(root):
        return "html"
    return "feed" if _FEED_ROOT.match(root) else "xml"


def _without_prolog(start: bytes) -> bytes:
    """Return an XML document from its first element or document type on."""
    position = 0
    while (position := start.find(b"<", position)) >= 0:
        if start.startswith(b"<!--", position):
            position = max(start.find(b"-->", position), position + 1)
        elif start.startswith(b"<?", position):
            position = max(start.find(b"?>", position), position + 1)
        else:
            return start[position:]
    return b""
