"""Makes text printable: safe on a terminal, and readable in whatever encoding a stream has."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
import unicodedata
from typing import Final, TextIO

_WITHOUT_WIDTH: Final = frozenset({"Mn", "Me", "Cf"})
_READABLE: Final = "webdata_readable"
# Those of our own output that have no decomposition into ASCII.
_LOOKALIKES: Final = str.maketrans(
    {
        "→": "->", "←": "<-", "·": "-", "•": "*", "–": "-", "—": "-", "✓": "+", "✗": "x",
        "■": "#", "█": "#", "‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "€": "EUR",
        "ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
    }
)  # fmt: skip


def printable_line(value: object) -> str:
    """Return the value as one line of text without control characters."""
    text = "".join(char if char.isprintable() else " " for char in str(value))
    return text.strip()


def display_width(text: str) -> int:
    """Return the columns that a text takes in a terminal; wide characters take two.

    Examples
    --------
    >>> display_width("moss"), display_width("苔庭")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
        if unicodedata.category(char) not in _WITHOUT_WIDTH
    )


def isolated(text: str) -> str:
    """Return a text whose direction changes nothing around it, also on a terminal."""
    is_rtl = any(unicodedata.bidirectional(char) in {"R", "AL", "AN"} for char in text)
    return f"\u2068{text}\u2069" if is_rtl else text


def encodable(text: str, stream: TextIO | None = None) -> str:
    """Return the text with what the encoding of a stream lacks replaced by something readable.

    The stream is standard output by default.
    """
    encoding = _encoding(sys.stdout if stream is None else stream)
    return text.encode(encoding, _READABLE).decode(encoding)


def encodable_json(text: str) -> str:
    """Return JSON of the same meaning that standard output can encode."""
    try:
        text.encode(_encoding(sys.stdout))
    except UnicodeEncodeError:
        return re.sub(r"[^\x00-\x7f]", lambda char: json.dumps(char[0])[1:-1], text)
    return text


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; it may be missing or closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def make_streams_tolerant() -> None:
    """Let standard output and error print every character, in a process of our own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_READABLE)


def _encoding(stream: TextIO | None) -> str:
    encoding = getattr(stream, "encoding", None)
    try:
        return codecs.lookup(encoding).name if isinstance(encoding, str) else "utf-8"
    except LookupError:
        return "utf-8"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_LOOKALIKES)
    replacement = "".join(
        "".join(part for part in unicodedata.normalize("NFKD", char) if part.isascii()) or "?"
        for char in text
        if not unicodedata.combining(char)
    )
    return replacement, error.end


codecs.register_error(_READABLE, _replace)
