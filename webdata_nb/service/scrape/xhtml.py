"""XHTML, which is read as HTML like browsers read most of it: its empty elements need closing."""

from __future__ import annotations

import re

_EMPTY = re.compile(rb"<([a-zA-Z][a-zA-Z0-9]*)((?:\s[^<>]*)?)/>")
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


def closed(body: bytes) -> bytes:
    """Give each empty element its end tag: ``<script/>`` would swallow the rest of the page."""
    return _EMPTY.sub(_close, body)


def _close(found: re.Match[bytes]) -> bytes:
    name, attributes = found.groups()
    if name.lower() in _VOID:
        return found[0]
    return b"<%b%b></%b>" % (name, attributes, name)
