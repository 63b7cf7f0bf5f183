"""A page's text as a few numbers, small enough to keep: equal texts give equal numbers.

A sketch holds the smallest hashes of the text's pairs of neighbouring words (a bottom-k sketch
after Broder, 1997): the share of hashes that two sketches have in common estimates the share of
pairs that the texts have in common. Only the start and the end of a long text are read.
"""

from __future__ import annotations

import re
from struct import pack
from typing import Final
from zlib import crc32

SKETCH_SIZE: Final = 48
_READ: Final = 2000  # characters from each end
_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_BARE_TARGET: Final = re.compile(r"https?://\S+")
_DIGIT: Final = re.compile(r"\d")
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
# With what the UTF-8 of digits beyond ASCII begins, and that of much else.
_OTHER_DIGITS: Final = tuple(bytes([lead]) for lead in b"\xd9\xdb\xdf\xe0\xe1\xea\xef\xf0")
_CALENDAR: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep"),
    *("Oct", "Nov", "Dec", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "Sunday",
)
_COUNTED: Final = {
    written.encode(): b"0" for name in _CALENDAR for written in (name, name.lower(), name.upper())
}


def sample_text(title: str | None, text: str) -> str:
    """Return what is read of a title and a text: their words, without where links lead.

    That differs from session to session.
    """
    return f"{title or ''}\n{_sample(text)}"


def text_sketch(sample: str) -> bytes:
    """Sketch what ``sampled`` gives: up to 48 hashes of 4 bytes, ascending.

    A text of less than two words has an empty sketch, which is like no other.
    """
    return _sketch(_words(sample))


def masked_sketch(sample: str) -> bytes:
    """Sketch what stays the same when a page only counts on: numbers, months, weekdays masked."""
    words = _masked(sample).split()
    return _sketch(list(map(_COUNTED.get, words, words)))


def _masked(text: str) -> bytes:
    """Write each number as 0; the marks within numbers go wherever they stand, which is quick."""
    written = text.encode("utf-8", "replace")
    if any(lead in written for lead in _OTHER_DIGITS):
        written = _DIGIT.sub("0", text).encode("utf-8", "replace")
    written = written.translate(_ZEROS, b"/.:,;-")
    while b"00" in written:
        written = written.replace(b"00", b"0")
    return written


def _sample(text: str) -> str:
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{text[-_READ:]}"
    text = _TARGET.sub("]", text)
    return _BARE_TARGET.sub("]", text) if "://" in text else text


def _words(text: str) -> list[bytes]:
    return text.encode("utf-8", "replace").split()


def _sketch(words: list[bytes]) -> bytes:
    # The hash of "one two" goes on from that of "one": no pair is ever written out.
    hashes = sorted(set(map(crc32, words[1:], map(crc32, words))))[:SKETCH_SIZE]
    return pack(f">{len(hashes)}I", *hashes)
