"""Where a page leads: its base, the absolute form of its links, and its outlinks."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from webdata_nb.service.scrape.parser import collapse
from webdata_nb.service.web.urls import Joiner, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.service.scrape.parser import Element

ANCHOR_LIMIT = 200
"""Characters of link text kept with an outlink."""

_ODD = re.compile(r"[\x00-\x20\"<>`]")
_NOT_ODD: Final = bytes(code for code in range(128) if not _ODD.match(chr(code)))
_ENCODED = {" ": "%20", '"': "%22", "<": "%3C", ">": "%3E", "`": "%60"}

# Links of plain characters alone are joined by writing them after what they are relative to. All
# of a page are told apart at once, a line each: a call for every one is most of what joining costs.
_START = "A-Za-z0-9_"
_INSIDE = rf"{_START}.~+(),:@!$&*;="
_PATH = rf"(?:/[{_START}][{_INSIDE}-]*+)*+/?"
_QUERY = rf"(?:\?[{_INSIDE}/?-]*+)?+"
_RELATIVE = rf"[{_START}][{_START}.~+-]*+{_PATH}{_QUERY}"
_FROM_ROOT = rf"/(?:[{_START}][{_INSIDE}-]*+{_PATH})?+{_QUERY}"
_HOST = r"(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.)+[a-z]{2,}"
_BELOW = re.compile(rf"\n({_RELATIVE})(?=\n)")
_ABOVE = re.compile(rf"\n((?:\.\./)++)({_RELATIVE})(?=\n)")
_ROOTED = re.compile(rf"\n({_FROM_ROOT})(?=\n)")
_WHOLE = re.compile(rf"\n(https?://{_HOST}{_FROM_ROOT})(?=\n)")
_SITE = re.compile(r"https?://[^/]*")
_LONGEST = 2000  # characters of a link that is joined so


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


class Links(dict[str | None, str | None]):
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
        self._joiner: Joiner | None = None  # made for the first link that needs it
        self[None] = None  # what has no href leads nowhere
        self[""] = self["#"] = self.base
        found = _SITE.match(self.base)
        self._site = found[0] if found is not None else ""
        self._folders = self.base.partition("?")[0][len(self._site) :].split("/")[:-1]

    def __missing__(self, href: str | None) -> str | None:
        absolute = self._resolve(href or "")
        self[href] = absolute
        return absolute

    def learn(self, hrefs: Iterable[str | None]) -> None:
        """Resolve those of many links that are plainly written; others wait until looked up."""
        new = {href for href in set(hrefs).difference(self) if href and len(href) <= _LONGEST}
        into = [href for href in new if "#" in href]
        split = [href.partition("#") for href in into]
        self._learn_pages({*new.difference(into), *(page for page, _, _ in split)})
        fragments = "".join([fragment for _, _, fragment in split])
        if fragments.isascii() and not fragments.encode().translate(None, _NOT_ODD):
            for href, (page, _, fragment) in zip(into, split, strict=True):
                absolute = self[page]
                self[href] = f"{absolute}#{fragment}" if absolute and fragment else absolute

    def _learn_pages(self, pages: set[str]) -> None:
        lines = "\n{}\n".format("\n".join(pages))
        for plain, sign, start in ((_BELOW, "", self._above(0)), (_ROOTED, "/", self._site)):
            if f"\n{sign}" in lines:
                found = plain.findall(lines)
                self.update(zip(found, map(start.__add__, found), strict=True))
        if "\nhttp" in lines:
            found = _WHOLE.findall(lines)
            self.update(zip(found, found, strict=True))
        if "\n../" in lines:
            found = _ABOVE.findall(lines)
            above = {up: self._above(up.count("/")) for up in {up for up, _ in found}}
            self.update((up + rest, above[up] + rest) for up, rest in found)

    def _above(self, levels: int) -> str:
        """Return the folder so many levels above the base's own, the root at most."""
        folders = self._folders
        return f"{self._site}{'/'.join(folders[: max(1, len(folders) - levels)])}/"

    def _resolve(self, href: str) -> str | None:
        page, mark, fragment = href.partition("#")
        if mark:
            absolute = self[page]
        else:
            if self._joiner is None:
                self._joiner = Joiner(self.base)
            absolute = self._joiner.join(page)
        if absolute is None or not fragment:
            return absolute
        if _ODD.search(fragment):
            fragment = _ODD.sub(_encode, fragment)
        return f"{absolute}#{fragment}"


def _encode(found: re.Match[str]) -> str:
    return _ENCODED.get(found[0], "")


def anchors_of(elements: Iterable[Element], links: Links) -> list[Anchor]:
    """Read the links of a page."""
    found = list(elements)
    hrefs = [each.attr("href") for each in found]
    links.learn(hrefs)
    targets = map(links.__getitem__, hrefs)
    return list(zip(found, hrefs, targets, [each.text for each in found], strict=True))


_OUTLINK: Final = partial(tuple.__new__, Outlink)  # what Outlink(*fields) comes to, in C alone


def outlinks(anchors: Iterable[Anchor]) -> tuple[Outlink, ...]:
    """Collect where the links of a page lead, unique by URL, in document order."""
    found: dict[str, tuple[str, str, bool]] = {}
    for element, href, target, text in anchors:
        if target is None or not href or href[0] == "#":
            continue
        url = target.partition("#")[0] if "#" in target else target
        known = found.get(url)
        if known is None:
            rel = element.attr("rel")
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            found[url] = url, _label(element, text), nofollow
        elif known[2] or not known[1]:
            rel = element.attr("rel") if known[2] else None
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            found[url] = url, known[1] or _label(element, text), nofollow
    return tuple(map(_OUTLINK, found.values()))


def _label(link: Element, text: str) -> str:
    """Return a link's text, or what a text browser would show in its place."""
    label = " ".join(text.split())
    if not label:
        image = link if link.tag == "area" else link.select_one("img[alt]")
        label = collapse((image.attr("alt") or "") if image is not None else "")
    return label if len(label) <= ANCHOR_LIMIT else label[:ANCHOR_LIMIT].rstrip()
