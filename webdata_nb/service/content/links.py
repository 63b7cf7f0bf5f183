"""Where a page leads: its base, the absolute form of its links, and its outlinks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from webdata_nb.service.content.parser import Element, collapse_whitespace
from webdata_nb.service.web.urls import UrlJoiner, canonical_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_ANCHOR_TEXT_LENGTH = 200
"""Characters of link text kept with an outlink."""

_ODD = re.compile(r"[\x00-\x20\"<>`]")
_NOT_ODD: Final = bytes(code for code in range(128) if not _ODD.match(chr(code)))
_ENCODED = {" ": "%20", '"': "%22", "<": "%3C", ">": "%3E", "`": "%60"}

# Links of plain characters alone are joined by writing them after what they are relative to. All
# of a page are told apart at once, a line each: a call for every one is most of what joining costs.
_START = "A-Za-z0-9_"
_INSIDE = rf"{_START}.~+(),:@!$&*;=%"
_PATH = rf"(?:/(?![.%])[{_INSIDE}-]++)*+/?"  # what begins with a dot, or such an escape, may go up
_QUERY = rf"(?:\?[{_INSIDE}/?-]*+)?+"
_RELATIVE = rf"[{_START}][{_START}.~+%-]*+{_PATH}{_QUERY}"
_FROM_ROOT = rf"/(?:(?![.%])[{_INSIDE}-]++{_PATH})?+{_QUERY}"
_HOST = r"(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.)+[a-z]{2,}"
_PLAIN = re.compile(
    rf"\n(?:((?:\.\./)*+)({_RELATIVE})|({_FROM_ROOT})|(https?://{_HOST}{_FROM_ROOT}))(?=\n)"
)
_NO_PAGE = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SITE = re.compile(r"https?://[^/]*")
_LONGEST = 2000  # characters of a link that is joined so


@dataclass(frozen=True, slots=True)
class AnchorTable:
    """The links of a part of a page, read once for several steps: a column for each fact.

    Attributes
    ----------
    elements
        The ``a`` elements, in document order.
    hrefs
        Their hrefs as written, None where there is none.
    targets
        Where they lead, in absolute form; None where that is no web page.
    pages
        The same without fragment; None for a place in the page itself too.
    texts
        Their texts as written.
    """

    elements: list[Element]
    hrefs: list[str | None]
    targets: list[str | None]
    pages: list[str | None]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.elements)

    def without(self, places: Sequence[int]) -> AnchorTable:
        """Return the links but for those at `places`."""
        if not places:
            return self
        keep = bytearray(b"\x01") * len(self)
        for place in places:
            keep[place] = 0
        return AnchorTable(
            list(compress(self.elements, keep)),
            list(compress(self.hrefs, keep)),
            list(compress(self.targets, keep)),
            list(compress(self.pages, keep)),
            list(compress(self.texts, keep)),
        )


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


class LinkResolver(dict[str | None, str | None]):
    """Hrefs of one page and their absolute forms, each resolved once.

    A dictionary that fills itself, so that looking up a repeated link stays in C. Links that lead
    to no web page (``mailto:``, ``javascript:``, malformed ones) have None. Of those looked up,
    `pages` has the same without fragment, None where that is a place in the page itself.

    Parameters
    ----------
    final_url
        The URL of the page.
    base_href
        The href of its ``base`` element.
    """

    def __init__(self, final_url: str, base_href: str | None = None) -> None:
        super().__init__()
        base = UrlJoiner(final_url).join(base_href) if base_href else None
        self.base = base or canonical_url(final_url)
        self._joiner: UrlJoiner | None = None  # made for the first link that needs it
        self[None] = None  # what has no href leads nowhere
        self[""] = self["#"] = self.base
        self.pages: dict[str | None, str | None] = {None: None, "": None, "#": None}
        found = _SITE.match(self.base)
        self._site = found[0] if found is not None else ""
        self._folders = self.base.partition("?")[0][len(self._site) :].split("/")[:-1]

    def __missing__(self, href: str | None) -> str | None:
        page, mark, fragment = (href or "").partition("#")
        absolute = self[page] if mark else self._resolve(page)
        self.pages[href] = absolute if page else None
        if absolute is not None and fragment:
            absolute = f"{absolute}#{_ODD.sub(_encode, fragment)}"
        self[href] = absolute
        return absolute

    def learn(self, hrefs: Iterable[str | None]) -> None:
        """Resolve those of many links that are plainly written; others wait until looked up."""
        new = cast("set[str]", set(hrefs).difference(self))
        if max(map(len, new), default=0) > _LONGEST:
            new = {href for href in new if len(href) <= _LONGEST}
        here = [href for href in new if href[0] == "#"]
        away = list(new.difference(here))
        split = [href.partition("#") for href in away]
        known = self._joined({page for page, _, _ in split})
        self.pages.update(known)
        self.update(zip(here, map(self.base.__add__, _written(here)), strict=True))
        fragments = _written([fragment for _, _, fragment in split])
        for href, (page, mark, _), fragment in zip(away, split, fragments, strict=True):
            if mark and page in known:
                self.pages[href] = absolute = known[page]
                known[href] = f"{absolute}#{fragment}" if fragment else absolute
        self.update(known)

    def _joined(self, pages: set[str]) -> dict[str, str]:
        """Return those of `pages` that are plainly written, and their absolute forms."""
        found: dict[str, str] = {}
        above: dict[str, str] = {}
        for up, below, rooted, whole in _PLAIN.findall("\n{}\n".format("\n".join(pages))):
            if below:
                if up not in above:
                    above[up] = self._above(up.count("/"))
                found[up + below if up else below] = above[up] + below
            elif rooted:
                found[rooted] = self._site + rooted
            else:
                found[whole] = whole
        return found

    def _above(self, levels: int) -> str:
        """Return the folder so many levels above the base's own, the root at most."""
        folders = self._folders
        return f"{self._site}{'/'.join(folders[: max(1, len(folders) - levels)])}/"

    def _resolve(self, page: str) -> str | None:
        if _NO_PAGE.match(page):
            return None
        if self._joiner is None:
            self._joiner = UrlJoiner(self.base)
        return self._joiner.join(page)


def _written(fragments: list[str]) -> list[str]:
    """Write fragments as browsers do: most pages have none to change, which is quickly seen."""
    if "".join(fragments).encode("ascii", "ignore").translate(None, _NOT_ODD):
        return [_ODD.sub(_encode, fragment) for fragment in fragments]
    return fragments


def _encode(found: re.Match[str]) -> str:
    return _ENCODED.get(found[0], "")


def read_anchors(
    elements: Iterable[Element], links: LinkResolver, also: Iterable[str | None] = ()
) -> AnchorTable:
    """Read the links of a page; `also` are URLs that other steps will look up."""
    found = list(elements)
    hrefs = [each.attr("href") for each in found]
    links.learn([*hrefs, *also])
    targets = list(map(links.__getitem__, hrefs))
    pages = list(map(links.pages.get, hrefs))
    return AnchorTable(found, hrefs, targets, pages, [each.text for each in found])


_OUTLINK: Final = partial(tuple.__new__, Outlink)  # what Outlink(*fields) comes to, in C alone


def outlinks_from_columns(columns: Sequence[Sequence[Any]]) -> tuple[Outlink, ...]:
    """Return outlinks from their columns: URLs, anchors, and which are nofollow."""
    return tuple(map(_OUTLINK, zip(*columns, strict=True)))


def collect_outlinks(anchors: AnchorTable) -> tuple[Outlink, ...]:
    """Collect where the links of a page lead, unique by URL, in document order."""
    found: dict[str | None, tuple[str, str, bool]] = {}
    settled = True
    for url, link, text in zip(anchors.pages, anchors.elements, anchors.texts, strict=True):
        if url not in found and url is not None:
            label = " ".join(text.split()) or _drawn(link)
            if len(label) > MAX_ANCHOR_TEXT_LENGTH:
                label = label[:MAX_ANCHOR_TEXT_LENGTH].rstrip()
            rel = link.attr("rel")
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            found[url] = url, label, nofollow
            settled = settled and not nofollow and label != ""
    if not settled:
        _settle(found, anchors)
    return tuple(map(_OUTLINK, found.values()))


def _settle(found: dict[str | None, tuple[str, str, bool]], anchors: AnchorTable) -> None:
    """Let later links to a page speak where its first has no text, or says nofollow."""
    for url, link, text in zip(anchors.pages, anchors.elements, anchors.texts, strict=True):
        if url is not None:
            _, label, nofollow = found[url]
            if nofollow or not label:
                label = label or " ".join(text.split()) or _drawn(link)
                label = label[:MAX_ANCHOR_TEXT_LENGTH].rstrip()
                rel = link.attr("rel") if nofollow else None
                found[url] = url, label, rel is not None and "nofollow" in rel.lower().split()


def _drawn(link: Element) -> str:
    """Return what a text browser shows in the place of a link without text."""
    image = link if link.tag == "area" else link.select_one("img[alt]")
    return collapse_whitespace((image.attr("alt") or "") if image is not None else "")
