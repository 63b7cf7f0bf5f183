"""The text of a stored row that is indexed: its Markdown without markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from webdata_nb.service.store.records import IndexedPage, UnindexedRow

# Characters that one regex call scans: it holds the interpreter's lock meanwhile.
PIECE_CHARS: Final = 64 * 1024
# Markup is noise in a snippet: images, link targets, emphasis, fences, tables. No alternative scans
# far without finding its end, so that a megabyte of brackets takes no longer than prose.
_MARKS: Final = re.compile(
    r"""
      \\ (?P<escaped> [!-/:-@\[-`{-~] )        # an escaped character
    | ^[^\S\n]* (?: `{3,} | ~{3,} ) [^`\n]*$    # a fence, with the language of its code
    | !?\[ (?= [^\[\]\n]* \]\( )               # before the text of a link or an image
    | \[ (?= !\[ )                             # before an image that is a link
    | \]\( [^()\n]* \)                        # the target behind it
    | ^[^\S\n]* (?: (?: \#{1,6} | [>*+-] | \d{1,9}\. ) [^\S\n]+ )+   # heading, quote, item
    | ^-{3,}[^\S\n]*$                          # rule
    | (?P<stars> (?<! \* ) \*++ )              # emphasis, which our writer never marks with _
    | [`|~]+
    """,
    re.MULTILINE | re.VERBOSE,
)


def origin_of(url: str) -> str:
    """Return scheme, host and port of a canonical URL.

    Examples
    --------
    >>> origin_of("https://a.test:8080/b?c")
    'https://a.test:8080'
    """
    return "/".join(url.split("/", 3)[:3])


def indexed_page(row: UnindexedRow) -> IndexedPage | None:
    """Return what is indexed of a row; None if it has no page or no text."""
    text = row.journal.get("text") if row.markdown is None else strip_markdown(row.markdown)
    if not row.success or not text:
        return None
    return IndexedPage(row.url, row.title or "", text)


def strip_markdown(markdown: str) -> str:
    """Return the text of Markdown without its markup."""
    return "".join(_MARKS.sub(_text_of_mark, piece) for piece in _pieces(markdown))


def _text_of_mark(mark: re.Match[str]) -> str:
    """Return an escaped character, and stars within a word; nothing for markup."""
    if mark["stars"]:
        text, start, end = mark.string, mark.start(), mark.end()
        is_inside = text[max(0, start - 1) : start].isalnum() and text[end : end + 1].isalnum()
        return mark["stars"] if is_inside else ""
    return mark["escaped"] or ""


def _pieces(text: str) -> Iterator[str]:
    """Split a text into pieces at line ends, else at spaces."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        piece_end = text.rfind("\n", start, end) + 1 or text.rfind(" ", start, end) + 1 or end
        yield text[start:piece_end]
        start = piece_end
    yield text[start:]
