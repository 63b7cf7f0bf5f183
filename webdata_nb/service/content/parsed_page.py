"""A page that has been decoded and parsed: what every format is made from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.service.content.head import Head, read_head
from webdata_nb.service.content.links import Anchors, Links, anchors_of
from webdata_nb.service.content.parser import by_tag, parse
from webdata_nb.service.content.shadow_dom import compose
from webdata_nb.service.content.tags import READ
from webdata_nb.service.content.xhtml import closed, is_xhtml
from webdata_nb.service.web.charset import decode_text, sniff_charset

if TYPE_CHECKING:
    from webdata_nb.service.content.parser import Document, Element
    from webdata_nb.service.content.source import Source
    from webdata_nb.service.web.charset import Charset


@dataclass(frozen=True, slots=True)
class Reading:
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

    source: Source
    charset: Charset | None
    document: Document
    parts: dict[str, list[Element]]
    anchors: Anchors
    head: Head
    links: Links

    @property
    def content_hash(self) -> str:
        """SHA-256 of the body, the first 32 hex digits."""
        return hashlib.sha256(self.source.body).hexdigest()[:32]


def read(source: Source) -> Reading:
    """Decode and parse one HTML page."""
    charset = sniff_charset(source.body, source.content_type)
    xhtml = is_xhtml(source.body, source.content_type)
    body = closed(source.body) if xhtml else source.body
    return _read(source, parse(decode_text(body, charset)), charset)


def read_as(source: Source, page: str, charset: Charset | None) -> Reading:
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
    return _read(source, parse(page), charset)


def _read(source: Source, document: Document, charset: Charset | None) -> Reading:
    parts = by_tag(document, READ)
    if "template" in parts and compose(document):
        parts = by_tag(document, READ)
    head = read_head(parts)
    links = Links(source.final_url, head.base_href)
    others = [head.canonical, *(image.attr("src") for image in parts.get("img", ()))]
    anchors = anchors_of(parts.get("a", ()), links, also=others)
    return Reading(source, charset, document, parts, anchors, head, links)
