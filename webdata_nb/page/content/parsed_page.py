"""Decodes and parses a page into the tree, head and links that every output format reads.

Declarative shadow roots become part of the tree: a browser renders
``<template shadowrootmode>`` in place of the children of its host, and those children in its slots.
Children without a slot are kept after the shadow root, so no text is lost.

What a page declares about the use of its content (meta tags, licence links, licences) is read here
too.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.links import (
    AnchorTable,
    LinkResolver,
    find_permalinks,
    read_anchors,
    show_replaced_images,
)
from webdata_nb.page.content.parser import (
    INDEXED,
    Element,
    Namespace,
    Text,
    body_of,
    collapse_whitespace,
    group_by_tag,
    make_element,
    parse,
    remove_all,
    text_of,
    unwrap_all,
)
from webdata_nb.page.content.structured_data import JsonLd, is_json_ld
from webdata_nb.page.urls import parse_link_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.page.content.footnotes import FootnoteSection
    from webdata_nb.page.content.page_source import FetchedResponse
    from webdata_nb.page.content.parser import Document, Node


_META_NAME_ATTRIBUTES = ("property", "name", "itemprop", "http-equiv")
_ROBOTS_DIRECTIVES = frozenset({"noindex", "nofollow", "none"})


@dataclass(slots=True)
class PageHead:
    """The declarations of a page, anywhere in its tree.

    Attributes
    ----------
    title
        The text of the ``title`` element.
    metas
        The contents of ``meta`` elements by lower-case name, property or itemprop, in order.
    canonical
        The unresolved href of ``link rel=canonical`` outside of the body, otherwise the target of a
        ``Link`` header.
    base_href
        The href of the first ``base`` element that has one.
    language
        The ``lang`` of the ``html`` element.
    json_ld
        What its JSON-LD declares.
    heading
        The first heading of level one; only read for pages without a title.
    """

    title: str | None = None
    metas: dict[str, list[str]] = field(default_factory=dict)
    canonical: str | None = None
    base_href: str | None = None
    language: str | None = None
    json_ld: JsonLd = field(default_factory=JsonLd)
    heading: str | None = None

    def meta(self, *names: str) -> str | None:
        """Return the first nonempty content of `names`, in their order."""
        for name in names:
            for content in self.metas.get(name, ()):
                if text := collapse_whitespace(content):
                    return text
        return None


def read_head(elements_by_tag: dict[str, list[Element]], source: FetchedResponse) -> PageHead:
    """Collect the declarations of a page."""
    head = PageHead()
    languages = (
        collapse_whitespace(element.attr("lang") or element.attr("xml:lang") or "")
        for element in elements_by_tag.get("html", ())
    )
    head.language = next(filter(None, languages), None)
    titles = (
        collapse_whitespace(element.text)
        for element in elements_by_tag.get("title", ())
        if element.namespace is Namespace.HTML
    )
    head.title = next(filter(None, titles), None)
    for element in elements_by_tag.get("meta", ()):
        content = element.attr("content")
        if content is not None:
            for key in _META_NAME_ATTRIBUTES:
                if name := element.attr(key):
                    head.metas.setdefault(name.strip().lower(), []).append(content)
    for element in elements_by_tag.get("link", ()):
        if head.canonical is None and "canonical" in (element.attr("rel") or "").lower().split():
            # RFC 6596: one in the body may be written by anyone.
            head.canonical = element.attr("href") if element.closest("body") is None else None
    for element in elements_by_tag.get("base", ()):
        if head.base_href is None:
            head.base_href = element.attr("href")
    for element in elements_by_tag.get("script", ()):
        if is_json_ld(element.attr("type")):
            head.json_ld.texts.append(element.text)
    if head.canonical is None:
        links = (
            link for value in source.header_values("link") for link in parse_link_header(value)
        )
        targets = (link.target for link in links if "canonical" in link.relations)
        head.canonical = next(targets, None)
    if head.title is None:
        headings = map(text_of, elements_by_tag.get("h1", ()))
        head.heading = next(filter(None, headings), None)
    return head


def canonical_url(head: PageHead, link_resolver: LinkResolver) -> str | None:
    """Return the absolute canonical URL of a page, without fragment."""
    return link_resolver[head.canonical.partition("#")[0]] if head.canonical else None


def robots_directives(head: PageHead, source: FetchedResponse) -> frozenset[str]:
    """Return the robots directives noindex, nofollow and none of a page.

    They come from ``meta name=robots`` and ``X-Robots-Tag``, without those for one named crawler.
    ``none`` adds noindex and nofollow.
    """
    directives: set[str] = set()
    for value in (*head.metas.get("robots", ()), *source.header_values("x-robots-tag")):
        for part in value.lower().split(","):
            word = part.strip()
            if ":" in word and not word.startswith("unavailable_after"):
                break  # the rest is for the named crawler
            if word in _ROBOTS_DIRECTIVES:
                directives.add(word)
    return frozenset(directives | {"noindex", "nofollow"} if "none" in directives else directives)


_MODE_ATTRIBUTE: Final = "shadowrootmode"
_MODES: Final = frozenset({"open", "closed"})
_MAX_NESTING: Final = 16
_HOST_TAGS: Final = frozenset(
    {
        *("article", "aside", "blockquote", "body", "div", "footer", "header", "main", "nav", "p"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "section", "span"),
    }
)


def flatten_shadow_roots(document: Document) -> bool:
    """Flatten the shadow roots of a page; return whether it has any."""
    hosts: set[Element] = set()
    for _ in range(_MAX_NESTING):
        templates = _find_shadow_roots(document, hosts)
        if not templates:
            break
        for template, host in templates:
            children_by_slot: defaultdict[str, list[Node]] = defaultdict(list)
            for child in host.children:
                if child != template:
                    name = child.attr("slot") if isinstance(child, Element) else None
                    children_by_slot[name or ""].append(child)
            for content in template.children:
                slots = group_by_tag(content, {"slot"}).get("slot", [])
                for slot in slots:
                    _fill(slot, children_by_slot.pop(slot.attr("name") or "", []))
                for child in content.children:
                    template.insert_before(child)
            template.decompose()
    return bool(hosts)


def _find_shadow_roots(document: Document, hosts: set[Element]) -> list[tuple[Element, Element]]:
    """Return the first shadow root of each host that is not inside a template."""
    shadow_roots: list[tuple[Element, Element]] = []
    for template in document.iter_elements({"template"}):
        host = template.parent
        if (template.attr(_MODE_ATTRIBUTE) or "").lower() not in _MODES:
            continue
        if (
            isinstance(host, Element)
            and host not in hosts
            and (host.tag in _HOST_TAGS or "-" in host.tag)
        ):
            hosts.add(host)
            shadow_roots.append((template, host))
    return shadow_roots


def _fill(slot: Element, children: list[Node]) -> None:
    """Replace a slot by children of the host, or without any by its default content."""
    if not any(isinstance(child, Element) or child.text.strip() for child in children):
        return unwrap_all([slot])
    for child in children:
        slot.insert_before(child)
    return slot.decompose()


_XHTML_ROOT = re.compile(rb"<html[^<>]*\sxmlns\s*=", re.IGNORECASE)
_SNIFFED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page, first the whole one and then its selected content (`find_content`).

    Head and links are read before the tree is pruned.

    Attributes
    ----------
    source
        The page as fetched.
    charset
        The WHATWG name of its character encoding; None for binary documents.
    document
        The tree.
    element
        The body of the whole page, or the root of the content, which has no hidden elements.
    elements_by_tag
        The elements of the page or of its content with a tag of ``tags.INDEXED``; some of the
        content may have left the tree since.
    anchors
        The links of the page or of its content, without the permalinks of headings, which are
        removed. Those of the content are absolute in the tree.
    head
        Its title, meta tags, canonical URL and JSON-LD.
    link_resolver
        Resolves URLs against the base of the page.
    rung
        How the content was selected: ``"article"``, ``"main"`` or ``"full"`` by main-content
        extraction, ``"page"`` for the whole page, ``"selected"`` by `include_tags`.
    is_fallback
        Main-content extraction left next to nothing: this is the visible page.
    footnotes
        The footnotes at the end of the content; None without any.
    """

    source: FetchedResponse
    charset: str | None
    document: Document
    element: Element
    elements_by_tag: dict[str, list[Element]]
    anchors: AnchorTable
    head: PageHead
    link_resolver: LinkResolver
    rung: str = "page"
    is_fallback: bool = False
    footnotes: FootnoteSection | None = None

    @property
    def content_hash(self) -> str:
        """SHA-256 of the body, the first 32 hex digits."""
        return hashlib.sha256(self.source.body).hexdigest()[:32]


def parse_page(source: FetchedResponse) -> ParsedPage:
    """Decode and parse one HTML page."""
    charset = sniff_charset(source.body, source.content_type)
    # Served as XML, or beginning as XHTML.
    start = source.body[:_SNIFFED_BYTES].lstrip()
    xhtml = "xml" in (source.content_type or "").lower() or (
        start.startswith(b"<?xml") and _XHTML_ROOT.search(start) is not None
    )
    return _parsed_page(source, parse(decode_text(source.body, charset), xhtml=xhtml), charset)


def parse_converted_page(source: FetchedResponse, html: str, charset: str | None) -> ParsedPage:
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


def _parsed_page(source: FetchedResponse, document: Document, charset: str | None) -> ParsedPage:
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
    body = body_of(document)
    return ParsedPage(
        source, charset, document, body, elements_by_tag, anchors, head, link_resolver
    )


def add_ruby_parentheses(readings: Iterable[Element]) -> bool:
    """Put readings in parentheses, which stand in ``rp``, where the page has none.

    A reading is the ``rt`` of a ``ruby``. Return whether the tree changed.
    """
    bare = [
        each
        for each in readings
        if each.text.strip()
        and not (isinstance(each.parent, Element) and each.parent.select_one("rp") is not None)
    ]
    for reading in bare:
        reading.insert_before(make_element("rp", [Text("(")]))
        reading.insert_after(make_element("rp", [Text(")")]))
    return bool(bare)


DeclarationKind = Literal["meta", "link", "rsl", "unread"]
MAX_DECLARATIONS: Final = 200
# Links to licences of single images are many on some pages.
MAX_LICENSE_LINKS: Final = 20
MAX_VALUE_CHARACTERS: Final = 1000
MAX_RSL_CHARACTERS: Final = 512 * 1024
_META_NAMES: Final = frozenset({"robots", "tdm-reservation", "tdm-policy"})
# A meta tag with one of these words may be for one crawler, by its name.
_WORDS: Final = ("noai", "noimageai", "noindex", "none")
_RSL: Final = "application/rsl+xml"


class PageDeclaration(NamedTuple):
    """One declaration: the name and content of a meta tag, or the URL and type of a licence.

    For a licence inside the page, `value` is its XML. The kind `unread` stands for those beyond a
    bound.
    """

    kind: DeclarationKind
    name: str
    value: Annotated[str, Meta(max_length=MAX_RSL_CHARACTERS)]


_UNREAD: Final = PageDeclaration("unread", "", "")


def find_declarations(page: ParsedPage) -> tuple[PageDeclaration, ...]:
    """Return the declarations of a page, each once; the last one is `unread` if there are more."""
    found: dict[PageDeclaration, None] = {}
    for element in page.elements_by_tag.get("meta", ()):
        name = (element.attr("name") or element.attr("property") or "").strip().lower()
        content = element.attr("content") or ""
        if name in _META_NAMES or (name and any(word in content.lower() for word in _WORDS)):
            name, content = name[:MAX_VALUE_CHARACTERS], content[:MAX_VALUE_CHARACTERS]
            found[PageDeclaration("meta", name, content)] = None
    room = MAX_RSL_CHARACTERS
    for element in page.elements_by_tag.get("script", ()):
        if _media_type(element.attr("type")) == _RSL:
            text = element.text[:room]
            room -= len(text)
            found[PageDeclaration("rsl", "", text)] = None
    links = [
        PageDeclaration("link", url, _media_type(element.attr("type")))
        for tag in ("link", "a", "area")
        for element in page.elements_by_tag.get(tag, ())
        if "license" in (element.attr("rel") or "").lower().split()
        and (url := page.link_resolver[element.attr("href")])
    ]
    links.sort(key=lambda link: link.value != _RSL)  # those to RSL licences first
    found.update(dict.fromkeys(links[:MAX_LICENSE_LINKS]))
    if any(link.value == _RSL for link in links[MAX_LICENSE_LINKS:]):
        found[_UNREAD] = None
    if len(found) <= MAX_DECLARATIONS:
        return tuple(found)
    return (*islice(found, MAX_DECLARATIONS - 1), _UNREAD)


def _media_type(text: str | None) -> str:
    return (text or "").partition(";")[0].strip().lower()[:MAX_VALUE_CHARACTERS]
