"""Escapes text, link destinations and titles for Markdown."""

from __future__ import annotations

import re
from typing import Final

BREAK: Final = "\x0b"
"""Placeholder of a hard line break in an unfinished paragraph; white space to Python."""

DOLLAR: Final = "\ufdd0"
"""Placeholder of a dollar sign in an unfinished text; no character."""

CODE_SPACE: Final = "\ufdd1"
"""Placeholder of a no-break space in a code block, where it is no space; no character."""

_SIGNS: Final = "\\`*_[]~"
# A "<" or "&" at the end of a text may begin a tag or an entity with the next text.
_TAG: Final = re.compile(r"<(?=[a-zA-Z/!?]|\Z)")
_ENTITY: Final = re.compile(r"&(?=#?[0-9a-zA-Z]{1,31};|\Z)")
# Signs of a heading, a list, a quotation, the underline of a heading, the second line of a table.
_BLOCK: Final = re.compile(
    r"(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|>|=+\s*$|-{2,}\s*$|[-:|][-:| ]*$)|\d{1,9}(?=[.)](?:\s|$))",
)
BLOCK_SIGNS: Final = frozenset("#-+>=:|0123456789")
"""The characters that may begin a block other than a paragraph."""
_BALANCED: Final = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*")


def escape(text: str) -> str:
    """Escape characters that Markdown would parse as inline markup."""
    # Most texts need no escapes; searching single characters is faster than a character class.
    if not (
        "_" in text
        or "*" in text
        or "[" in text
        or "]" in text
        or "<" in text
        or "&" in text
        or "`" in text
        or "\\" in text
        or "~" in text
        or "$" in text
    ):
        return text
    if "$" in text:
        text = text.replace("$", DOLLAR)
    for sign in _SIGNS:
        if sign in text:
            text = text.replace(sign, f"\\{sign}")
    if "<" in text:
        text = _TAG.sub(_with_backslash, text)
    return _ENTITY.sub(_with_backslash, text) if "&" in text else text


def resolve_dollars(markdown: str) -> str:
    """Write the dollar signs of text, escaped where a renderer with formulas would pair them.

    A formula does not extend over a blank line: a single dollar between two of them is only a sign.
    """
    if DOLLAR not in markdown:
        return markdown
    parts = markdown.split("\n\n")
    for index, part in enumerate(parts):
        if DOLLAR in part:
            is_single = part.count(DOLLAR) == 1 and "$" not in part
            parts[index] = part.replace(DOLLAR, "$" if is_single else "\\$")
    return "\n\n".join(parts)


def escape_block_sign(line: str) -> str:
    """Escape the start of a line that would begin a block other than a paragraph."""
    match = _BLOCK.match(line)
    return f"{match[0]}\\{line[match.end() :]}" if match is not None else line


def squeeze(text: str) -> str:
    """Fold each run of ASCII white space into one space and trim the ends."""
    if "\n" in text:
        text = text.replace("\n", " ")
    if "\t" in text:
        text = text.replace("\t", " ")
    if "  " in text and text.isascii():
        return " ".join(text.split())
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()


def destination(url: str) -> str:
    """Write the destination of a link."""
    if "\\" in url:
        url = url.replace("\\", "%5C")
    if "&" in url:
        url = _ENTITY.sub(_with_backslash, url)
    if ("(" in url or ")" in url) and _BALANCED.fullmatch(url) is None:
        url = url.replace("(", "\\(").replace(")", "\\)")
    if url.startswith("http"):
        return url  # absolute, so that it has no white space
    return squeeze(url).replace(" ", "%20").replace("<", "%3C").replace(">", "%3E")


def link_title(text: str) -> str:
    """Write the title of a link or picture, with the space before it; '' where there is none."""
    title = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    if "&" in title:
        title = _ENTITY.sub(_with_backslash, title)
    return f' "{title}"' if title else ""


def _with_backslash(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def code_span(text: str) -> str:
    """Write code within a line."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (longest_run(text) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
