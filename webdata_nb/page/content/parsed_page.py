"""Decodes and parses a page into the tree, head and links that every output format reads."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.head import PageHead, read_head
from webdata_nb.page.content.hidden_elements import find_permalinks
from webdata_nb.page.content.image_sources import show_replaced_images
from webdata_nb.page.content.links import AnchorTable, LinkResolver, read_anchors
from webdata_nb.page.content.parser import (
    Element,
    Text,
    group_by_tag,
    make_element,
    parse,
    remove_all,
)
from webdata_nb.page.content.shadow_dom import flatten_shadow_roots
from webdata_nb.page.content.tags import INDEXED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.page.charset import Charset
    from webdata_nb.page.content.page_source import PageSource
    from webdata_nb.page.content.parser import Document, Node


_XHTML_ROOT = re.compile(rb"<html[^<>]*\sxmlns\s*=", re.IGNORECASE)
_SNIFFED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page; head and links are read before the tree is pruned.

    Attributes
    ----------
    source
        The page as fetched.
    charset
        Its character encoding and how that was detected; None for binary documents.
    document
        The tree.
    elements_by_tag
        The elements of the whole page with a tag of ``tags.INDEXED``.
    anchors
        The links of the whole page, without the permalinks of its headings, which are removed.
    head
        Its title, meta tags, canonical URL and JSON-LD.
    link_resolver
        Resolves URLs against the base of the page.
    """

    source: PageSource
    charset: Charset | None
    document: Document
    elements_by_tag: dict[str, list[Element]]
    anchors: AnchorTable
    head: PageHead
    link_resolver: LinkResolver

    @property
    def content_hash(self) -> str:
        """SHA-256 of the body, the first 32 hex digits."""
        return hashlib.sha256(self.source.body).hexdigest()[:32]


def parse_page(source: PageSource) -> ParsedPage:
    """Decode and parse one HTML page."""
    charset = sniff_charset(source.body, source.content_type)
    xhtml = _is_xhtml(source.body, source.content_type)
    return _parsed_page(source, parse(decode_text(source.body, charset), xhtml=xhtml), charset)


def parse_converted_page(source: PageSource, html: str, charset: Charset | None) -> ParsedPage:
    """Parse a document that was converted to HTML.

    Parameters
    ----------
    source
        The document as fetched.
    html
        The document as HTML.
    charset
        The encoding of the document; None when it is binary.
    """
    return _parsed_page(source, parse(html), charset)


def _parsed_page(source: PageSource, document: Document, charset: Charset | None) -> ParsedPage:
    elements_by_tag = group_by_tag(document, INDEXED)
    changes = (
        "template" in elements_by_tag and flatten_shadow_roots(document),
        show_replaced_images(elements_by_tag),
        add_ruby_parentheses(elements_by_tag.get("rt", ())),
    )
    if any(changes):
        elements_by_tag = group_by_tag(document, INDEXED)
    head = read_head(elements_by_tag, source)
    link_resolver = LinkResolver(source.final_url, head.base_href)
    images = elements_by_tag.get("img", ())
    other_urls = [head.canonical, *(image.attr("src") for image in images)]
    anchors = read_anchors(elements_by_tag.get("a", ()), link_resolver, also=other_urls)
    permalinks = find_permalinks(anchors)
    remove_all(anchors.elements[index] for index in permalinks)
    anchors = anchors.without(permalinks)
    return ParsedPage(source, charset, document, elements_by_tag, anchors, head, link_resolver)


def add_ruby_parentheses(readings: Iterable[Element]) -> bool:
    """Put readings in parentheses, which stand in ``rp``, where the page has none.

    A reading is the ``rt`` of a ``ruby``. Return whether the tree changed.
    """
    bare = [each for each in readings if each.text.strip() and not _has_parentheses(each.parent)]
    for reading in bare:
        reading.insert_before(make_element("rp", [Text("(")]))
        reading.insert_after(make_element("rp", [Text(")")]))
    return bool(bare)


def _has_parentheses(ruby: Node | None) -> bool:
    return isinstance(ruby, Element) and ruby.select_one("rp") is not None


def _is_xhtml(body: bytes, content_type: str | None) -> bool:
    """Return whether a page is served as XML or begins as XHTML."""
    if content_type is not None and "xml" in content_type.lower():
        return True
    start = body[:_SNIFFED_BYTES].lstrip()
    return start.startswith(b"<?xml") and _XHTML_ROOT.search(start) is not None
