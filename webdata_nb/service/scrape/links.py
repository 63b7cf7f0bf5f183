"""Where a page leads: its base, the absolute form of its links, and its outlinks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webdata_nb.service.scrape.parser import collapse
from webdata_nb.service.web.urls import Joiner, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.service.scrape.parser import Element

ANCHOR_LIMIT = 200
"""Characters of link text kept with an outlink."""

# A relative link made of such characters alone is joined by writing it after the base's folder.
_PLAIN = re.compile(r"\w[\w-]*(?:[./]\w[\w-]*)*(?:#[\w./-]+)?\Z", re.ASCII)
_ODD = re.compile(r"[\x00-\x20\"<>`]")
_ENCODED = {" ": "%20", '"': "%22", "<": "%3C", ">": "%3E", "`": "%60"}


Anchor: TypeAlias = "tuple[Element, str | None, str | None, str]"
"""A link read once for several steps: the ``a`` element, its href as written, its target in
absolute form (None when it leads to no web page), and its text as written."""


class Outlink(NamedTuple):
    """One page this page leads to.

    Attributes
    ----------
    url
        Absolute, in WHATWG form, without fragment.
    anchor
        The first link text that is not empty, white space folded, at most 200 characters.
    nofollow
        Every link to this URL says ``rel=nofollow``.
    """

    url: str
    anchor: str
    nofollow: bool


class Links(dict[str, str | None]):
    """Hrefs of one page and their absolute forms, each resolved once.

    A dictionary that fills itself, so that looking up a repeated link stays in C. Links that lead
    to no web page (``mailto:``, ``javascript:``, malformed ones) have None.

    Parameters
    ----------
    final_url
        The URL of the page.
    base_href
        The href of its ``base`` element.
    """

    def __init__(self, final_url: str, base_href: str | None = None) -> None:
        super().__init__()
        base = Joiner(final_url).join(base_href) if base_href else None
        self.base = base or canonical(final_url)
        self._join = Joiner(self.base).join
        self._folder = self.base.partition("?")[0].rpartition("/")[0] + "/"

    def __missing__(self, href: str) -> str | None:
        plain = _PLAIN.match(href)
        absolute = self._folder + href if plain is not None else self._resolve(href)
        self[href] = absolute
        return absolute

    def _resolve(self, href: str) -> str | None:
        page, _, fragment = href.partition("#")
        absolute = self._join(page) if page or not fragment else self.base
        if absolute is None or not fragment:
            return absolute
        if _ODD.search(fragment):
            fragment = _ODD.sub(_encode, fragment)
        return f"{absolute}#{fragment}"


def _encode(found: re.Match[str]) -> str:
    return _ENCODED.get(found[0], "")


def anchors_of(elements: Iterable[Element], links: Links) -> list[Anchor]:
    """Read the links of a page."""
    read = [(each, each.attr("href"), each.text) for each in elements]
    return [(each, href, None if href is None else links[href], text) for each, href, text in read]


def outlinks(anchors: Iterable[Anchor]) -> tuple[Outlink, ...]:
    """Collect where the links of a page lead, unique by URL, in document order."""
    found: dict[str, Outlink] = {}
    for element, href, target, text in anchors:
        if target is None or not href or href[0] == "#":
            continue
        known = found.get(url := target.partition("#")[0])
        if known is None:
            found[url] = Outlink(url, _label(element, text), _is_nofollow(element))
        elif known.nofollow or not known.anchor:
            anchor = known.anchor or _label(element, text)
            found[url] = Outlink(url, anchor, known.nofollow and _is_nofollow(element))
    return tuple(found.values())


def _is_nofollow(link: Element) -> bool:
    rel = link.attr("rel")
    return rel is not None and "nofollow" in rel.lower().split()


def _label(link: Element, text: str) -> str:
    """Return a link's text, or what a text browser would show in its place."""
    label = " ".join(text.split())
    if not label:
        image = link if link.tag == "area" else link.select_one("img[alt]")
        label = collapse((image.attr("alt") or "") if image is not None else "")
    return label if len(label) <= ANCHOR_LIMIT else label[:ANCHOR_LIMIT].rstrip()
