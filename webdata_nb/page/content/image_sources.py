"""Selects the file of a picture among src, srcset and lazy-loading attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.content.parser import Element, element_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LAZY_ATTRIBUTES = (
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-url",
    "data-image",
)
SRCSET_ATTRIBUTES = ("srcset", "data-srcset", "data-lazy-srcset")
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
        if not images or fallback.text.strip() or any(map(_is_tracking_pixel, images)):
            continue
        if fallback.parent is None or fallback.closest("head") is not None:
            continue
        placeholder = _image_before(fallback)
        if placeholder is None:
            fallback.unwrap()
        elif best_source(placeholder) is None:
            placeholder.replace_with(images[0].extract())
            fallback.decompose()
        else:
            continue  # the same image once more
        changed = True
    return changed


def _is_tracking_pixel(image: Element) -> bool:
    return any((image.attr(name) or "").strip() in {"0", "1", "2"} for name in ("width", "height"))


def _image_before(fallback: Element) -> Element | None:
    """Return the image right before a ``noscript``, also the only one of an element there."""
    before = element_before(fallback)
    if before is None:
        return None
    images = [before] if before.tag == "img" else before.select("img")
    return images[0] if len(images) == 1 and not before.text.strip() else None


def best_source(image: Element) -> str | None:
    """Return the largest file of an ``img``, with lazy-loading, srcset and picture sources."""
    largest = max(_candidates(image), key=lambda candidate: candidate[0], default=None)
    return largest[1] if largest is not None else None


def _candidates(image: Element) -> Iterator[tuple[float, str]]:
    for file in _files(image, (*LAZY_ATTRIBUTES, "src")):
        yield _DENSITY_UNIT, file
    sources = [image]
    if isinstance(image.parent, Element) and image.parent.tag == "picture":
        sources += image.parent.select("source")
    for source in sources:
        for name in SRCSET_ATTRIBUTES:
            yield from parse_srcset(source.attr(name) or "")


def _files(image: Element, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = (image.attr(name) or "").strip()
        if value and value[:5].lower() != "data:":
            yield value


def parse_srcset(value: str) -> Iterator[tuple[float, str]]:
    """Parse a ``srcset`` into pairs of size and URL, without data URLs."""
    position = 0
    while position < len(value):
        if value[position].isspace() or value[position] == ",":
            position += 1
            continue
        end = next((i for i in range(position, len(value)) if value[i].isspace()), len(value))
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
