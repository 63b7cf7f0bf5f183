"""Shows what differs between two texts, in time that grows with their length only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

_MAX_CHARS: Final = 2000
_MAX_LINE_CHARS: Final = 300
# Characters that are shown before and after what differs in a long line.
_CONTEXT: Final = 60
_ELLIPSIS: Final = "…"


def changed_lines(old: str, new: str) -> str:
    r"""Return the lines that only one of two texts has, `- ` before old ones and `+ ` before new.

    Of long lines, only the part that differs is shown, and of many lines the first.

    Examples
    --------
    >>> print(changed_lines("Kettle\n29 EUR\nin stock", "Kettle\n24 EUR\nin stock"))
    - 29 EUR
    + 24 EUR
    """
    removed, added = _lines_of_one(old, new), _lines_of_one(new, old)
    if not removed and not added:
        return "the same lines in another order"
    text = "\n".join(_pairs(removed, added))
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + _ELLIPSIS


def _lines_of_one(text: str, other: str) -> list[str]:
    """Return the lines that a text has more often than the other, in their order."""
    common = Counter(_lines(other))
    lines: list[str] = []
    for line in _lines(text):
        if common[line]:
            common[line] -= 1
        else:
            lines.append(line)
    return lines


def _lines(text: str) -> Sequence[str]:
    stripped = (line.strip().rstrip(",") for line in text.splitlines())
    return [line for line in stripped if line]


def _pairs(removed: Sequence[str], added: Sequence[str]) -> Iterator[str]:
    size = 0
    for old, new in zip_longest(removed, added):
        if size > _MAX_CHARS:
            return
        lines = _marked_lines(old, new)
        size += sum(map(len, lines))
        yield from lines


def _marked_lines(old: str | None, new: str | None) -> list[str]:
    if old is None or new is None:
        line, mark = (new, "+") if old is None else (old, "-")
        return [f"{mark} {_cut(line or '')}"]
    start = max(0, _equal_characters(old, new) - _CONTEXT)
    end = max(0, _equal_characters(old[::-1], new[::-1]) - _CONTEXT)
    return [f"{mark} {_part(line, start, end)}" for mark, line in (("-", old), ("+", new))]


def _equal_characters(a: str, b: str) -> int:
    """Return how many characters two texts have in common at their begin."""
    differing = (place for place, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(a), len(b)))


def _part(line: str, start: int, end: int) -> str:
    """Return a line without what it has in common with the other, if it is long."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    part = line[start : max(start, len(line) - end)]
    before, after = _ELLIPSIS if start else "", _ELLIPSIS if end else ""
    return f"{before}{_cut(part)}{after}"


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + _ELLIPSIS
