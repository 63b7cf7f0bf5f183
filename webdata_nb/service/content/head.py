"""What a page says about itself: title, meta tags, canonical URL, robots, language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Namespace, collapse_whitespace, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from webdata_nb.service.content.links import LinkResolver
    from webdata_nb.service.content.page_source import PageSource
    from webdata_nb.service.content.parser import Element

_NAMES = ("property", "name", "itemprop", "http-equiv")
_DIRECTIVES = frozenset({"noindex", "nofollow", "none"})


@dataclass(slots=True)
class PageHead:
    """The declarations of a page, wherever in it they stand.

    Attributes
    ----------
    title
        The text of the ``title`` element.
    metas
        The contents of ``meta`` elements by lower-case name, property or itemprop, in order.
    canonical
        The href of ``link rel=canonical``, not yet resolved.
    base_href
        The href of the first ``base`` element that has one.
    language
        The ``lang`` of the ``html`` element.
    json_ld
        The texts of JSON-LD blocks.
    heading
        The first heading of level one, read where there is no title.
    """

    title: str | None = None
    metas: dict[str, list[str]] = field(default_factory=dict)
    canonical: str | None = None
    base_href: str | None = None
    language: str | None = None
    json_ld: list[str] = field(default_factory=list)
    heading: str | None = None

    def meta(self, *names: str) -> str | None:
        """Return the first content, not empty, among `names` in the order given."""
        for name in names:
            for content in self.metas.get(name, ()):
                if text := collapse_whitespace(content):
                    return text
        return None


def read_head(parts: dict[str, list[Element]]) -> PageHead:
    """Collect the declarations of a page from its elements, grouped by tag."""
    head = PageHead()
    for tag, read in _READERS.items():
        for each in parts.get(tag, ()):
            read(head, each)
    if head.title is None:
        headings = map(text_of, parts.get("h1", ()))
        head.heading = next(filter(None, headings), None)
    return head


def _html(head: PageHead, each: Element) -> None:
    if head.language is None:
        head.language = (
            collapse_whitespace(each.attr("lang") or each.attr("xml:lang") or "") or None
        )


def _title(head: PageHead, each: Element) -> None:
    if head.title is None and each.namespace is Namespace.HTML:
        head.title = collapse_whitespace(each.text) or None


def _meta(head: PageHead, each: Element) -> None:
    content = each.attr("content")
    if content is None:
        return
    for key in _NAMES:
        if name := each.attr(key):
            head.metas.setdefault(name.strip().lower(), []).append(content)


def _link(head: PageHead, each: Element) -> None:
    if head.canonical is None and "canonical" in (each.attr("rel") or "").lower().split():
        head.canonical = each.attr("href")


def _base(head: PageHead, each: Element) -> None:
    if head.base_href is None:
        head.base_href = each.attr("href")


def _script(head: PageHead, each: Element) -> None:
    kind = each.attr("type")
    if kind is not None and kind.split(";")[0].strip().lower() == "application/ld+json":
        head.json_ld.append(each.text)


_READERS: dict[str, Callable[[PageHead, Element], None]] = {
    "html": _html,
    "title": _title,
    "meta": _meta,
    "link": _link,
    "base": _base,
    "script": _script,
}


def canonical_url(head: PageHead, links: LinkResolver) -> str | None:
    """Return the absolute canonical URL a page declares, without fragment."""
    return links[head.canonical.partition("#")[0]] if head.canonical else None


def robots_directives(head: PageHead, source: PageSource) -> frozenset[str]:
    """Return which of noindex, nofollow and none a page's robots directives hold.

    Read from ``meta name=robots`` and ``X-Robots-Tag``; a directive for one named crawler is
    not for us. ``none`` brings the two it stands for.
    """
    found = set(_directives([*head.metas.get("robots", ()), *source.header("x-robots-tag")]))
    return frozenset(found | {"noindex", "nofollow"} if "none" in found else found)


def _directives(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        for part in value.lower().split(","):
            word = part.strip()
            if ":" in word and not word.startswith("unavailable_after"):
                break  # what follows is for the crawler named here
            if word in _DIRECTIVES:
                yield word
