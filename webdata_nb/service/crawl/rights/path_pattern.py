"""Matches URLs with the path patterns of robots.txt, tdmrep.json and RSL licences. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url, split_url
from webdata_nb.service.crawl.robots_rules import (
    RobotsRule,
    encode_pattern,
    encoded_path,
    path_and_query,
)

# Patterns of a length that no path has; longer ones match nothing.
MAX_CHARACTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path with the wildcards of RFC 9309: `*` matches anything, `$` at the end ends the path.

    `host` limits it to one host and port; without one it holds for every host.
    """

    text: str
    host: str = ""

    @classmethod
    def of_path(cls, path: str) -> PathPattern:
        """Return the pattern of a path, which is no URL also where it begins with `//`."""
        return cls(encode_pattern(path))

    @classmethod
    def of_url(cls, url: str) -> PathPattern | None:
        """Return the pattern of a path or an absolute URL; None where it is neither."""
        if not url or (url.startswith("/") and not url.startswith("//")):
            return cls.of_path(url)
        try:
            url = canonical_url(url)
        except FetchError:
            return None
        return cls(encode_pattern(path_and_query(url)), split_url(url).authority)

    @property
    def length(self) -> int:
        """The longest pattern that matches a path is the one that counts."""
        return len(self.text)

    def matches(self, url: str) -> bool:
        """Return whether the pattern matches a canonical URL."""
        if len(self.text) > MAX_CHARACTERS:
            return False
        if self.host and self.host != split_url(url).authority:
            return False
        return RobotsRule(self.text, allow=True).matches(encoded_path(url))
