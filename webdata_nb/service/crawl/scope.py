"""Which URLs belong to a crawl: pure decisions on canonical URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

OUTSIDE: Final = "scope"
FILTERED: Final = "filtered"
_TOKENS: Final = re.compile(r"\*\*|.", re.DOTALL)


def site_of(url: str) -> str:
    """Return what makes two canonical URLs one site: host without `www.`, and port.

    http and https are one site, and so are `www.example.com` and `example.com`; any other
    subdomain, and another port, is an external site.
    """
    # Canonical URLs have a lower-case host, no default port and a path: cutting is enough.
    return url.split("/", 3)[2].rpartition("@")[2].removeprefix("www.")


class Glob:
    """A path pattern: `*` matches within a path segment, `**` across segments.

    `/docs/**` also matches `/docs`. A pattern without a leading slash matches at any depth. A
    pattern with `?` is about the query too. Matching is linear in the path whatever the pattern
    (all ways to match are followed at once, as bits of one number): patterns come from callers,
    paths from strangers.
    """

    def __init__(self, pattern: str) -> None:
        self.with_query = "?" in pattern
        rooted = pattern if pattern.startswith("/") else f"**/{pattern}"
        self._bare = rooted[:-3] if rooted.endswith("/**") and not self.with_query else None
        pieces = _TOKENS.findall(re.sub(r"\*{3,}|(?:\*\*\*?)+", "**", rooted))
        self._stay_anywhere = sum(1 << i for i, piece in enumerate(pieces) if piece == "**")
        self._stay_in_segment = sum(1 << i for i, piece in enumerate(pieces) if piece == "*")
        self._skip = self._stay_anywhere | self._stay_in_segment
        self._step: dict[str, int] = {}
        for i, piece in enumerate(pieces):
            self._step[piece] = self._step.get(piece, 0) | (0 if self._skip >> i & 1 else 1 << i)
        self._end = 1 << len(pieces)

    def matches(self, text: str) -> bool:
        """Tell whether the whole of `text` matches."""
        if text == self._bare:
            return True
        step, skip = self._step, self._skip
        state = 1 | (1 & skip) << 1
        for letter in text:
            stay = self._stay_anywhere if letter == "/" else skip
            state = (state & step.get(letter, 0)) << 1 | state & stay
            state |= (state & skip) << 1
            if not state:
                return False
        return bool(state & self._end)


def matcher(patterns: tuple[str, ...]) -> Callable[[str, str], bool]:
    """Return a test of (path, path with query) against any of the patterns."""
    globs = [Glob(pattern) for pattern in patterns]

    def matches(path: str, full: str) -> bool:
        return any(glob.matches(full if glob.with_query else path) for glob in globs)

    return matches


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of one crawl. `sites` are those of the start page, before and after redirects."""

    sites: frozenset[str]
    external: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    _included: Callable[[str, str], bool] = field(init=False, repr=False, compare=False)
    _excluded: Callable[[str, str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", matcher(self.include))
        object.__setattr__(self, "_excluded", matcher(self.exclude))

    def verdict(self, url: str) -> str | None:
        """Return why `url` is left out, or None when it belongs to the crawl."""
        if not self.external and site_of(url) not in self.sites:
            return OUTSIDE
        if not self.include and not self.exclude:
            return None
        parts = urlsplit(url)
        path = parts.path or "/"
        full = f"{path}?{parts.query}" if parts.query else path
        if self.include and not self._included(path, full):
            return FILTERED
        return FILTERED if self.exclude and self._excluded(path, full) else None
