"""Markdown without the traces of elements that held nothing: blank lines, empty items, headings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)]|(#{1,6}))$")
_LAST = re.compile(r" *(?:[-*+]|\d{1,9}[.)]|#{1,6}) *$")
_NEXT = re.compile(r"[ \n]*\n( *)(?=[^ \n])")
# The writer spells out a wide or unbreakable space at the edge of a text. What a page says itself
# is told apart: its own "&" would have been escaped.
_SPACES = r"(?:(?<!\\)&#(?:160|819[2-9]|820[0-3]|823[29]|8287|12288);[ \xa0]*+){1,20}+"
_AT_THE_END = re.compile(rf"(?<![ \xa0])[ \xa0]*+{_SPACES}$", re.MULTILINE)
_AT_THE_START = re.compile(rf"^([ >]*){_SPACES}(?=\S)", re.MULTILINE)
# Beside a mark of emphasis it stays: a space there would end what the mark begins.
_WITHIN = re.compile(rf"(?<![*_~`\\]){_SPACES}(?![*_~`])")
_CLOSING = re.compile(rf"(?<=[^\s*_~\\]){_SPACES}(?=(?:\*{{1,3}}|~~)(?:\s|$))")
_BEFORE = "-*+.)# \n\xa0"  # what a mark, or a blank line, may end with before its last space
_BARE = re.compile(r"[ >]*(?:[-*+]|\d{1,9}[.)]|#{1,6})$")
_GAP = re.compile(r"\n+")
_FENCE = re.compile(r"[ >]*(`{3,})[^`\n]*$", re.MULTILINE)


def tidy(markdown: str) -> str:
    """Take out empty headings and items, spelled-out spaces and repeated blank lines, save in code.

    An item whose first line is empty must not be followed by a blank one: a reader would end the
    item there.
    """
    # What an item or a heading without text leaves, and the reference of a space (a character
    # alone is found much faster than two).
    if " \n" in markdown or "\n\n\n" in markdown or ("&" in markdown and "&#" in markdown):
        markdown = "".join(_tidied(markdown)).strip("\n")
    last = markdown.rfind("\n") + 1
    return markdown[:last].rstrip() if _LAST.match(markdown, last) else markdown


def _tidied(markdown: str) -> Iterator[str]:
    """Give the prose tidied and the code as it is."""
    done = 0
    for start, end in _code(markdown) if "```" in markdown else ():
        yield _tidy_prose(markdown[done:start])
        yield markdown[start:end]
        done = end
    yield _tidy_prose(markdown[done:])


def _code(markdown: str) -> Iterator[tuple[int, int]]:
    """Find the fenced blocks: where the line of each fence starts and where its last one ends."""
    at, opening, start = 0, 0, 0
    while (at := markdown.find("```", at)) >= 0:
        line = markdown.rfind("\n", 0, at) + 1
        fence = _FENCE.match(markdown, line)
        ticks = len(fence[1]) if fence else 0
        if not opening and ticks:
            opening, start = ticks, line
        elif opening and ticks >= opening and fence and fence[0].endswith("`"):
            yield start, fence.end()
            opening = 0
        at = fence.end() if fence else at + 3


def _tidy_prose(text: str) -> str:
    if "&" in text and "&#" in text:
        text = _AT_THE_START.sub("\\1\xa0", _AT_THE_END.sub(_end, text))
        text = "\n".join(map(_spaced, text.split("\n")))
    cuts = list(_cuts(text))
    if cuts:
        ends = [0, *(end for _, end in cuts)]
        starts = [*(start for start, _ in cuts), len(text)]
        text = "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    return _closed(text)


def _closed(text: str) -> str:
    """Leave one blank line where there are several; to look for them is quicker than to replace."""
    at = text.find("\n\n\n")
    if at < 0:
        return text
    kept, done = [], 0
    while at >= 0:
        kept.append(text[done : at + 2])
        gap = _GAP.match(text, at)
        done = gap.end() if gap is not None else len(text)
        at = text.find("\n\n\n", done)
    return "".join([*kept, text[done:]])


def _spaced(line: str) -> str:
    """Write the spaces of a line as themselves, save where it holds code, which may mean them."""
    if "&#" not in line or "`" in line:
        return line
    return _WITHIN.sub("\xa0", _CLOSING.sub("", line))


def _end(found: re.Match[str]) -> str:
    """Return what stays of spaces at the end of a line: what is no text but markup."""
    line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    if _BARE.match(line):
        return " "
    return "  " if line and found[0].endswith("  ") else ""


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Find what to cut: the spaces of a blank line; for each that holds only a mark, the line.

    Where what the mark is for follows, the blank lines between go instead.
    """
    at = -1
    while (at := text.find(" \n", at + 1)) >= 0:
        if at and text[at - 1] not in _BEFORE:
            continue  # words, which most such lines end with
        line = text.rfind("\n", 0, at) + 1
        bare = _MARK.match(text, line, at)
        if bare is None:
            if not text[line:at].strip(" \xa0"):
                yield line, at + 1
            continue
        following = _NEXT.match(text, at + 1)
        if bare[2] or following is None or len(following[1]) <= len(bare[1]):
            yield line, at + 2
        else:
            yield at + 2, following.start(1)
