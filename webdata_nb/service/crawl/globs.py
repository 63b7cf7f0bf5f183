"""Path patterns of a caller, matched by RE2: in linear time, whatever pattern and path are. Pure.

`*` matches within a path segment, `**` across segments. `/docs/**` also matches `/docs`. A pattern
without a leading slash matches at any depth. A pattern with `?` is about the query too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol
from urllib.parse import quote

import re2

_TOKENS: Final = re.compile(r"\*\*|\*|[^*]+")
_RUNS: Final = re.compile(r"\*{3,}|(?:\*\*\*?)+")
# What canonical URLs have only as %XX: in paths and queries, and in paths alone.
_ENCODED: Final = re.compile(r"[^\x21-\x7e]|[\"<>]")
_ENCODED_IN_PATHS: Final = re.compile(r"[^\x21-\x7e]|[\"<>^`{}]")
_EXPRESSIONS: Final = {"*": "[^/]*", "**": ".*"}
# Of the patterns of one list. RE2 starts its automaton anew where it needs more.
_MEMORY_BYTES: Final = 8 * 1024 * 1024


class CompiledPattern(Protocol):
    """A compiled expression of RE2, whose package has no types."""

    def fullmatch(self, text: bytes) -> Any:
        """Return a match of the whole text, or None."""


class GlobSet:
    """Patterns of which any may match.

    Parameters
    ----------
    patterns
        As in `include_paths`, within the bounds of a request.

    Examples
    --------
    >>> docs = GlobSet(["/docs/**", "*.pdf", "/list?page=*"])
    >>> docs.matches("/docs/guide/start.html"), docs.matches("/old/manual.pdf")
    (True, True)
    >>> docs.matches("/list"), docs.matches("/list", "/list?page=2")
    (False, True)
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        every = tuple(patterns)
        self._paths = _compiled([each for each in every if "?" not in each])
        self._queries = _compiled([each for each in every if "?" in each])

    def matches(self, path: str, full: str | None = None) -> bool:
        """Tell whether a pattern matches the whole of `path`, or of `full`, with the query."""
        if self._paths is not None and self._paths.fullmatch(path.encode()) is not None:
            return True
        if self._queries is None:
            return False
        return self._queries.fullmatch((full or path).encode()) is not None


def _compiled(patterns: list[str]) -> CompiledPattern | None:
    """Return one expression for all patterns; on bytes, as RE2 then has the fewest states."""
    if not patterns:
        return None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    expression: CompiledPattern = re2.compile(
        "|".join(map(_expression, patterns)).encode(), options
    )
    # The library keeps what it compiled; a crawl's patterns go with the crawl.
    re2.purge()
    return expression


def _expression(pattern: str) -> str:
    rooted = pattern if pattern.startswith("/") else f"**/{pattern}"
    pieces = _TOKENS.findall(_RUNS.sub("**", rooted))
    # Slash and all below it, or nothing at all.
    bare = len(pieces) > 1 and pieces[-1] == "**" and pieces[-2].endswith("/")
    if bare and "?" not in pattern:
        pieces[-2:] = [pieces[-2][:-1]]
    spelt = [_EXPRESSIONS.get(piece) or re2.escape(_encoded(piece, pattern)) for piece in pieces]
    written = "".join(spelt)
    return f"(?:{written}(?:/.*)?)" if bare and "?" not in pattern else f"(?:{written})"


def _encoded(piece: str, pattern: str) -> str:
    """Write a piece of a pattern as canonical URLs write it, such as "é" and a space."""
    characters = _ENCODED if "?" in pattern else _ENCODED_IN_PATHS
    return characters.sub(lambda found: quote(found.group(), safe=""), piece)
