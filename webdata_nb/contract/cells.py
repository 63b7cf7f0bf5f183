"""Escapes CSV cells that spreadsheets would evaluate as formulas, and reverses it."""

from __future__ import annotations

import re
from typing import Final

ESCAPE: Final = "'"
# Spreadsheets find operators, also full-width ones, after blanks, quotes and invisible characters.
# A cell that begins with the escape character is escaped as well, so that it can be restored.
_FORMULA: Final = re.compile(
    r"""['\t\r\n]|[\s"\x00-\x1f\x7f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*"""
    r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
)


def escape_formula(text: str) -> str:
    """Escape text that a spreadsheet would evaluate; `unescape_formula` reverses it.

    Source: OWASP, "CSV Injection", and the cells of spreadsheets seen in practice.

    Examples
    --------
    >>> escape_formula("=1+1"), escape_formula("plain"), escape_formula("'quoted")
    ("'=1+1", 'plain', "''quoted")
    """
    return ESCAPE + text if _FORMULA.match(text) else text


def unescape_formula(cell: str) -> str:
    """Reverse `escape_formula`: remove a leading apostrophe.

    Examples
    --------
    >>> unescape_formula("'=1+1"), unescape_formula("plain"), unescape_formula("''quoted")
    ('=1+1', 'plain', "'quoted")
    """
    return cell.removeprefix(ESCAPE)
