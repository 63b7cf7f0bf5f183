"""Parses dictionaries of structured fields (RFC 9651, 4.2.2), in linear time. Pure.

The values are checked for their syntax; only tokens are returned, because no signal has others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_CHARACTERS: Final = 16 * 1024
_KEY: Final = re.compile(r"[a-z*][a-z0-9_.*-]*")
_TOKEN: Final = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")
_DISPLAY: Final = re.compile(r'%"((?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*)"')
_OTHER_ITEM: Final = re.compile(
    r"-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.])|-?[0-9]{1,15}(?![0-9.])"  # decimal, integer
    r'|"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'  # string
    r"|:[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}(?![0-9.])"  # byte sequence, boolean, date
)
_SPACES: Final = re.compile(r" *")
_WHITE_SPACE: Final = re.compile(r"[ \t]*")


class _MalformedFieldError(ValueError):
    """The text is no dictionary."""


def parse_dictionary(text: str) -> dict[str, str | None] | None:
    """Return the members of a dictionary: tokens as text, all other values as None.

    Returns None where the text is no dictionary: a field that is malformed anywhere has no
    members at all. Of members with one key the last counts.

    Examples
    --------
    >>> parse_dictionary("train-ai=n, search=y;q=1")
    {'train-ai': 'n', 'search': 'y'}
    >>> parse_dictionary("train-ai=n, train-ai")
    {'train-ai': None}
    >>> parse_dictionary("Train-AI=n") is None
    True
    """
    if len(text) > MAX_CHARACTERS or not text.isascii():
        return None
    try:
        return dict(_Scanner(text.strip(" ")).members())
    except _MalformedFieldError:
        return None


class _Scanner:
    """Reads one dictionary from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def members(self) -> Iterator[tuple[str, str | None]]:
        """Yield keys and values; raises `_MalformedFieldError`."""
        while self._at < len(self._text):
            key = self._take(_KEY)
            value = self._member() if self._skip("=") else None
            self._parameters()
            yield key, value
            self._take(_WHITE_SPACE)
            if self._at < len(self._text):
                self._require(",")
                self._take(_WHITE_SPACE)
                if self._at == len(self._text):
                    raise _MalformedFieldError

    def _member(self) -> str | None:
        if not self._skip("("):
            return self._item()
        while True:
            self._take(_SPACES)
            if self._skip(")"):
                return None
            self._item()
            self._parameters()
            if self._text[self._at : self._at + 1] not in {" ", ")"}:
                raise _MalformedFieldError

    def _item(self) -> str | None:
        if token := _TOKEN.match(self._text, self._at):
            self._at = token.end()
            return token[0]
        if display := _DISPLAY.match(self._text, self._at):
            self._at = display.end()
            try:
                unquote_to_bytes(display[1]).decode()
            except UnicodeDecodeError:
                raise _MalformedFieldError from None
            return None
        self._take(_OTHER_ITEM)
        return None

    def _parameters(self) -> None:
        while self._skip(";"):
            self._take(_SPACES)
            self._take(_KEY)
            if self._skip("="):
                self._item()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _MalformedFieldError
        self._at = match.end()
        return match[0]

    def _skip(self, character: str) -> bool:
        found = self._text.startswith(character, self._at)
        self._at += found
        return found

    def _require(self, character: str) -> None:
        if not self._skip(character):
            raise _MalformedFieldError
