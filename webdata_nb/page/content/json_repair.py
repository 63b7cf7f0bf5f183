"""Repairs slightly broken JSON: comments, superfluous commas, escapes and entities."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

MAX_LENGTH: Final = 500_000
"""Characters of a text that is repaired; longer ones are left as they are."""

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
# An unclosed comment ends with the text, so that no character is read twice.
_COMMENT: Final = r"/\*(?:.*?\*/|.*\Z)|//[^\n]*|<!--|-->"
_STRING_OR_COMMENT: Final = re.compile(f"({_STRING})|{_COMMENT}", re.DOTALL)
_STRING_OR_COMMAS: Final = re.compile(rf"({_STRING})|,[\s,]*", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufeff\u2028\u2029]")


def repair_json(text: str) -> str | None:
    """Return a text with what JSON does not allow removed; None if the text is too long.

    Examples
    --------
    >>> repair_json('{"a": [1, 2,], /* note */ "b": 3,}')
    '{"a": [1, 2], "b": 3}'
    """
    if len(text) > MAX_LENGTH:
        return None
    if "&quot;" in text and text.count('"') < text.count("&quot;"):
        text = unescape(text)
    text = _CONTROL.sub(" ", text)
    text = _STRING_OR_COMMENT.sub(_fix_string, text)
    return _STRING_OR_COMMAS.sub(_fix_commas, text).strip()


def _fix_string(match: re.Match[str]) -> str:
    string = match[1]
    if string is None:
        return ""
    return _BAD_ESCAPE.sub(lambda escape: escape[2] or escape[0], string)


def _fix_commas(match: re.Match[str]) -> str:
    """Return a string as it is, one comma for several, and none before a closing bracket."""
    is_last = match.string[match.end() : match.end() + 1] in {"}", "]", ""}
    return match[1] or ("" if is_last else ", ")
