"""Emphasis that the writer gives up on, written by CommonMark's own rule.

The writer falls back to HTML tags where it is not sure that ``*`` would be read as emphasis; one
such place next to a character beyond ASCII makes it use tags in the rest of the page too. Here each
place is decided by itself, by the characters beside it: a mark where it is read as such, plain text
elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARKS: Final = {"strong": "**", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_DEEPEST: Final = 16  # elements within elements
_LINE_END: Final = ("", "\n")
_NAMES: Final = "|".join(_MARKS)
_GIVEN_UP: Final = re.compile(rf"</(?:{_NAMES})>")
# All up to a tag, what is escaped and code as it mostly is included; then the tag, with what it
# holds where that is text alone, or what may begin other code. It is matched, never searched for.
_TOKEN: Final = re.compile(
    rf"(?:[^`<\\]++|\\[\s\S]?|`[^`\n]++`(?!`)|<(?!/?(?:{_NAMES})>))*+"
    rf"(?:(`++)|(<)(?:({_NAMES})>(?:((?:\\.|[^\\<>`\n])++)</\3>)?|/({_NAMES})>))"
)

_Edit: TypeAlias = tuple[int, int, str]  # from, to, and what to write instead
_Tag: TypeAlias = tuple[int, int, str, str]  # from, to, the slash of a closing tag, name


def mark_emphasis(markdown: str) -> str:
    """Write marks in the place of the tags that the writer left, save in code."""
    # A character alone is found much faster than two, and most pages have none.
    if "<" not in markdown or _GIVEN_UP.search(markdown) is None:
        return markdown
    edits: list[_Edit] = []
    tags = list(_tags(markdown, edits))
    if tags:
        edits += _nested(markdown, tags, [(start, end) for start, end, _ in edits])
        edits.sort()
    written, done = [], 0
    for start, end, instead in edits:
        written += markdown[done:start], instead
        done = end
    return "".join([*written, markdown[done:]])


def _tags(text: str, edits: list[_Edit]) -> Iterator[_Tag]:
    """Find the tags of emphasis that are markup: in no code, and not escaped.

    Those around text alone, and in nothing else, are written at once: as `edits`.
    """
    end = depth = 0
    unclosed: set[str] = set()  # what did not end further up does not further down
    while found := _TOKEN.match(text, end):
        start, end = found.start(2), found.end()
        ticks, _, name, inner, closing = found.groups()
        if inner:
            stands = None if depth else _stands(text, start, inner, end)
            if stands is not None:
                mark = _MARKS[name] if stands else ""
                edits.append((start, end, f"{mark}{inner}{mark}"))
            else:
                end_tag = end - len(name) - 3
                yield start, end_tag - len(inner), "", name
                yield end_tag, end, "/", name
        elif name:
            depth += 1
            yield start, end, "", name
        elif closing:
            depth -= 1
            yield start, end, "/", closing
        elif ticks not in unclosed:
            code = _code_end(text, end, ticks)
            end = code or end
            if not code:
                unclosed.add(ticks)


def _stands(text: str, start: int, inner: str, end: int) -> bool | None:
    """Tell whether marks around text are read as such; None where more than a look is needed."""
    first, last = inner[0], inner[-1]
    if first.isspace() or last.isspace():
        return None
    if first.isalnum() and last.isalnum():
        return True
    before, after = text[start - 1 : start], text[end : end + 1]
    if before == ">" or after == "<":
        return None
    return _opens(before, first) and _opens(after, last)


def _nested(text: str, tags: list[_Tag], done: list[tuple[int, int]]) -> Iterator[_Edit]:
    """Write the marks of all others; `done` are the elements beside them that have theirs."""
    edges = _Edges(text, tags, done)
    for opening, closing, new in _pairs(tags):
        start, end = opening[1], closing[0]
        if not new:
            yield opening[0], start, ""
            yield end, closing[1], ""
            continue
        inner = text[start:end]
        before, after = inner[: -len(inner.lstrip())], inner[len(inner.rstrip()) :]
        first, last = start + len(before), end - len(after)
        stands = _opens(
            before[-1:] or edges.left(opening[0], outward=True), edges.right(first)
        ) and _opens(after[:1] or edges.right(closing[1], outward=True), edges.left(last))
        mark = _MARKS[opening[3]] if stands and "\n\n" not in inner else ""
        after = "" if text[closing[1] : closing[1] + 1] in _LINE_END else after
        yield opening[0], first, before + mark
        yield last, closing[1], mark + after


def _code_end(text: str, at: int, ticks: str) -> int:
    """Return where code ends that so many backticks began; 0 where it does not."""
    while (at := text.find(ticks, at)) >= 0:
        end = at + len(ticks)
        if text[end : end + 1] != "`":
            return end
        while text[end : end + 1] == "`":
            end += 1
        at = end
    return 0


def _pairs(tags: list[_Tag]) -> Iterator[tuple[_Tag, _Tag, bool]]:
    """Give each element's tags, and whether it says something that none around it says."""
    opened: list[_Tag] = []
    marks = Counter[str]()
    for tag in tags:
        _, _, slash, name = tag
        if not slash:
            opened.append(tag)
            marks[_MARKS[name]] += 1
        elif opened and opened[-1][3] == name:
            marks[_MARKS[name]] -= 1
            yield opened.pop(), tag, len(opened) < _DEEPEST and not marks[_MARKS[name]]


class _Edges:
    """The characters beside a place in a text, tags of emphasis passed over."""

    def __init__(self, text: str, tags: Iterable[_Tag], done: list[tuple[int, int]]) -> None:
        self._text = text
        self._starting = {start: (end, slash) for start, end, slash, _ in tags}
        self._ending = {end: (start, slash) for start, end, slash, _ in tags}
        for start, end in done:
            self._starting[start] = start, ""
            self._ending[end] = end, "/"

    def left(self, at: int, *, outward: bool = False) -> str:
        """Return the character before a place, '' at the start; a mark where emphasis ends."""
        for _ in range(_DEEPEST):
            tag = self._ending.get(at)
            if tag is None:
                break
            if outward and tag[1]:
                return "*"
            at = tag[0]
        return self._text[at - 1 : at]

    def right(self, at: int, *, outward: bool = False) -> str:
        """Return the character behind a place, '' at the end; a mark where emphasis begins."""
        for _ in range(_DEEPEST):
            tag = self._starting.get(at)
            if tag is None:
                break
            if outward and not tag[1]:
                return "*"
            at = tag[0]
        return self._text[at : at + 1]


def _opens(outer: str, inner: str) -> bool:
    """Tell whether a mark between these characters is read as emphasis (CommonMark 6.2)."""
    if not inner or inner.isspace():
        return False
    if not outer or outer.isspace() or inner.isalnum():
        return True
    return not _is_punctuation(inner) or (_is_punctuation(outer) and outer not in "*_~")


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
