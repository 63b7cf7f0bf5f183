"""Finds what a page declares about the use of its content: meta tags, licence links, licences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta

if TYPE_CHECKING:
    from webdata_nb.page.content.parsed_page import ParsedPage

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
    found = dict.fromkeys((*_metas(page), *_inline_licenses(page), *_license_links(page)))
    if len(found) <= MAX_DECLARATIONS:
        return tuple(found)
    return (*islice(found, MAX_DECLARATIONS - 1), _UNREAD)


def _metas(page: ParsedPage) -> Iterator[PageDeclaration]:
    for element in page.elements_by_tag.get("meta", ()):
        name = (element.attr("name") or element.attr("property") or "").strip().lower()
        content = element.attr("content") or ""
        if name in _META_NAMES or (name and any(word in content.lower() for word in _WORDS)):
            yield PageDeclaration(
                "meta", name[:MAX_VALUE_CHARACTERS], content[:MAX_VALUE_CHARACTERS]
            )


def _license_links(page: ParsedPage) -> Iterator[PageDeclaration]:
    """Yield the links with `rel=license`, those to RSL licences first."""
    links = [
        PageDeclaration("link", url, _media_type(element.attr("type")))
        for tag in ("link", "a", "area")
        for element in page.elements_by_tag.get(tag, ())
        if "license" in (element.attr("rel") or "").lower().split()
        and (url := page.link_resolver[element.attr("href")])
    ]
    links.sort(key=lambda link: link.value != _RSL)
    yield from links[:MAX_LICENSE_LINKS]
    if any(link.value == _RSL for link in links[MAX_LICENSE_LINKS:]):
        yield _UNREAD


def _inline_licenses(page: ParsedPage) -> Iterator[PageDeclaration]:
    room = MAX_RSL_CHARACTERS
    for element in page.elements_by_tag.get("script", ()):
        if _media_type(element.attr("type")) == _RSL:
            text = element.text[:room]
            room -= len(text)
            yield PageDeclaration("rsl", "", text)


def _media_type(text: str | None) -> str:
    return (text or "").partition(";")[0].strip().lower()[:MAX_VALUE_CHARACTERS]
