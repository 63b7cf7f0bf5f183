"""Splits a page's text into chunks that fit a model's context, at headings where possible. Pure."""

from __future__ import annotations

import re
from typing import Final

# Every model has its own tokenizer. Three bytes of UTF-8 per token overestimates the tokens of
# most languages, and never underestimates those of Chinese or Thai.
BYTES_PER_TOKEN: Final = 3
_SEPARATORS: Final = (
    re.compile(r"(?m)^(?=#{1,6} )"),
    re.compile(r"(?<=\n\n)"),
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<= )"),
)
_MAX_CHARACTER_BYTES: Final = 4


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text, rather too many than too few."""
    return -(-_byte_count(text) // BYTES_PER_TOKEN)


def split_chunks(text: str, max_tokens: int) -> list[str]:
    r"""Split a text into the fewest chunks of at most `max_tokens` that its separators allow.

    The joined chunks are the text.

    Examples
    --------
    >>> split_chunks("# One\nfirst\n# Two\nsecond\n", 5)
    ['# One\nfirst\n', '# Two\nsecond\n']
    """
    return _split(text, max(1, max_tokens) * BYTES_PER_TOKEN, 0) if text else []


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _split(text: str, max_bytes: int, level: int) -> list[str]:
    """Split at the separators of a level, and parts that are still too large at finer ones."""
    if _byte_count(text) <= max_bytes:
        return [text]
    if level == len(_SEPARATORS):
        step = max(1, max_bytes // _MAX_CHARACTER_BYTES)
        return [text[start : start + step] for start in range(0, len(text), step)]
    parts = (
        part
        for section in _SEPARATORS[level].split(text)
        if section
        for part in _split(section, max_bytes, level + 1)
    )
    chunks: list[str] = []
    free_bytes = 0
    for part in parts:
        size = _byte_count(part)
        if size <= free_bytes:
            chunks[-1] += part
            free_bytes -= size
        else:
            chunks.append(part)
            free_bytes = max_bytes - size
    return chunks
