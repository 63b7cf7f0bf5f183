"""Reads the declarations of a page: title, meta tags, canonical URL, robots, language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webdata_nb.page.content.json_ld import JsonLd, is_json_ld
from webdata_nb.page.content.parser import Namespace, collapse_whitespace, text_of
from webdata_nb.page.link_header import parse_link_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from webdata_nb.page.content.links import LinkResolver
    from webdata_nb.page.content.page_source import PageSource
    from webdata_nb.page.content.parser import Element

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


def read_head(elements_by_tag: dict[str, list[Element]], source: PageSource) -> PageHead:
    """Collect the declarations of a page."""
    head = PageHead()
    for tag, read_element in _READERS.items():
        for element in elements_by_tag.get(tag, ()):
            read_element(head, element)
    if head.canonical is None:
        links = (link for value in source.header("link") for link in parse_link_header(value))
        targets = (link.target for link in links if "canonical" in link.relations)
        head.canonical = next(targets, None)
    if head.title is None:
        headings = map(text_of, elements_by_tag.get("h1", ()))
        head.heading = next(filter(None, headings), None)
    return head


def _read_html(head: PageHead, element: Element) -> None:
    if head.language is None:
        head.language = (
            collapse_whitespace(element.attr("lang") or element.attr("xml:lang") or "") or None
        )


def _read_title(head: PageHead, element: Element) -> None:
    if head.title is None and element.namespace is Namespace.HTML:
        head.title = collapse_whitespace(element.text) or None


def _read_meta(head: PageHead, element: Element) -> None:
    content = element.attr("content")
    if content is None:
        return
    for key in _META_NAME_ATTRIBUTES:
        if name := element.attr(key):
            head.metas.setdefault(name.strip().lower(), []).append(content)


def _read_link(head: PageHead, element: Element) -> None:
    if head.canonical is None and "canonical" in (element.attr("rel") or "").lower().split():
        # RFC 6596: one in the body may be written by anyone.
        head.canonical = element.attr("href") if element.closest("body") is None else None


def _read_base(head: PageHead, element: Element) -> None:
    if head.base_href is None:
        head.base_href = element.attr("href")


def _read_script(head: PageHead, element: Element) -> None:
    if is_json_ld(element.attr("type")):
        head.json_ld.texts.append(element.text)


_READERS: dict[str, Callable[[PageHead, Element], None]] = {
    "html": _read_html,
    "title": _read_title,
    "meta": _read_meta,
    "link": _read_link,
    "base": _read_base,
    "script": _read_script,
}


def canonical_url(head: PageHead, link_resolver: LinkResolver) -> str | None:
    """Return the absolute canonical URL of a page, without fragment."""
    return link_resolver[head.canonical.partition("#")[0]] if head.canonical else None


def robots_directives(head: PageHead, source: PageSource) -> frozenset[str]:
    """Return the robots directives noindex, nofollow and none of a page.

    They come from ``meta name=robots`` and ``X-Robots-Tag``, without those for one named crawler.
    ``none`` adds noindex and nofollow.
    """
    directives = set(
        _parse_directives([*head.metas.get("robots", ()), *source.header("x-robots-tag")])
    )
    return frozenset(directives | {"noindex", "nofollow"} if "none" in directives else directives)


def _parse_directives(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        for part in value.lower().split(","):
            word = part.strip()
            if ":" in word and not word.startswith("unavailable_after"):
                break  # the rest is for the named crawler
            if word in _ROBOTS_DIRECTIVES:
                yield word
