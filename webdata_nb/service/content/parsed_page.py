"""A page that has been decoded and parsed: what every format is made from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.service.content.head import PageHead, read_head
from webdata_nb.service.content.links import AnchorTable, LinkResolver, read_anchors
from webdata_nb.service.content.parser import group_by_tag, parse
from webdata_nb.service.content.shadow_dom import flatten_shadow_roots
from webdata_nb.service.content.tags import INDEXED
from webdata_nb.service.content.xhtml import close_empty_elements, is_xhtml
from webdata_nb.service.web.charset import decode_text, sniff_charset

if TYPE_CHECKING:
    from webdata_nb.service.content.parser import Document, Element
    from webdata_nb.service.content.source import PageSource
    from webdata_nb.service.web.charset import Charset


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """One parsed page; its facts are read before its tree is pruned.

    Attributes
    ----------
    source
        What was fetched.
    charset
        Its character encoding and how that was found; None when it is no text.
    document
        The tree.
    parts
        The elements of the whole page with one of ``tags.READ``, by tag.
    anchors
        The links of the whole page.
    head
        What the page declares about itself.
    links
        Its links, resolved against its base.
    """

    source: PageSource
    charset: Charset | None
    document: Document
    parts: dict[str, list[Element]]
    anchors: AnchorTable
    head: PageHead
    links: LinkResolver

    @property
    def content_hash(self) -> str:
        """SHA-256 of the body, the first 32 hex digits."""
        return hashlib.sha256(self.source.body).hexdigest()[:32]


def parse_page(source: PageSource) -> ParsedPage:
    """Decode and parse one HTML page."""
    charset = sniff_charset(source.body, source.content_type)
    xhtml = is_xhtml(source.body, source.content_type)
    body = close_empty_elements(source.body) if xhtml else source.body
    return _parsed_page(source, parse(decode_text(body, charset)), charset)


def parse_converted_page(source: PageSource, page: str, charset: Charset | None) -> ParsedPage:
    """Parse the HTML page that stands for a body which is not HTML.

    Parameters
    ----------
    source
        The body as fetched.
    page
        The page that was made of it.
    charset
        The encoding of the body, None when it is no text.
    """
    return _parsed_page(source, parse(page), charset)


def _parsed_page(source: PageSource, document: Document, charset: Charset | None) -> ParsedPage:
    parts = group_by_tag(document, INDEXED)
    if "template" in parts and flatten_shadow_roots(document):
        parts = group_by_tag(document, INDEXED)
    head = read_head(parts)
    links = LinkResolver(source.final_url, head.base_href)
    others = [head.canonical, *(image.attr("src") for image in parts.get("img", ()))]
    anchors = read_anchors(parts.get("a", ()), links, also=others)
    return ParsedPage(source, charset, document, parts, anchors, head, links)
