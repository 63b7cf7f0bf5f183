"""Detects the character encoding of a body as browsers do, from its marks, headers and content."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from functools import lru_cache
from typing import Final

import turbohtml
from turbohtml.detect import detect

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

_XML_ENCODING: Final = re.compile(
    rb"""<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*(?:"([^"'>]*)"|'([^"'>]*)')"""
)
_UTF16_XML: Final = ((b"<\0?\0x\0", "UTF-16LE"), (b"\0<\0?\0x", "UTF-16BE"))
# A declaration that is readable as ASCII is not in UTF-16 (HTML standard, prescan).
_MEANT: Final[dict[str | None, str]] = {
    **dict.fromkeys(("UTF-16LE", "UTF-16BE"), "UTF-8"),
    "x-user-defined": "windows-1252",
}
# Bytes as ASCII, and one more that no encoding explains: of these only a declaration is certain.
_TO_ASCII: Final = bytes(range(128)) + b"?" * 128
_UNCERTAIN: Final = b"\x80"


def sniff_charset(body: bytes, content_type: str | None = None) -> str:
    """Return the WHATWG name of the encoding of a body: ``UTF-8``, ``windows-1252``, ``Shift_JIS``.

    Parameters
    ----------
    body : bytes
        The body without content codings.
    content_type : str, optional
        The Content-Type header. Declarations inside the body count only for HTML and XML.

    Notes
    -----
    The order is that of the HTML standard ("encoding sniffing algorithm"), except that bytes which
    are valid UTF-8 and not only ASCII are UTF-8 whatever the document declares: text in another
    encoding is hardly ever valid UTF-8, and templates with a wrong declaration are common. A
    declaration beyond the first 1,024 bytes counts if a parser would obey it. Without one,
    character frequencies decide. A body without any sign is windows-1252, as in browsers.

    Examples
    --------
    >>> sniff_charset(b"<meta charset=latin1>")
    'windows-1252'
    >>> sniff_charset("é".encode(), "text/html; charset=utf8")
    'UTF-8'
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return name
    match = _HTTP_CHARSET.search(content_type) if content_type else None
    if match is not None:
        by_http = encoding_for_label(match[1] if match[1] is not None else match[2])
        if by_http is not None:
            return by_http
    if not body.isascii():
        with suppress(UnicodeDecodeError):
            body.decode("utf-8")
            return "UTF-8"
    if content_type is None or _MARKUP.search(content_type):
        if declared := _declared_charset(body):
            return declared
        late_head = body[_PRESCAN_BYTES:_LATE_META_BYTES].lower()
        position = -1
        for _ in range(_MAX_LATE_METAS):
            position = late_head.find(b"<meta", position + 1)
            if position < 0:
                break
            start = position + _PRESCAN_BYTES
            end = start + _PRESCAN_BYTES
            late = _declared_charset(body[start:end])
            # The parser decides whether it is in a comment or a script, where it does not count.
            if late is not None and turbohtml.parse(body[:end]).encoding == late:
                return late
    first = None if body.isascii() else _NON_ASCII.search(body)
    if first is None:
        # ISO-2022-JP uses only ASCII bytes.
        sample = body[:_SAMPLE_BYTES]
        is_japanese = b"\x1b" in sample and detect(sample).encoding == "ISO-2022-JP"
        return "ISO-2022-JP" if is_japanese else "windows-1252"
    matches = [detect(sample) for sample in _samples(body, first.start())]
    best = next((each for each in matches if each.encoding in _MULTIBYTE), matches[0])
    return best.encoding if best.encoding and best.confidence > 0 else "windows-1252"


def decode_text(body: bytes, charset: str) -> str:
    """Decode a body, without its byte order mark; malformed bytes become U+FFFD.

    Examples
    --------
    >>> decode_text(bytes([0x80, 0x35]), "windows-1252")
    '€5'
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if name == charset and body.startswith(mark):
            body = body[len(mark) :]
    if charset == "UTF-8":
        return body.decode("utf-8", "replace")
    # Python's codecs of the same names differ from the standard. turbohtml registers the latter.
    return body.decode(f"whatwg-{charset.lower()}")


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


def _declared_charset(body: bytes) -> str | None:
    """Return what the start of a body declares: by the parser's own prescan, or as XML does."""
    head = body[:_PRESCAN_BYTES]
    for start, name in _UTF16_XML:  # without a byte order mark
        if head.startswith(start):
            return name
    declared = detect(head.translate(_TO_ASCII) + _UNCERTAIN)
    if declared.confidence == 1:
        return declared.encoding
    if (xml := _XML_ENCODING.match(head)) is None:
        return None
    label = (xml[1] or xml[2] or b"").decode("latin-1")
    found = encoding_for_label(label)
    return _MEANT.get(found, found)


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
