"""XHTML, which is read as HTML like browsers read most of it: its empty elements need closing."""

from __future__ import annotations

import re

_TAG = re.compile(rb"([a-zA-Z][a-zA-Z0-9]*)(?:\s[^>]*)?")
_VOID = frozenset(
    b"area base br col embed frame hr img input link meta param source track wbr".split()
)
_MARKUP = re.compile(rb"<html[^<>]*\sxmlns\s*=", re.IGNORECASE)
_SNIFFED = 1024


def is_xhtml(body: bytes, content_type: str | None) -> bool:
    """Tell whether a page was written as XML: it is served so, or begins as such."""
    if content_type is not None and "xml" in content_type.lower():
        return True
    start = body[:_SNIFFED].lstrip()
    return start.startswith(b"<?xml") and _MARKUP.search(start) is not None


def close_empty_elements(body: bytes) -> bytes:
    """Give each empty element its end tag: ``<script/>`` would swallow the rest of the page."""
    *parts, last = body.split(b"/>")  # most of a page is not between such a mark and its tag
    written: list[bytes] = []
    for part in parts:
        at = part.rfind(b"<") + 1
        tag = _TAG.fullmatch(part, at) if at else None
        if tag is None or tag[1].lower() in _VOID:
            written += part, b"/>"
        else:
            written += part, b"></", tag[1], b">"
    return b"".join([*written, last])
