"""The HTML standard's prescan: what the first bytes of a page declare its encoding to be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT: Final = b"<!--"
_META: Final = re.compile(rb"(?i)<meta(?=[\t\n\f\r /])")
_TAG: Final = re.compile(rb"</?[A-Za-z][^\t\n\f\r >]*")
_BOGUS: Final = re.compile(rb"<[!/?][^>]*>?")
_ATTRIBUTE: Final = re.compile(
    rb"""
    [\t\n\f\r\x20/]*
    (?: (?P<end>>)
      | (?P<name>=?[^\t\n\f\r\x20/=>]+|=)
        (?: [\t\n\f\r\x20]* = [\t\n\f\r\x20]*
            (?: "(?P<double>[^"]*)"
              | '(?P<single>[^']*)'
              | (?P<open>["'])
              | (?P<bare>[^\t\n\f\r\x20>]*)
            )
        )?
    )
    """,
    re.VERBOSE,
)
_CONTENT_CHARSET: Final = re.compile(
    rb"""(?ix) charset [\t\n\f\r\x20]* = [\t\n\f\r\x20]*
    (?: "([^"]*)" | '([^']*)' | ([^\t\n\f\r\x20;"'][^\t\n\f\r\x20;]*) )"""
)
_XML_ENCODING: Final = re.compile(
    rb"""<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*(?:"([^"'>]*)"|'([^"'>]*)')"""
)
_WIDE_XML: Final = ((b"<\0?\0x\0", "UTF-16LE"), (b"\0<\0?\0x", "UTF-16BE"))


def wide_encoding(head: bytes) -> str | None:
    """Tell UTF-16 without a mark by its XML declaration."""
    return next((name for start, name in _WIDE_XML if head.startswith(start)), None)


def declared_labels(head: bytes) -> Iterator[str]:
    """Give the labels that `<meta>` elements declare, in their order, then an XML declaration's.

    Parameters
    ----------
    head : bytes
        The first bytes of the page; the standard asks for 1,024. What is cut off at its end
        declares nothing.
    """
    yield from _meta_labels(head)
    if (xml := _XML_ENCODING.match(head)) is not None:
        yield (xml[1] or xml[2] or b"").decode("latin-1")


def _meta_labels(head: bytes) -> Iterator[str]:
    place = head.find(b"<")
    while 0 <= place < len(head):
        if head.startswith(_COMMENT, place):
            close = head.find(b"-->", place + len(b"<!"))
            after = len(head) if close < 0 else close + len(b"-->")
        elif (meta := _META.match(head, place)) is not None:
            attributes, after = _attributes(head, meta.end())
            if (label := _label(attributes)) is not None:
                yield label.decode("latin-1")
        elif (tag := _TAG.match(head, place)) is not None:
            _, after = _attributes(head, tag.end())
        else:
            bogus = _BOGUS.match(head, place)
            after = place + 1 if bogus is None else bogus.end()
        place = head.find(b"<", after)


def _attributes(head: bytes, place: int) -> tuple[dict[bytes, bytes], int]:
    """Read a tag's attributes, the first of each name, and where it ends; a cut tag has none."""
    attributes: dict[bytes, bytes] = {}
    while (found := _ATTRIBUTE.match(head, place)) is not None:
        if found["end"]:
            return attributes, found.end()
        if found["open"]:
            break
        place = found.end()
        value = found["double"] or found["single"] or found["bare"] or b""
        attributes.setdefault(found["name"].lower(), value.lower())
    return {}, len(head)


def _label(attributes: dict[bytes, bytes]) -> bytes | None:
    if (charset := attributes.get(b"charset")) is not None:
        return charset
    if attributes.get(b"http-equiv") != b"content-type":
        return None
    found = _CONTENT_CHARSET.search(attributes.get(b"content", b""))
    return None if found is None else found[found.lastindex or 0]
