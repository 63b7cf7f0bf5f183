"""Writes LaTeX between dollar signs, so that Markdown renderers with mathematics parse it."""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*(?:\n|\Z)")
_DELIMITERS: Final = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_DISPLAY_STYLE: Final = "{\\displaystyle"
_DOLLAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\$")
_BAR: Final = re.compile(r"\\\||\|")


def clean_latex(text: str) -> str:
    """Return LaTeX on one line, without comments, delimiters and an outer display style."""
    if "%" in text:
        text = _COMMENT.sub(r"\1", text)
    text = _without_delimiters(" ".join(text.split()))
    if text.startswith(_DISPLAY_STYLE) and text.endswith("}") and _is_one_group(text):
        text = text[len(_DISPLAY_STYLE) : -1].strip()
    if (len(text) - len(text.rstrip("\\"))) % 2:
        text += " {}"  # a control space, which would escape the closing sign
    return _with_paired_dollars(text) if "$" in text else text


def inline_formula(latex: str) -> str:
    """Write a formula within a line."""
    return f"${latex}$"


def display_formula(latex: str) -> str:
    """Write a formula of its own line; on one line, since "-" or "=" may not begin a line."""
    return f"$${latex}$$"


def without_bars(latex: str) -> str:
    """Replace "|", which ends the cell of a table."""
    return _BAR.sub(lambda bar: r"\vert " if bar[0] == "|" else r"\Vert ", latex).rstrip()


def _without_delimiters(text: str) -> str:
    for opening, closing in _DELIMITERS:
        size = len(opening)
        if text.startswith(opening) and text.endswith(closing) and len(text) > 2 * size:
            return text[size : -len(closing)].strip()
    return text


def _is_one_group(text: str) -> bool:
    """Return whether the first brace of a text closes at its end."""
    depth = 0
    escaped = False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return index == len(text) - 1
    return False


def _with_paired_dollars(text: str) -> str:
    r"""Write formulas within text, such as ``\text{if $x$}``, as ``\(x\)``."""
    parts = _DOLLAR.split(text)
    if len(parts) == 1:
        return text
    if len(parts) % 4 != 1:
        return _DOLLAR.sub(r"\1\\$", text)
    pieces = [parts[0]]
    for number in range(1, len(parts), 2):
        pieces += parts[number], r"\(" if number % 4 == 1 else r"\)", parts[number + 1]
    return "".join(pieces)
