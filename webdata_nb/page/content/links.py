"""Resolves the URLs of a page, and reads its links and the sources of its pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from webdata_nb.page.content.parser import HEADINGS, Element, collapse_whitespace, element_before
from webdata_nb.page.declared_refresh import parse_refresh
from webdata_nb.page.urls import UrlJoiner, canonical_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from webdata_nb.page.content.parser import Document

MAX_ANCHOR_TEXT_LENGTH = 200
"""Characters kept of the anchor text of an outlink."""

_ENCODED_CHARACTERS = re.compile(r"[\x00-\x20\"<>`]")
_NOT_ENCODED_CHARACTERS: Final = bytes(
    code for code in range(128) if not _ENCODED_CHARACTERS.match(chr(code))
)
_PERCENT_ENCODED = {" ": "%20", '"': "%22", "<": "%3C", ">": "%3E", "`": "%60"}

# Links of plain characters are joined by concatenation. One regex over all links of a page, a line
# each, classifies them: most of the cost of joining is the call per link.
_START = "A-Za-z0-9_"
_INSIDE = rf"{_START}.~+(),:@!$&*;=%"
_PATH = rf"(?:/(?![.%])[{_INSIDE}-]++)*+/?"  # a leading dot, also escaped, may be "..": not plain
_QUERY = rf"(?:\?[{_INSIDE}/?-]*+)?+"
_RELATIVE = rf"[{_START}][{_START}.~+%-]*+{_PATH}{_QUERY}"
_FROM_ROOT = rf"/(?:(?![.%])[{_INSIDE}-]++{_PATH})?+{_QUERY}"
_HOST = r"(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.)+[a-z]{2,}"
_PLAIN = re.compile(
    rf"\n(?:((?:\.\./)*+)({_RELATIVE})|({_FROM_ROOT})|(https?://{_HOST}{_FROM_ROOT}))(?=\n)"
)
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://[^/]*")
_MAX_PLAIN_LENGTH = 2000
_LINK_ATTRIBUTES: Final = {"frame": "src", "iframe": "src"}


@dataclass(frozen=True, slots=True)
class AnchorTable:
    """The ``a`` elements of a page or a part of it, as columns.

    Attributes
    ----------
    elements
        The ``a`` elements, in document order.
    hrefs
        Their href attributes, None without one.
    targets
        Their absolute URLs; None for other schemes and malformed links.
    pages
        Their absolute URLs without fragment; also None for fragments of the page itself.
    texts
        Their texts, white space included.
    """

    elements: list[Element]
    hrefs: list[str | None]
    targets: list[str | None]
    pages: list[str | None]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.elements)

    def without(self, indexes: Sequence[int]) -> AnchorTable:
        """Return the table without the rows at `indexes`."""
        if not indexes:
            return self
        keep = bytearray(b"\x01") * len(self)
        for index in indexes:
            keep[index] = 0
        return AnchorTable(
            list(compress(self.elements, keep)),
            list(compress(self.hrefs, keep)),
            list(compress(self.targets, keep)),
            list(compress(self.pages, keep)),
            list(compress(self.texts, keep)),
        )


NO_ANCHORS: Final = AnchorTable([], [], [], [], [])


class Outlink(NamedTuple):
    """A page that this page links to.

    Attributes
    ----------
    url
        Absolute, in WHATWG form, without fragment.
    anchor
        The first nonempty link text with collapsed white space, at most 200 characters.
    nofollow
        Every link to this URL has ``rel=nofollow``.
    """

    url: str
    anchor: str
    nofollow: bool


class LinkResolver(dict[str | None, str | None]):
    """Maps the hrefs of a page to absolute URLs and caches them.

    A dictionary with ``__missing__``, so that repeated lookups stay in C. Links with other schemes
    (``mailto:``, ``javascript:``) and malformed links map to None. `pages` maps the resolved hrefs
    to URLs without fragment; fragments of the page itself map to None.

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
        self.base: str = base or canonical_url(final_url)
        self._joiner: UrlJoiner | None = None  # created by the first link that is not plain
        self[None] = None
        self[""] = self["#"] = self.base
        self.pages: dict[str | None, str | None] = {None: None, "": None, "#": None}
        origin = _ORIGIN.match(self.base)
        self._origin = origin[0] if origin is not None else ""
        self._folders = self.base.partition("?")[0][len(self._origin) :].split("/")[:-1]

    def __missing__(self, href: str | None) -> str | None:
        page, mark, fragment = (href or "").partition("#")
        if mark:
            absolute = self[page]
        elif _OTHER_SCHEME.match(page):
            absolute = None
        else:
            if self._joiner is None:
                self._joiner = UrlJoiner(self.base)
            absolute = self._joiner.join(page)
        self.pages[href] = absolute if page else None
        if absolute is not None and fragment:
            absolute = f"{absolute}#{_ENCODED_CHARACTERS.sub(_encode, fragment)}"
        self[href] = absolute
        return absolute

    def resolve_plain(self, hrefs: Iterable[str | None]) -> None:
        """Resolve the plain links of a batch; others are resolved when looked up."""
        unresolved = cast("set[str]", set(hrefs).difference(self))
        if max(map(len, unresolved), default=0) > _MAX_PLAIN_LENGTH:
            unresolved = {href for href in unresolved if len(href) <= _MAX_PLAIN_LENGTH}
        fragments_only = [href for href in unresolved if href[0] == "#"]
        with_path = list(unresolved.difference(fragments_only))
        parts = [href.partition("#") for href in with_path]
        resolved = self._join_plain({page for page, _, _ in parts})
        self.pages.update(resolved)
        self.update(
            zip(
                fragments_only,
                map(self.base.__add__, _encode_fragments(fragments_only)),
                strict=True,
            )
        )
        fragments = _encode_fragments([fragment for _, _, fragment in parts])
        for href, (page, mark, _), fragment in zip(with_path, parts, fragments, strict=True):
            if mark and page in resolved:
                self.pages[href] = absolute = resolved[page]
                resolved[href] = f"{absolute}#{fragment}" if fragment else absolute
        self.update(resolved)

    def _join_plain(self, pages: set[str]) -> dict[str, str]:
        """Return the absolute URLs of the plain links among `pages`."""
        urls: dict[str, str] = {}
        folders: dict[str, str] = {}
        for parents, relative, rooted, absolute in _PLAIN.findall(
            "\n{}\n".format("\n".join(pages))
        ):
            if relative:
                if parents not in folders:
                    kept = max(1, len(self._folders) - parents.count("/"))  # not above the root
                    folders[parents] = f"{self._origin}{'/'.join(self._folders[:kept])}/"
                urls[parents + relative] = folders[parents] + relative
            elif rooted:
                urls[rooted] = self._origin + rooted
            else:
                urls[absolute] = absolute
        return urls


def _encode_fragments(fragments: list[str]) -> list[str]:
    """Encode fragments like a browser; one check finds that most pages need no encoding."""
    if "".join(fragments).encode("ascii", "ignore").translate(None, _NOT_ENCODED_CHARACTERS):
        return [_ENCODED_CHARACTERS.sub(_encode, fragment) for fragment in fragments]
    return fragments


def _encode(character: re.Match[str]) -> str:
    return _PERCENT_ENCODED.get(character[0], "")


def read_anchors(
    elements: Iterable[Element], link_resolver: LinkResolver, also: Iterable[str | None] = ()
) -> AnchorTable:
    """Read the links of a page; `also` are URLs that will be looked up later."""
    anchors = list(elements)
    hrefs = [anchor.attr("href") for anchor in anchors]
    return _anchor_table(anchors, hrefs, link_resolver, also)


def read_page_links(document: Document, link_resolver: LinkResolver) -> AnchorTable:
    """Read all that leads from a page to others: also areas, frames of its site, and refreshes."""
    elements: list[Element] = []
    hrefs: list[str | None] = []
    origin = _ORIGIN.match(link_resolver.base)
    for element in document.iter_elements(("a", "area", "frame", "iframe", "meta")):
        href = element.attr(_LINK_ATTRIBUTES.get(element.tag, "href"))
        if element.tag == "meta":
            if (element.attr("http-equiv") or "").strip().lower() != "refresh":
                continue
            refresh = parse_refresh(element.attr("content") or "")
            href = None if refresh is None else refresh.url
        elif element.tag == "iframe":
            target = _ORIGIN.match(link_resolver[href] or "")
            if target is None or origin is None or target[0] != origin[0]:
                continue  # a part of another site, such as a video or an advertisement
        elements.append(element)
        hrefs.append(href)
    return _anchor_table(elements, hrefs, link_resolver)


def _anchor_table(
    anchors: list[Element],
    hrefs: list[str | None],
    link_resolver: LinkResolver,
    also: Iterable[str | None] = (),
) -> AnchorTable:
    link_resolver.resolve_plain([*hrefs, *also])
    targets = list(map(link_resolver.__getitem__, hrefs))
    pages = list(map(link_resolver.pages.get, hrefs))
    return AnchorTable(anchors, hrefs, targets, pages, [anchor.text for anchor in anchors])


_new_outlink: Final = partial(tuple.__new__, Outlink)  # Outlink(*fields), but in C


def collect_outlinks(anchors: AnchorTable) -> tuple[Outlink, ...]:
    """Collect the outlinks of a page, unique by URL, in document order."""
    outlinks: dict[str | None, tuple[str, str, bool]] = {}
    complete = True
    for url, link, text in zip(anchors.pages, anchors.elements, anchors.texts, strict=True):
        if url not in outlinks and url is not None:
            label = collapse_whitespace(text) or alternative_text(link)
            if len(label) > MAX_ANCHOR_TEXT_LENGTH:
                label = label[:MAX_ANCHOR_TEXT_LENGTH].rstrip()
            rel = link.attr("rel")
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            outlinks[url] = url, label, nofollow
            complete = complete and not nofollow and label != ""
    if not complete:
        # Later links complete those whose first link has no text or has nofollow.
        for url, link, text in zip(anchors.pages, anchors.elements, anchors.texts, strict=True):
            if url is not None:
                _, label, nofollow = outlinks[url]
                if nofollow or not label:
                    label = label or collapse_whitespace(text) or alternative_text(link)
                    label = label[:MAX_ANCHOR_TEXT_LENGTH].rstrip()
                    rel = link.attr("rel") if nofollow else None
                    nofollow = rel is not None and "nofollow" in rel.lower().split()
                    outlinks[url] = url, label, nofollow
    return tuple(map(_new_outlink, outlinks.values()))


def alternative_text(link: Element) -> str:
    """Return the alternative text of the image in a link or a heading without text."""
    image = link if link.tag == "area" else link.select_one("img[alt]")
    return collapse_whitespace((image.attr("alt") or "") if image is not None else "")


LAZY_ATTRIBUTES = (
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-url",
    "data-image",
)
SRCSET_ATTRIBUTES = ("srcset", "data-srcset", "data-lazy-srcset")
_SIDES: Final = ("width", "height")
_PIXELS: Final = frozenset({"0", "1", "2"})
_SPACE: Final = re.compile(r"\s")
_DENSITY_UNIT = 1e-3  # any width in pixels outranks any pixel density


def show_replaced_images(elements_by_tag: Mapping[str, list[Element]]) -> bool:
    """Show the images that scripts would put in place; return whether the tree changed.

    These are ``amp-img`` elements, and the images of a ``noscript``: it replaces the placeholder
    before it, or stands where its image would.
    """
    changed = False
    for image in elements_by_tag.get("amp-img", ()):
        image.clear()  # what browsers without AMP show
        image.tag = "img"
        changed = True
    for fallback in elements_by_tag.get("noscript", ()):
        images = fallback.select("img")
        if not images or fallback.text.strip():
            continue
        sides = ((image.attr(name) or "").strip() for image in images for name in _SIDES)
        if not _PIXELS.isdisjoint(sides):
            continue  # a tracking pixel
        if fallback.parent is None or fallback.closest("head") is not None:
            continue
        placeholder = None  # the image right before it, also the only one of an element there
        if (before := element_before(fallback)) is not None and not before.text.strip():
            beside = [before] if before.tag == "img" else before.select("img")
            placeholder = beside[0] if len(beside) == 1 else None
        if placeholder is None:
            fallback.unwrap()
        elif best_source(placeholder) is None:
            placeholder.replace_with(images[0].extract())
            fallback.decompose()
        else:
            continue  # the same image once more
        changed = True
    return changed


def best_source(image: Element) -> str | None:
    """Return the largest file of an ``img``, with lazy-loading, srcset and picture sources."""
    files = ((image.attr(name) or "").strip() for name in (*LAZY_ATTRIBUTES, "src"))
    candidates = [(_DENSITY_UNIT, file) for file in files if file and file[:5].lower() != "data:"]
    sources = [image]
    if isinstance(image.parent, Element) and image.parent.tag == "picture":
        sources += image.parent.select("source")
    for source in sources:
        for name in SRCSET_ATTRIBUTES:
            candidates += parse_srcset(source.attr(name) or "")
    largest = max(candidates, key=lambda candidate: candidate[0], default=None)
    return largest[1] if largest is not None else None


def parse_srcset(value: str) -> Iterator[tuple[float, str]]:
    """Parse a ``srcset`` into pairs of size and URL, without data URLs."""
    position = 0
    while position < len(value):
        if value[position].isspace() or value[position] == ",":
            position += 1
            continue
        space = _SPACE.search(value, position)
        end = len(value) if space is None else space.start()
        url = value[position:end].rstrip(",")
        comma = end if url != value[position:end] else value.find(",", end)
        descriptor = value[end:comma] if comma >= 0 else value[end:]
        position = comma if comma >= 0 else len(value)
        if url[:5].lower() != "data:":
            yield _size(descriptor.strip()), url


def _size(descriptor: str) -> float:
    number, unit = descriptor[:-1], descriptor[-1:]
    if unit == "w" and number.isascii() and number.isdecimal():
        return float(number[:9])
    try:
        return float(number) * _DENSITY_UNIT if unit == "x" else _DENSITY_UNIT
    except ValueError:
        return _DENSITY_UNIT


_PERMALINK_SIGNS = frozenset("¶#§🔗⚓∞")
_PERMALINK_PARENTS = frozenset({*HEADINGS, "dt", "caption", "p", "span", "figcaption"})
_OTHER_LINK_SCHEMES = ("mailto:", "tel:", "sms:", "ftp:", "geo:")


def find_permalinks(anchors: AnchorTable) -> list[int]:
    """Return the indexes of links whose only text is a sign such as "#" beside a heading."""
    return [
        index
        for index, text in enumerate(anchors.texts)
        if len(text) <= 1
        and (anchors.hrefs[index] or "")[:1] == "#"
        and isinstance(parent := (link := anchors.elements[index]).parent, Element)
        and parent.tag in _PERMALINK_PARENTS
        and (text in _PERMALINK_SIGNS or not (text.strip() or len(link)))
    ]


def make_links_absolute(anchors: AnchorTable) -> None:
    """Write absolute URLs into the tree; remove the href of links that cannot be opened."""
    columns = anchors.elements, anchors.hrefs, anchors.targets
    for link, href, target in zip(*columns, strict=True):
        if target is not None:
            if target != href:
                link.attrs["href"] = target
        elif href is not None and not href.lstrip()[:7].lower().startswith(_OTHER_LINK_SCHEMES):
            del link.attrs["href"]
