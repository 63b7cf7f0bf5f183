"""Detects the character encoding of a body as browsers do, from its marks, headers and content."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import turbohtml
from turbohtml.detect import detect

if TYPE_CHECKING:
    from collections.abc import Iterator

CharsetSource = Literal["bom", "http", "meta", "detected", "default"]

_PRESCAN_BYTES: Final = 1024
_LATE_META_BYTES: Final = 64 * 1024
_MAX_LATE_METAS: Final = 20
_SAMPLE_BYTES: Final = 32 * 1024
_CONTEXT_BYTES: Final = 1024
_MAX_LABEL_CHARS: Final = 40
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_HTTP_CHARSET: Final = re.compile(r"(?i)(?:^|[;,\s])charset\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))")
_MARKUP: Final = re.compile(r"(?i)html|xml")
_NON_ASCII: Final = re.compile(rb"[\x80-\xff]")
# No legacy encoding has these bytes inside a character, so text may be cut before them.
_SAFE_CUTS: Final = (b"\n", b" ", b"<")
_MAX_CHARACTER_BYTES: Final = 4
_MULTIBYTE: Final = frozenset(("Big5", "EUC-JP", "EUC-KR", "GBK", "gb18030", "Shift_JIS"))

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
_UTF16_XML: Final = ((b"<\0?\0x\0", "UTF-16LE"), (b"\0<\0?\0x", "UTF-16BE"))


@dataclass(frozen=True, slots=True)
class Charset:
    """An encoding, and how it was determined.

    Attributes
    ----------
    name : str
        Its WHATWG name: ``UTF-8``, ``windows-1252``, ``Shift_JIS``.
    source : {"bom", "http", "meta", "detected", "default"}
        ``meta`` includes XML declarations.
    """

    name: str
    source: CharsetSource


def sniff_charset(body: bytes, content_type: str | None = None) -> Charset:
    """Detect the encoding of a body.

    Parameters
    ----------
    body : bytes
        The body without content codings.
    content_type : str, optional
        The Content-Type header. Declarations inside the body count only for HTML and XML.

    Returns
    -------
    Charset
        A body without any sign has windows-1252, as in browsers.

    Notes
    -----
    The order is that of the HTML standard ("encoding sniffing algorithm"), except that bytes which
    are valid UTF-8 and not only ASCII are UTF-8 whatever the document declares: text in another
    encoding is hardly ever valid UTF-8, and templates with a wrong declaration are common. A
    declaration beyond the first 1,024 bytes counts if a parser would obey it. Without one,
    character frequencies decide.

    Examples
    --------
    >>> sniff_charset(b"<meta charset=latin1>")
    Charset(name='windows-1252', source='meta')
    >>> sniff_charset("é".encode(), "text/html; charset=utf8")
    Charset(name='UTF-8', source='http')
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return Charset(name, "bom")
    if (by_http := _charset_from_http(content_type)) is not None:
        return Charset(by_http, "http")
    if _NON_ASCII.search(body) is not None and _is_utf8(body):
        return Charset("UTF-8", "detected")
    if content_type is None or _MARKUP.search(content_type):
        by_markup = _charset_from_declaration(body[:_PRESCAN_BYTES]) or _charset_from_late_meta(
            body
        )
        if by_markup is not None:
            return Charset(by_markup, "meta")
    return _charset_from_content(body)


def decode_text(body: bytes, charset: Charset) -> str:
    """Decode a body, without its byte order mark; malformed bytes become U+FFFD.

    Examples
    --------
    >>> decode_text(bytes([0x80, 0x35]), Charset("windows-1252", "default"))
    '€5'
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if name == charset.name and body.startswith(mark):
            body = body[len(mark) :]
    if charset.name == "UTF-8":
        return body.decode("utf-8", "replace")
    # Python's codecs of the same names differ from the standard. turbohtml registers the latter.
    return body.decode(f"whatwg-{charset.name.lower()}")


@lru_cache(maxsize=1024)
def encoding_for_label(label: str) -> str | None:
    """Return the WHATWG name of the encoding for a label; None for an unknown label.

    Examples
    --------
    >>> encoding_for_label("iso-8859-1"), encoding_for_label("sjis"), encoding_for_label("no-such")
    ('windows-1252', 'Shift_JIS', None)
    """
    if len(label) > _MAX_LABEL_CHARS:
        return None
    try:
        return turbohtml.parse(b"", encoding=label).encoding
    except (LookupError, ValueError):
        return None


def _charset_from_http(content_type: str | None) -> str | None:
    match = _HTTP_CHARSET.search(content_type) if content_type else None
    return encoding_for_label(match[1] if match[1] is not None else match[2]) if match else None


def _charset_from_declaration(head: bytes) -> str | None:
    if (utf16 := _utf16_from_xml(head)) is not None:
        return utf16
    name = next(filter(None, map(encoding_for_label, _declared_labels(head))), None)
    # A declaration that is readable as ASCII is not in UTF-16 (HTML standard, prescan).
    if name in {"UTF-16LE", "UTF-16BE"}:
        return "UTF-8"
    return "windows-1252" if name == "x-user-defined" else name


def _charset_from_late_meta(body: bytes) -> str | None:
    for start in islice(_late_meta_positions(body), _MAX_LATE_METAS):
        end = start + _PRESCAN_BYTES
        name = _charset_from_declaration(body[start:end])
        # The parser decides whether it is inside a comment or a script, where it does not count.
        if name is not None and turbohtml.parse(body[:end]).encoding == name:
            return name
    return None


def _late_meta_positions(body: bytes) -> Iterator[int]:
    late_head = body[_PRESCAN_BYTES:_LATE_META_BYTES].lower()
    position = late_head.find(b"<meta")
    while position >= 0:
        yield position + _PRESCAN_BYTES
        position = late_head.find(b"<meta", position + 1)


def _charset_from_content(body: bytes) -> Charset:
    first = _NON_ASCII.search(body)
    if first is None:
        return _charset_from_escapes(body)
    matches = [detect(sample) for sample in _samples(body, first.start())]
    match = next((match for match in matches if match.encoding in _MULTIBYTE), matches[0])
    if match.encoding is None or match.confidence == 0:
        return Charset("windows-1252", "default")
    return Charset(match.encoding, "detected")


def _charset_from_escapes(body: bytes) -> Charset:
    """Distinguish ISO-2022-JP, which uses only ASCII bytes, from plain ASCII."""
    if b"\x1b" in body[:_SAMPLE_BYTES]:
        name = detect(body[:_SAMPLE_BYTES]).encoding
        if name == "ISO-2022-JP":
            return Charset(name, "detected")
    return Charset("windows-1252", "default")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _samples(body: bytes, first_high: int) -> list[bytes]:
    """Return the samples for detection, which takes 0.1 s per megabyte.

    Half a character at the end of a sample would exclude its encoding. Without a safe place to
    cut there are several samples, one of which ends between two characters.
    """
    start = max(0, first_high - _CONTEXT_BYTES)
    end = start + _SAMPLE_BYTES
    if end >= len(body):
        return [body[start:]]
    cut_position = max(body.rfind(mark, first_high, end) for mark in _SAFE_CUTS)
    if cut_position > 0:
        return [body[start:cut_position]]
    return [body[start : end - cut] for cut in range(_MAX_CHARACTER_BYTES)]


def _utf16_from_xml(head: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark by its XML declaration."""
    return next((name for start, name in _UTF16_XML if head.startswith(start)), None)


def _declared_labels(head: bytes) -> Iterator[str]:
    """Yield the labels of `<meta>` elements in their order, then that of an XML declaration.

    This is the prescan of the HTML standard. A tag that is cut off at the end is ignored.
    """
    yield from _meta_labels(head)
    if (xml := _XML_ENCODING.match(head)) is not None:
        yield (xml[1] or xml[2] or b"").decode("latin-1")


def _meta_labels(head: bytes) -> Iterator[str]:
    position = head.find(b"<")
    while 0 <= position < len(head):
        if head.startswith(_COMMENT, position):
            close = head.find(b"-->", position + len(b"<!"))
            end = len(head) if close < 0 else close + len(b"-->")
        elif (meta := _META.match(head, position)) is not None:
            attributes, end = _attributes(head, meta.end())
            if (label := _label(attributes)) is not None:
                yield label.decode("latin-1")
        elif (tag := _TAG.match(head, position)) is not None:
            _, end = _attributes(head, tag.end())
        else:
            bogus = _BOGUS.match(head, position)
            end = position + 1 if bogus is None else bogus.end()
        position = head.find(b"<", end)


def _attributes(head: bytes, position: int) -> tuple[dict[bytes, bytes], int]:
    """Return a tag's attributes, the first of each name, and its end; a cut tag has none."""
    attributes: dict[bytes, bytes] = {}
    while (match := _ATTRIBUTE.match(head, position)) is not None:
        if match["end"]:
            return attributes, match.end()
        if match["open"]:
            break
        position = match.end()
        value = match["double"] or match["single"] or match["bare"] or b""
        attributes.setdefault(match["name"].lower(), value.lower())
    return {}, len(head)


def _label(attributes: dict[bytes, bytes]) -> bytes | None:
    if (charset := attributes.get(b"charset")) is not None:
        return charset
    if attributes.get(b"http-equiv") != b"content-type":
        return None
    match = _CONTENT_CHARSET.search(attributes.get(b"content", b""))
    return None if match is None else match[match.lastindex or 0]
