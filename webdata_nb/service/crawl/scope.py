"""Decides which URLs belong to a crawl: its sites, its folder and path patterns. Pure.

In a pattern, `*` matches within a path segment and `**` across segments. `/docs/**` also matches
`/docs`. A pattern without a leading slash matches at any depth. A pattern that contains `?` is
matched against path and query. RE2 matches in linear time, whatever the pattern and the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import re2

from webdata_nb.contract.url_keys import folder_of, names_folder, site_and_path, site_of

OUT_OF_SCOPE: Final = "scope"
OUT_OF_FOLDER: Final = "folder"
FILTERED: Final = "filtered"
_TOKEN: Final = re.compile(r"\*\*|\*|[^*]+")
_WILDCARD_RUN: Final = re.compile(r"\*{3,}|(?:\*\*\*?)+")
# Characters that canonical URLs contain only as %XX: anywhere, and in paths.
_ENCODED: Final = re.compile(r"[^\x21-\x7e]|[\"<>]")
_ENCODED_IN_PATHS: Final = re.compile(r"[^\x21-\x7e]|[\"<>^`{}]")
_WILDCARDS: Final = {"*": "[^/]*", "**": ".*"}
# For the patterns of one list. RE2 rebuilds its automaton where it needs more.
_MAX_AUTOMATON_BYTES: Final = 8 * 1024 * 1024


class CompiledPattern(Protocol):
    """A compiled expression of RE2, whose package has no types."""

    def fullmatch(self, text: bytes) -> Any:
        """Return a match of the whole text, or None."""


class GlobSet:
    """Path patterns of which any may match.

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
        patterns = tuple(patterns)
        self._path_pattern = _compile([glob for glob in patterns if "?" not in glob])
        self._query_pattern = _compile([glob for glob in patterns if "?" in glob])

    def matches(self, path: str, path_and_query: str | None = None) -> bool:
        """Return whether a pattern matches all of `path`, or all of `path_and_query`."""
        if _matches(self._path_pattern, path):
            return True
        return _matches(self._query_pattern, path_and_query or path)


def _matches(pattern: CompiledPattern | None, text: str) -> bool:
    return pattern is not None and pattern.fullmatch(text.encode()) is not None


def _compile(patterns: list[str]) -> CompiledPattern | None:
    """Compile the patterns into one expression; on bytes, as RE2 then needs the fewest states."""
    if not patterns:
        return None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_AUTOMATON_BYTES
    expression: CompiledPattern = re2.compile("|".join(map(_regex, patterns)).encode(), options)
    # The library caches compiled expressions without bound; each crawl has patterns of its own.
    re2.purge()
    return expression


def _regex(pattern: str) -> str:
    rooted = pattern if pattern.startswith("/") else f"**/{pattern}"
    tokens = _TOKEN.findall(_WILDCARD_RUN.sub("**", rooted))
    # `/docs/**` matches `/docs` as well: the slash and all behind it are optional.
    is_folder = len(tokens) > 1 and tokens[-1] == "**" and tokens[-2].endswith("/")
    optional_tail = is_folder and "?" not in pattern
    if optional_tail:
        tokens[-2:] = [tokens[-2][:-1]]
    # Text such as "é" and a space is percent-encoded, as in canonical URLs.
    encoded = _ENCODED if "?" in pattern else _ENCODED_IN_PATHS
    regex = "".join(
        _WILDCARDS.get(token)
        or re2.escape(encoded.sub(lambda match: quote(match.group(), safe=""), token))
        for token in tokens
    )
    return f"(?:{regex}(?:/.*)?)" if optional_tail else f"(?:{regex})"


def folder_after_redirects(folder: str, start: str, final_url: str) -> str:
    """Return what a crawl keeps to whose start page redirects, in place of `folder`.

    A redirect below the start page shows that this is a folder whose slash is missing. Another
    folder counts where the page has moved to it; the parent of its own would widen the crawl.

    Examples
    --------
    >>> folder_after_redirects("x.test/", "https://x.test/docs", "https://x.test/docs/en/")
    'x.test/docs/'
    >>> folder_after_redirects("x.test/docs/", "https://x.test/docs/", "https://docs.x.test/en/")
    'docs.x.test/en/'
    >>> folder_after_redirects("x.test/docs/", "https://x.test/docs/", "https://x.test/login")
    'x.test/docs/'
    """
    final = folder_of(final_url)
    as_folder = site_and_path(start).rstrip("/") + "/"
    if final.startswith(as_folder):
        return as_folder
    if final.startswith(folder) or folder.startswith(final):
        return folder
    was_site = folder == f"{site_of(start)}/"
    return f"{site_of(final_url)}/" if was_site and not names_folder(final_url) else final


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """The bounds of one crawl.

    `sites` are the sites of the start page, before and after its redirects, and `folder` is the
    one of them to keep to, as `folder_of` returns it; "" for all. `external` allows other sites.
    `include` and `exclude` are path patterns.
    """

    sites: frozenset[str]
    external: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    folder: str = ""
    _included: GlobSet = field(init=False, repr=False, compare=False)
    _excluded: GlobSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", GlobSet(self.include))
        object.__setattr__(self, "_excluded", GlobSet(self.exclude))

    def exclusion_reason(self, url: str) -> str | None:
        """Return why `url` is excluded; None if it belongs to the crawl."""
        if not self.external and site_of(url) not in self.sites:
            return OUT_OF_SCOPE
        # The folder itself may be linked without its slash.
        if self.folder and not f"{site_and_path(url)}/".startswith(self.folder):
            return OUT_OF_FOLDER
        if not self.include and not self.exclude:
            return None
        parts = urlsplit(url)
        path = parts.path or "/"
        path_and_query = f"{path}?{parts.query}" if parts.query else path
        if self.include and not self._included.matches(path, path_and_query):
            return FILTERED
        if self.exclude and self._excluded.matches(path, path_and_query):
            return FILTERED
        return None
