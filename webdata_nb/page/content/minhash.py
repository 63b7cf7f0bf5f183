"""Computes bottom-k MinHash sketches of page texts, for near-duplicate detection.

A sketch holds the smallest hashes of pairs of neighbouring words (Broder, 1997). The share of
common hashes of two sketches estimates the share of common pairs. Only the start and the end of
a long text are hashed.
"""

from __future__ import annotations

import re
from struct import pack
from typing import Final
from zlib import crc32

SKETCH_SIZE: Final = 48
_SAMPLE_LENGTH: Final = 2000  # characters from each end
_LINK_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_BARE_URL: Final = re.compile(r"https?://\S+")
_DIGIT: Final = re.compile(r"\d")
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
# First bytes of the UTF-8 of digits outside ASCII, and of other characters.
_OTHER_DIGIT_LEADS: Final = tuple(bytes([lead]) for lead in b"\xd9\xdb\xdf\xe0\xe1\xea\xef\xf0")
_CALENDAR_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep"),
    *("Oct", "Nov", "Dec", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "Sunday",
)
_MASKED_NAMES: Final = {
    variant.encode(): b"0"
    for name in _CALENDAR_NAMES
    for variant in (name, name.lower(), name.upper())
}


def sample_text(title: str | None, text: str) -> str:
    """Return the title and the hashed part of a text, without link targets.

    Link targets may contain session identifiers.
    """
    return f"{title or ''}\n{_shorten(text)}"


def compute_sketch(sample: str) -> bytes:
    """Return up to 48 hashes of 4 bytes, ascending.

    A text of less than two words has an empty sketch, which is similar to none.
    """
    return _bottom_k(sample.encode("utf-8", "replace").split())


def compute_masked_sketch(sample: str) -> bytes:
    """Sketch a text with masked numbers, months and weekdays, to detect calendar pages."""
    words = _mask_numbers(sample).split()
    return _bottom_k(list(map(_MASKED_NAMES.get, words, words)))


def _mask_numbers(text: str) -> bytes:
    """Write each number as 0 and drop all number separators, which is faster than a regex."""
    data = text.encode("utf-8", "replace")
    if any(lead in data for lead in _OTHER_DIGIT_LEADS):
        data = _DIGIT.sub("0", text).encode("utf-8", "replace")
    data = data.translate(_ZEROS, b"/.:,;-")
    while b"00" in data:
        data = data.replace(b"00", b"0")
    return data


def _shorten(text: str) -> str:
    if len(text) > 2 * _SAMPLE_LENGTH:
        text = f"{text[:_SAMPLE_LENGTH]}\n{text[-_SAMPLE_LENGTH:]}"
    text = _LINK_TARGET.sub("]", text)
    return _BARE_URL.sub("]", text) if "://" in text else text


def _bottom_k(words: list[bytes]) -> bytes:
    # crc32 continues the hash of a word with the next word, without joining the strings.
    hashes = sorted(set(map(crc32, words[1:], map(crc32, words))))[:SKETCH_SIZE]
    return pack(f">{len(hashes)}I", *hashes)
