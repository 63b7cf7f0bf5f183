"""Emphasis that the writer gives up on, written by CommonMark's own rule.

The writer falls back to HTML tags where it is not sure that ``*`` would be read as emphasis; one
such place next to a character beyond ASCII makes it use tags in the rest of the page too. Here each
place is decided by itself, by the characters beside it: a mark where it is read as such, plain text
elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from webdata_nb.service.markdown.edits import edited, fenced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.service.markdown.edits import Edit

_MARKS: Final = {"strong": "**", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_SAME: Final = {
    name: [each for each in _MARKS if _MARKS[each] == mark] for name, mark in _MARKS.items()
}
_OWN_NAMES: Final = {"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del"}
_MARK: Final = "."  # another mark is punctuation to a mark
_SAME_MARK: Final = "*"
_JOINING: Final = frozenset("*_~")  # a mark beside these would be read as one with them
_ODD: Final = _JOINING | {"<", ">"}  # beside a mark, these need more than a look
_LINE_END: Final = ("", "\n")
_DEEPEST: Final = 16  # elements within elements

_NAMES: Final = "|".join(_MARKS)
_GIVEN_UP: Final = re.compile(rf"</(?:{_NAMES})>")
_OWN_MARK: Final = r"(?:\*\*?|__?|~~)"
_OWN: Final = re.compile(rf"{_OWN_MARK}(?![*_~])")
_OWN_LAST: Final = re.compile(rf"(?<![*_~]){_OWN_MARK}$")
_TARGET: Final = r'\((?:[^()"\\\n]++|\\.|"(?:\\.|[^"\\\n])*+"|\([^()"\\\n]*+\)){0,40}+\)'
# All up to a tag, what is escaped, where links lead and most code included; then the tag, with
# what it holds where that is text alone, or what may begin other code. It is matched, never
# searched for.
_TOKEN: Final = re.compile(
    rf"(?:[^`<\\\]]++|\\[\s\S]?|\](?:{_TARGET})?|`[^`\n]++`(?!`)|<(?!/?(?:{_NAMES})>))*+"
    rf"(?:(`++)|(<)(?:({_NAMES})>(?:((?:\\.|[^\\<>`\]\n])++)</\3>)?|/({_NAMES})>))"
)
_HIDDEN: Final = re.compile(rf"\\.|(?P<ticks>(?<!`)`++)|\]{_TARGET}")
_LISTED: Final = re.compile(r"^.*<[uo]l>.*$", re.MULTILINE)

_Tag: TypeAlias = tuple[int, int, str, str]  # from, to, the slash of a closing tag, name


def mark_emphasis(markdown: str) -> str:
    """Write marks in the place of the tags that the writer left, save in code."""
    # A character alone is found much faster than two, and most pages have none.
    if "<" not in markdown or _GIVEN_UP.search(markdown) is None:
        return markdown
    text = markdown
    if "<ul>" in text or "<ol>" in text:
        # The writer leaves lists in cells as HTML, and their backticks as they are: no code.
        text = _LISTED.sub(lambda line: line[0].replace("`", "'"), text)
    edits: list[Edit] = []
    code = _Code(text)
    tags = list(_tags(markdown, text, code, edits))
    if tags:
        edits += _nested(text, _OwnMarks(text, code), tags)
        edits.sort()
    return edited(markdown, edits)


class _Code:
    """The code of a text: fenced blocks, and what stands between backticks on one line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._blocks = fenced(text)
        self._runs: defaultdict[int, list[int]] | None = None

    def end(self, start: int, ticks: int) -> int:
        """Return where the code ends that so many backticks begin; 0 where they begin none."""
        at = bisect_left(self._blocks, (start + 1, 0)) - 1
        if at >= 0 and start < self._blocks[at][1]:
            return self._blocks[at][1]
        if self._runs is None:
            self._runs = defaultdict(list)
            for found in re.finditer("`++", self._text):
                self._runs[found.end() - found.start()].append(found.start())
        same = self._runs[ticks]
        at = bisect_left(same, start + ticks)
        if at == len(same) or self._text.find("\n", start, same[at]) >= 0:
            return 0
        return same[at] + ticks


def _tags(markdown: str, text: str, code: _Code, edits: list[Edit]) -> Iterator[_Tag]:
    """Find the tags of emphasis that are markup: in no code, and not escaped.

    Those around text alone, and beside no other, are written at once: as `edits` of `markdown`,
    which differs from `text` only in what is no code.
    """
    end = depth = 0
    while found := _TOKEN.match(text, end):
        start, end = found.start(2), found.end()
        ticks, _, name, inner, closing = found.groups()
        if inner:
            last = end - len(name) - 3
            first = last - len(inner)
            stands = None if depth else _stands(text, start, inner, end)
            if stands is not None:
                mark = _MARKS[name] if stands else ""
                edits.append((start, end, f"{mark}{markdown[first:last]}{mark}"))
            else:
                yield start, first, "", name
                yield last, end, "/", name
        elif name:
            depth += 1
            yield start, end, "", name
        elif closing:
            depth -= 1
            yield start, end, "/", closing
        else:
            end = code.end(found.start(1), len(ticks)) or end


def _stands(text: str, start: int, inner: str, end: int) -> bool | None:
    """Tell whether marks around text are read as such; None where more than a look is needed."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if not _ODD.isdisjoint((before, after, inner[0], inner[-1])):
        return None
    if inner[0].isspace() or inner[-1].isspace():
        return None
    return _opens(before, inner[0]) and _opens(after, inner[-1])


def _nested(text: str, writers: _OwnMarks, tags: list[_Tag]) -> Iterator[Edit]:
    """Write the marks of all others; one that follows another of its kind continues it."""
    own = {each for tag in tags for pair in writers.beside(tag) for each in pair}
    kept: list[_Tag] = []
    for tag in sorted(own.union(tags)):
        if not tag[2] and kept and kept[-1][1:] == (tag[0], "/", tag[3]):
            yield kept.pop()[0], tag[1], ""
        else:
            kept.append(tag)
    edges = _Edges(text, kept)
    for opening, closing, new in _pairs(kept):
        start, end, mark = opening[1], closing[0], _MARKS[opening[3]]
        if not new:
            yield opening[0], start, ""
            yield end, closing[1], ""
            continue
        inner = text[start:end]
        before, after = inner[: -len(inner.lstrip())], inner[len(inner.rstrip()) :]
        first, last = start + len(before), end - len(after)
        left = before[-1:] or edges.left(opening[0], mark, outward=True)
        right = after[:1] or edges.right(closing[1], mark)
        stands = _opens(left, edges.right(first, mark)) and _opens(right, edges.left(last, mark))
        if stands and "\n\n" not in inner:
            edges.marked |= {opening[0], closing[1]}
        else:
            mark = ""
        after = "" if text[closing[1] : closing[1] + 1] in _LINE_END else after
        yield opening[0], first, before + mark
        yield last, closing[1], mark + after


class _OwnMarks:
    """The marks that the writer wrote itself: they were written for the tags beside them.

    Where a tag gives way, what stood beside it may be read no more. So an element of these marks
    that touches a tag is decided anew, like those of tags.
    """

    def __init__(self, text: str, code: _Code) -> None:
        self._text, self._code = text, code
        self._start, self._end = 0, -1
        self._line = ""
        self._places: dict[str, list[int]] = {}

    def beside(self, tag: _Tag) -> Iterator[tuple[_Tag, _Tag]]:
        """Give the elements of such marks that end where a tag starts, or start where it ends."""
        start, end, _, _ = tag
        line = self._of_line(start) if self._touches(start, end) else ""
        here = start - self._start
        if before := _OWN_LAST.search(line[max(0, here - 3) : here]):
            places = self._of(before[0])
            at = bisect_left(places, start - len(before[0]))
            if at % 2 and places[at : at + 1] == [start - len(before[0])]:
                yield self._pair(before[0], places[at - 1], places[at])
        if after := _OWN.match(line, end - self._start):
            places = self._of(after[0])
            at = bisect_left(places, end)
            if at % 2 == 0 and len(places) > at + 1 and places[at] == end:
                yield self._pair(after[0], places[at], places[at + 1])

    def _touches(self, start: int, end: int) -> bool:
        return not _JOINING.isdisjoint((self._text[start - 1 : start], self._text[end : end + 1]))

    def _of_line(self, at: int) -> str:
        """Return the line of a place, NUL for each character of it that is no mark."""
        if not self._start <= at <= self._end:
            self._start = self._text.rfind("\n", 0, at) + 1
            end = self._text.find("\n", at)
            self._end = end if end >= 0 else len(self._text)
            self._line = self._hidden(self._start, self._end)
            self._places = {}
        return self._line

    def _hidden(self, at: int, stop: int) -> str:
        written: list[str] = []
        while found := _HIDDEN.search(self._text, at, stop):
            start, end = found.span()
            if found["ticks"]:
                end = self._code.end(start, end - start) or end
            written += self._text[at:start], "\0" * (end - start)
            at = end
        return "".join([*written, self._text[at:stop]])

    def _of(self, mark: str) -> list[int]:
        if mark not in self._places:
            # Not what marks an item: an emphasis begins with what it holds.
            found = re.finditer(rf"(?<![*_~]){re.escape(mark)}(?![*_~])(?!(?<=^\*) )", self._line)
            self._places[mark] = [each.start() + self._start for each in found]
        return self._places[mark]

    @staticmethod
    def _pair(mark: str, first: int, last: int) -> tuple[_Tag, _Tag]:
        name = _OWN_NAMES[mark]
        return (first, first + len(mark), "", name), (last, last + len(mark), "/", name)


def _pairs(tags: list[_Tag]) -> Iterator[tuple[_Tag, _Tag, bool]]:
    """Give each element's tags, and whether it says something that none around it says."""
    opened: list[_Tag] = []
    names = Counter[str]()
    for tag in tags:
        _, _, slash, name = tag
        if not slash:
            opened.append(tag)
            names[name] += 1
        elif names[name]:
            while True:  # one that never ends is no markup
                opening = opened.pop()
                names[opening[3]] -= 1
                if opening[3] == name:
                    break
            yield opening, tag, len(opened) < _DEEPEST and not any(map(names.get, _SAME[name]))


class _Edges:
    """The characters beside a place in a text, as they are once marks are written.

    Of two elements side by side with the same mark the second has none: a reader would take the
    end of the one and the start of the other for one mark.

    Attributes
    ----------
    marked
        Where elements begin and end that have marks, of those decided so far.
    """

    def __init__(self, text: str, tags: Iterable[_Tag]) -> None:
        self._text = text
        self.marked: set[int] = set()
        self._starting = {start: (end, _MARKS[name]) for start, end, _, name in tags}
        self._ending = {end: (start, _MARKS[name]) for start, end, _, name in tags}

    def left(self, at: int, mark: str, *, outward: bool = False) -> str:
        """Return the character before a place, '' at the start; any mark stands for its kind."""
        for _ in range(_DEEPEST):
            start, other = self._ending.get(at, (at, mark))
            if start == at:
                break
            if at in self.marked and (outward or other[0] != mark[0]):
                return _MARK if other[0] != mark[0] else _SAME_MARK
            at = start
        return self._text[at - 1 : at]

    def right(self, at: int, mark: str) -> str:
        """Return the character behind a place, '' at the end."""
        for _ in range(_DEEPEST):
            end, other = self._starting.get(at, (at, mark))
            if end == at:
                break
            if at in self.marked and other[0] != mark[0]:
                return _MARK
            at = end
        return self._text[at : at + 1]


def _opens(outer: str, inner: str) -> bool:
    """Tell whether a mark between these characters is read as emphasis (CommonMark 6.2)."""
    if not inner or inner.isspace() or outer in _JOINING:
        return False
    if not outer or outer.isspace() or inner.isalnum():
        return True
    return not _is_punctuation(inner) or _is_punctuation(outer)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
