"""CSV cells that no spreadsheet takes for a formula, and the way back."""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "'"
# A spreadsheet looks for its operators, full-width ones too, behind blanks, quotes and characters
# that nobody sees. A cell that begins with the mark gets another, or the way back would lose it.
_RISKY: Final = re.compile(
    r"""['\t\r\n]|[\s"\x00-\x1f\x7f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*"""
    r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
)


def escape_formula(text: str) -> str:
    """Return a cell that shows `text` and computes nothing; `unescape_formula` gives `text` back.

    Source: OWASP, "CSV Injection", and the cells of spreadsheets seen in practice.

    Examples
    --------
    >>> escape_formula("=1+1"), escape_formula("plain"), escape_formula("'quoted")
    ("'=1+1", 'plain', "''quoted")
    """
    return MARK + text if _RISKY.match(text) else text


def unescape_formula(cell: str) -> str:
    """Undo `escape_formula`: a cell that begins with an apostrophe loses that one.

    Examples
    --------
    >>> unescape_formula("'=1+1"), unescape_formula("plain"), unescape_formula("''quoted")
    ('=1+1', 'plain', "'quoted")
    """
    return cell.removeprefix(MARK)
