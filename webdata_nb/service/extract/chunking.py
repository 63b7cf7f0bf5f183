"""A long page in pieces that a model can take: cut at headings where that is possible. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# A tokenizer per model is out of reach. Three bytes of UTF-8 a token is more tokens than most
# languages need, and never less than Chinese or Thai does.
BYTES_PER_TOKEN: Final = 3
_CUTS: Final = (
    re.compile(r"(?m)^(?=#{1,6} )"),
    re.compile(r"(?<=\n\n)"),
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<= )"),
)
_MAX_CHARACTER_BYTES: Final = 4


def tokens(text: str) -> int:
    """Return about how many tokens a text has; rather too many than too few."""
    return -(-_size(text) // BYTES_PER_TOKEN)


def split(text: str, budget: int) -> list[str]:
    r"""Cut a text into pieces of at most `budget` tokens, as few as its joints allow.

    Nothing is lost or changed: the pieces joined are the text.

    Examples
    --------
    >>> split("# One\nfirst\n# Two\nsecond\n", 5)
    ['# One\nfirst\n', '# Two\nsecond\n']
    """
    return _split(text, max(1, budget) * BYTES_PER_TOKEN, 0) if text else []


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _split(text: str, most: int, level: int) -> list[str]:
    if _size(text) <= most:
        return [text]
    if level == len(_CUTS):
        step = max(1, most // _MAX_CHARACTER_BYTES)
        return [text[at : at + step] for at in range(0, len(text), step)]
    pieces: list[str] = []
    room = 0
    for part in _parts(text, most, level):
        size = _size(part)
        if size <= room:
            pieces[-1] += part
            room -= size
        else:
            pieces.append(part)
            room = most - size
    return pieces


def _parts(text: str, most: int, level: int) -> Iterator[str]:
    """Yield the parts between the joints of a level, those too large cut at finer ones."""
    for part in _CUTS[level].split(text):
        yield from _split(part, most, level + 1) if part else ()
