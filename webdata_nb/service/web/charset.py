"""Which character encoding a body has, in the order browsers look: mark, HTTP, markup, content."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import turbohtml
from turbohtml.detect import detect

from webdata_nb.service.web.prescan import declared_labels, wide_encoding

if TYPE_CHECKING:
    from collections.abc import Iterator

CharsetSource = Literal["bom", "http", "meta", "detected", "default"]

_PRESCAN_BYTES: Final = 1024
_LATE_BYTES: Final = 64 * 1024
_MAX_LATE_METAS: Final = 20
_SAMPLE_BYTES: Final = 32 * 1024
_CONTEXT_BYTES: Final = 1024
_MAX_LABEL_CHARS: Final = 40
_MARKS: Final = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_HTTP_CHARSET: Final = re.compile(r"(?i)(?:^|[;,\s])charset\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))")
_MARKUP: Final = re.compile(r"(?i)html|xml")
_HIGH: Final = re.compile(rb"[\x80-\xff]")
# Text may be cut before these: no legacy encoding has them inside a character.
_CUT_AT: Final = (b"\n", b" ", b"<")
_LONGEST_CHARACTER: Final = 4
_WIDE: Final = frozenset(("Big5", "EUC-JP", "EUC-KR", "GBK", "gb18030", "Shift_JIS"))


@dataclass(frozen=True, slots=True)
class Charset:
    """An encoding by its WHATWG name, and what said so.

    Attributes
    ----------
    name : str
        As the Encoding standard writes it: ``UTF-8``, ``windows-1252``, ``Shift_JIS``.
    source : {"bom", "http", "meta", "detected", "default"}
        ``meta`` stands for an XML declaration too.
    """

    name: str
    source: CharsetSource


def sniff_charset(body: bytes, content_type: str | None = None) -> Charset:
    """Find a body's encoding.

    Parameters
    ----------
    body : bytes
        Decoded of its content codings.
    content_type : str, optional
        The Content-Type header. One that names neither HTML nor XML rules out declarations
        inside the body.

    Returns
    -------
    Charset
        Never none: a body that gives no sign has windows-1252, as browsers have it.

    Notes
    -----
    The order is the HTML standard's ("encoding sniffing algorithm"). A declaration beyond the
    first 1,024 bytes counts where a parser would obey it. Undeclared bytes are UTF-8 when they
    are valid UTF-8, and otherwise what their character frequencies suggest.

    Examples
    --------
    >>> sniff_charset(b"<meta charset=latin1>")
    Charset(name='windows-1252', source='meta')
    >>> sniff_charset("é".encode(), "text/html; charset=utf8")
    Charset(name='UTF-8', source='http')
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return Charset(name, "bom")
    if (by_http := _http_charset(content_type)) is not None:
        return Charset(by_http, "http")
    if content_type is None or _MARKUP.search(content_type):
        by_markup = _declared(body[:_PRESCAN_BYTES]) or _declared_late(body)
        if by_markup is not None:
            return Charset(by_markup, "meta")
    return _by_content(body)


def decode_text(body: bytes, charset: Charset) -> str:
    """Decode a body, without its byte order mark; malformed bytes become U+FFFD.

    Examples
    --------
    >>> decode_text(bytes([0x80, 0x35]), Charset("windows-1252", "default"))
    '€5'
    """
    for mark, name in _MARKS:
        if name == charset.name and body.startswith(mark):
            body = body[len(mark) :]
    if charset.name == "UTF-8":
        return body.decode("utf-8", "replace")
    # Python's codecs of the same names differ from the standard's; turbohtml registers the latter.
    return body.decode(f"whatwg-{charset.name.lower()}")


@lru_cache(maxsize=1024)
def encoding_for_label(label: str) -> str | None:
    """Give the WHATWG name of the encoding that a label stands for.

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


def _http_charset(content_type: str | None) -> str | None:
    found = _HTTP_CHARSET.search(content_type) if content_type else None
    return encoding_for_label(found[1] if found[1] is not None else found[2]) if found else None


def _declared(head: bytes) -> str | None:
    if (wide := wide_encoding(head)) is not None:
        return wide
    name = next(filter(None, map(encoding_for_label, declared_labels(head))), None)
    # Whoever could read the declaration as ASCII is not reading UTF-16 (HTML standard, prescan).
    if name in {"UTF-16LE", "UTF-16BE"}:
        return "UTF-8"
    return "windows-1252" if name == "x-user-defined" else name


def _declared_late(body: bytes) -> str | None:
    for start in islice(_late_metas(body), _MAX_LATE_METAS):
        end = start + _PRESCAN_BYTES
        name = _declared(body[start:end])
        # In a comment or a script it declares nothing: the parser has the last word.
        if name is not None and turbohtml.parse(body[:end]).encoding == name:
            return name
    return None


def _late_metas(body: bytes) -> Iterator[int]:
    late = body[_PRESCAN_BYTES:_LATE_BYTES].lower()
    place = late.find(b"<meta")
    while place >= 0:
        yield place + _PRESCAN_BYTES
        place = late.find(b"<meta", place + 1)


def _by_content(body: bytes) -> Charset:
    first = _HIGH.search(body)
    if first is None:
        return _by_escapes(body)
    if _is_utf8(body):
        return Charset("UTF-8", "detected")
    answers = [detect(sample) for sample in _samples(body, first.start())]
    match = next((one for one in answers if one.encoding in _WIDE), answers[0])
    if match.encoding is None or match.confidence == 0:
        return Charset("windows-1252", "default")
    return Charset(match.encoding, "detected")


def _by_escapes(body: bytes) -> Charset:
    """Tell ISO-2022-JP, whose Japanese is written in ASCII bytes, from plain ASCII."""
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
    """Cut out what detection reads: it takes 0.1 s a megabyte, and the first text tells most.

    Half a character at the end would rule its encoding out. Where no ASCII shows a safe place to
    cut, there are several samples, and one of them ends between two characters.
    """
    start = max(0, first_high - _CONTEXT_BYTES)
    end = start + _SAMPLE_BYTES
    if end >= len(body):
        return [body[start:]]
    cut = max(body.rfind(mark, first_high, end) for mark in _CUT_AT)
    if cut > 0:
        return [body[start:cut]]
    return [body[start : end - back] for back in range(_LONGEST_CHARACTER)]
