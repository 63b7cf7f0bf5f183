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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARKS: Final = {"strong": "**", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_DEEPEST: Final = 16  # elements within elements
_LINE_END: Final = ("", "\n")
_NAMES: Final = "|".join(_MARKS)
_GIVEN_UP: Final = re.compile(rf"</(?:{_NAMES})>")
# Words by themselves are read as emphasis whatever stands beside them.
_WORDS: Final = r"[^\W_](?:[^<>`\\\n]*[^\W_])?"
_TOKEN: Final = re.compile(rf"\\[\\<`]|(`+)|<({_NAMES})>(?:({_WORDS})</\2>)?|</({_NAMES})>")


_Edit: TypeAlias = tuple[int, int, str]  # from, to, and what to write instead


class _Tag(NamedTuple):
    start: int
    end: int
    closes: bool
    name: str


def mark_emphasis(markdown: str) -> str:
    """Write marks in the place of the tags that the writer left, save in code."""
    # A character alone is found much faster than two, and most pages have none.
    if "<" not in markdown or _GIVEN_UP.search(markdown) is None:
        return markdown
    edits: list[_Edit] = []
    tags = list(_tags(markdown, edits))
    edges = _Edges(markdown, [*tags, *(tag for edit in edits for tag in _ends(edit))])
    for opening, closing, new in _pairs(tags):
        if not new:
            edits += (opening.start, opening.end, ""), (closing.start, closing.end, "")
            continue
        inner = markdown[opening.end : closing.start]
        before, after = inner[: -len(inner.lstrip())], inner[len(inner.rstrip()) :]
        first, last = opening.end + len(before), closing.start - len(after)
        stands = _opens(
            before[-1:] or edges.left(opening.start, outward=True), edges.right(first)
        ) and _opens(after[:1] or edges.right(closing.end, outward=True), edges.left(last))
        mark = _MARKS[opening.name] if stands and "\n\n" not in inner else ""
        after = "" if markdown[closing.end : closing.end + 1] in _LINE_END else after
        edits += (opening.start, first, before + mark), (last, closing.end, mark + after)
    written, done = [], 0
    for start, end, instead in sorted(edits):
        written += markdown[done:start], instead
        done = end
    return "".join([*written, markdown[done:]])


def _tags(text: str, edits: list[_Edit]) -> Iterator[_Tag]:
    """Find the tags of emphasis that are markup: in no code, and not escaped.

    Those around words, and in nothing else, are written at once: as `edits`.
    """
    at = depth = 0
    unclosed: set[str] = set()  # what did not end further up does not further down
    while found := _TOKEN.search(text, at):
        at = found.end()
        ticks, name, words, closing = found.groups()
        if words and not depth:
            edits.append((found.start(), at, f"{_MARKS[name]}{words}{_MARKS[name]}"))
        elif name:
            at = found.start() + len(name) + 2
            depth += 1
            yield _Tag(found.start(), at, closes=False, name=name)
        elif closing:
            depth -= 1
            yield _Tag(found.start(), at, closes=True, name=closing)
        elif ticks and ticks not in unclosed:
            end = _code_end(text, at, ticks)
            at = end or at
            if not end:
                unclosed.add(ticks)


def _ends(edit: _Edit) -> tuple[_Tag, _Tag]:
    """Return an element written at once as the place where it begins and the one where it ends."""
    start, end, _ = edit
    return _Tag(start, start, closes=False, name=""), _Tag(end, end, closes=True, name="")


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
        if not tag.closes:
            opened.append(tag)
            marks[_MARKS[tag.name]] += 1
        elif opened and opened[-1].name == tag.name:
            marks[_MARKS[tag.name]] -= 1
            yield opened.pop(), tag, len(opened) < _DEEPEST and not marks[_MARKS[tag.name]]


class _Edges:
    """The characters beside a place in a text, tags of emphasis passed over."""

    def __init__(self, text: str, tags: Iterable[_Tag]) -> None:
        self._text = text
        self._starting = {tag.start: tag for tag in tags}
        self._ending = {tag.end: tag for tag in tags}

    def left(self, at: int, *, outward: bool = False) -> str:
        """Return the character before a place, '' at the start; a mark where emphasis ends."""
        for _ in range(_DEEPEST):
            tag = self._ending.get(at)
            if tag is None:
                break
            if outward and tag.closes:
                return "*"
            at = tag.start
        return self._text[at - 1 : at]

    def right(self, at: int, *, outward: bool = False) -> str:
        """Return the character behind a place, '' at the end; a mark where emphasis begins."""
        for _ in range(_DEEPEST):
            tag = self._starting.get(at)
            if tag is None:
                break
            if outward and not tag.closes:
                return "*"
            at = tag.end
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
