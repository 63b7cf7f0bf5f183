"""The `images` format, and which of the files offered for a picture is its largest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.parser import Element, collapse, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.content.content import Content
    from webdata_nb.service.content.parsed_page import Reading

CAPTION_LIMIT = 1000
"""Characters of a caption that are kept."""

_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url", "data-image")
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_DENSITY_UNIT = 1e-3  # any width in pixels outranks any pixel density


def images(reading: Reading, content: Content) -> list[dict[str, Any]]:
    """List the pictures of the content in order, each file once.

    Each row has `url` (absolute, the largest file offered), `alt`, `width` and `height` (CSS
    pixels, as declared) and `caption`; what the page does not say is None. Pictures inlined as
    ``data:`` are left out.
    """
    rows: dict[str, dict[str, Any]] = {}
    for image in content.element.select("img"):
        source = best_source(image)
        url = reading.links[source] if source is not None else None
        if url is not None and url not in rows:
            rows[url] = {
                "url": url,
                "alt": collapse(image.attr("alt") or "") or None,
                "width": _pixels(image.attr("width")),
                "height": _pixels(image.attr("height")),
                "caption": _caption(image),
            }
    return list(rows.values())


def best_source(image: Element) -> str | None:
    """Return the largest file offered for an ``img``: lazy, srcset and picture sources included."""
    best = max(_offers(image), key=lambda offer: offer[0], default=None)
    return best[1] if best is not None else None


def plain_source(image: Element) -> str | None:
    """Return the file an ``img`` shows without scripts, or the one a script would put there."""
    return next(_files(image, ("src", *_LAZY)), None) or best_source(image)


def _offers(image: Element) -> Iterator[tuple[float, str]]:
    for file in _files(image, (*_LAZY, "src")):
        yield _DENSITY_UNIT, file
    sources = [image]
    if isinstance(image.parent, Element) and image.parent.tag == "picture":
        sources += image.parent.select("source")
    for source in sources:
        for name in _SETS:
            yield from parse_srcset(source.attr(name) or "")


def _files(image: Element, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = (image.attr(name) or "").strip()
        if value and value[:5].lower() != "data:":
            yield value


def parse_srcset(value: str) -> Iterator[tuple[float, str]]:
    """Read a ``srcset`` as size and URL pairs; its inlined pictures are left out."""
    at = 0
    while at < len(value):
        if value[at].isspace() or value[at] == ",":
            at += 1
            continue
        end = next((i for i in range(at, len(value)) if value[i].isspace()), len(value))
        url = value[at:end].rstrip(",")
        comma = end if url != value[at:end] else value.find(",", end)
        descriptor = value[end:comma] if comma >= 0 else value[end:]
        at = comma if comma >= 0 else len(value)
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


def _pixels(value: str | None) -> int | None:
    digits = (value or "").strip().lower().removesuffix("px")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 6 else None  # noqa: PLR2004 - no picture is a million pixels wide


def _caption(image: Element) -> str | None:
    figure = image.closest("figure")
    caption = figure.select_one("figcaption") if figure is not None else None
    return text_of(caption)[:CAPTION_LIMIT] or None if caption is not None else None
