"""Markdown without the traces of elements that held nothing: blank lines, empty items, headings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webdata_nb.service.markdown.edits import edited, outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.markdown.edits import Edit

_MARK = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)]|(#{1,6}))$")
_LAST = re.compile(r" *(?:[-*+]|\d{1,9}[.)]|#{1,6}) *$")
_NEXT = re.compile(r"[ \n]*\n( *)(?=[^ \n])")
# The writer spells out a wide or unbreakable space at the edge of a text. What a page says itself
# is told apart: its own "&" would have been escaped.
_SPACES = re.compile(r"(?:&#(?:160|819[2-9]|820[0-3]|823[29]|8287|12288);[ \xa0]*+){1,20}+")
_CLOSING = re.compile(r"(?:\*{1,3}|~~)(?=\s|$)")
_QUOTED = re.compile(r"[ >]*")
_BARE = re.compile(r"[ >]*(?:[-*+]|\d{1,9}[.)]|#{1,6})$")
_BEFORE = "-*+.)# \n\xa0"  # what a mark, or a blank line, may end with before its last space
_GAP = re.compile(r"\n+")


def tidy(markdown: str) -> str:
    """Take out empty headings and items, spelled-out spaces and repeated blank lines, save in code.

    An item whose first line is empty must not be followed by a blank one: a reader would end the
    item there.
    """
    # A character alone is found much faster than two.
    if "&" in markdown and (spaces := outside(markdown, list(_spaces(markdown)))):
        markdown = edited(markdown, spaces)
    # What an item or a heading without text leaves.
    if cuts := outside(markdown, [*_cuts(markdown), *_gaps(markdown)]):
        markdown = _without(markdown, sorted(cuts, key=lambda cut: (cut[0], -cut[1])))
    markdown = markdown.strip("\n")
    last = markdown.rfind("\n") + 1
    return markdown[:last].rstrip() if _LAST.match(markdown, last) else markdown


def _without(markdown: str, cuts: list[Edit]) -> str:
    """Take the cuts out; where one leaves blank lines beside others, those go too."""
    kept, tail, done = [], "\n\n", 0
    for start, end, _ in cuts:
        if start < done:
            continue
        kept.append(markdown[done:start])
        tail = (tail + kept[-1])[-2:]
        done = end
        if tail[-1] == "\n" and (gap := _GAP.match(markdown, done)):
            done = gap.end()
            if tail != "\n\n":
                kept.append("\n")
                tail = "\n\n"
    return "".join([*kept, markdown[done:]])


def _spaces(text: str) -> Iterator[Edit]:
    """Find spelled-out spaces, and how each is written as itself."""
    line, stop, quoted, coded, end = 0, -1, 0, False, 0
    while (at := text.find("&#", end)) >= 0:
        if at > stop:
            line = text.rfind("\n", 0, at) + 1
            stop = text.find("\n", at)
            stop = stop if stop >= 0 else len(text)
            coded = text.find("`", line, stop) >= 0
            marks = _QUOTED.match(text, line, stop)
            quoted = marks.end() if marks is not None else line
        run = _SPACES.match(text, at) if text[at - 1 : at] != "\\" else None
        end = run.end() if run is not None else at + 2
        if run is None:
            continue
        if end == stop:
            before = text[line:at].rstrip(" \xa0")
            begin = line + len(before)
            yield begin, end, _end(before, text[begin:end])
        elif at == quoted:
            yield at, end, "\xa0"
        elif not coded and (instead := _between(text, at, end)) is not None:
            yield at, end, instead


def _between(text: str, start: int, end: int) -> str | None:
    """Tell what to write for spaces between two characters of a line."""
    before, after = text[start - 1], text[end]
    if not before.isspace() and before not in "*_~\\" and _CLOSING.match(text, end):
        return ""
    # Beside a mark of emphasis they stay: a space there would end what the mark begins.
    return None if before in "*_~\\" or after in "*_~" else "\xa0"


def _end(line: str, spaces: str) -> str:
    """Return what stays of spaces at the end of a line: what is no text but markup."""
    if _BARE.match(line):
        return " "
    return "  " if line and spaces.endswith("  ") else ""


def _gaps(text: str) -> Iterator[Edit]:
    """Find the newlines beyond two, the last first."""
    at = len(text)
    while (at := text.rfind("\n\n\n", 0, at)) >= 0:
        end = at + 3
        while at and text[at - 1] == "\n":
            at -= 1
        yield at + 2, end, ""


def _cuts(text: str) -> Iterator[Edit]:
    """Find what to cut: the spaces of a blank line; for each that holds only a mark, the line.

    Where what the mark is for follows, the blank lines between go instead. The last come first, so
    that an item with none but empty items is known to be empty itself.
    """
    at, cut, after = len(text), -1, None
    while (at := text.rfind(" \n", 0, at)) >= 0:
        if at and text[at - 1] not in _BEFORE:
            continue  # words, which most such lines end with
        line = text.rfind("\n", 0, at) + 1
        bare = _MARK.match(text, line, at)
        if bare is None:
            if not text[line:at].strip(" \xa0"):
                yield line, at + 1, ""
            continue
        following = _NEXT.match(text, at + 1)
        if following is not None and following.start(1) == cut:
            following = after
        if bare[2] or following is None or len(following[1]) <= len(bare[1]):
            yield line, at + 2, ""
            cut, after = line, following
        else:
            yield at + 2, following.start(1), ""
