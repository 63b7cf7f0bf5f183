"""Ranks organic results: unwraps redirect links, drops advertisements and duplicates. Pure.

Only known redirect patterns of known hosts are unwrapped: another page may have a parameter `url`
as well.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from webdata_nb.contract.url_keys import result_key
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.search.providers.api import SearchResult

_GOOGLE: Final = re.compile(r"(?:www\.)?google\.[a-z]{2,3}(?:\.[a-z]{2})?")
_BING: Final = re.compile(r"(?:www\.|[a-z]{2}\.)?bing\.com")
_DUCKDUCKGO: Final = re.compile(r"(?:(?:html|lite|www)\.)?duckduckgo\.com")
_YAHOO: Final = re.compile(r"(?:[a-z.]+\.)?r\.search\.yahoo\.com")
_YAHOO_TARGET: Final = re.compile(r"/RU=([^/]+)(?:/|$)")
TargetReader = Callable[[SplitResult], str | None]
# A redirect link may contain another one (Yahoo wraps Bing).
_MAX_DEPTH: Final = 3


def unwrap_redirect(url: str) -> str | None:
    """Return the target of a result's link; None for an advertisement or an encrypted target.

    Examples
    --------
    >>> unwrap_redirect("https://duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F&rut=1")
    'https://example.com/'
    >>> unwrap_redirect("https://www.bing.com/aclick?ld=e8") is None
    True
    """
    for _ in range(_MAX_DEPTH):
        if not _HOST_HINT.search(url):
            break
        try:
            parts = urlsplit(f"https:{url}" if url.startswith("//") else url)
        except ValueError:
            break
        host = parts.hostname or ""
        if not _HOSTS.fullmatch(host):
            break
        read_target = next(
            (
                read_target
                for known_host, path, read_target in _REDIRECTORS
                if known_host.fullmatch(host) and path.match(parts.path)
            ),
            None,
        )
        if read_target is None:
            break
        target = read_target(parts)
        if target is None:
            return None
        url = target
    return url


def _no_target(_parts: SplitResult) -> None:
    """Return None: advertisements have no target."""


def _parameter(*names: str) -> TargetReader:
    def read_target(parts: SplitResult) -> str | None:
        values = parse_qs(parts.query)
        return next((values[name][0] for name in names if name in values), None)

    return read_target


def _bing_target(parts: SplitResult) -> str | None:
    encoded = parse_qs(parts.query).get("u", [""])[0]
    if not encoded.startswith("a1"):
        return None
    text = encoded[2:]
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _yahoo_target(parts: SplitResult) -> str | None:
    match = _YAHOO_TARGET.search(parts.path)
    return None if match is None else unquote(match[1])


# Rules out most URLs with a single search.
_HOST_HINT: Final = re.compile(
    r"google|doubleclick\.net|bing\.com|duckduckgo\.com|yahoo\.com|brave\.com", re.IGNORECASE
)
_HOSTS: Final = re.compile(
    r"(?:[a-z.]+\.)?(?:google\.[a-z.]+|googleadservices\.com|doubleclick\.net|bing\.com"
    r"|duckduckgo\.com|search\.yahoo\.com|search\.brave\.com)"
)
# The first match counts, so advertisements precede a host's other links.
_REDIRECTORS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], TargetReader], ...]] = (
    (_GOOGLE, re.compile(r"/(?:pagead/)?aclk$"), _no_target),
    (re.compile(r"(?:www\.)?googleadservices\.com"), re.compile(""), _no_target),
    (re.compile(r"ad\.doubleclick\.net"), re.compile(""), _no_target),
    (_GOOGLE, re.compile(r"/url$"), _parameter("q", "url")),
    (_BING, re.compile(r"/acl(?:ic)?k$"), _no_target),
    (_BING, re.compile(r"/ck/a$"), _bing_target),
    (_DUCKDUCKGO, re.compile(r"/y\.js$"), _no_target),
    (_DUCKDUCKGO, re.compile(r"/l/?$"), _parameter("uddg")),
    (_YAHOO, re.compile(r"/cbclk"), _no_target),
    (_YAHOO, re.compile(""), _yahoo_target),
    (re.compile(r"search\.brave\.com"), re.compile(r"/a/redirect$"), _no_target),
)


class Ranking:
    """Unique results in the order of the provider; the first has rank 1."""

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._keys: set[str] = set()
        self.results: list[SearchResult] = []

    @property
    def is_full(self) -> bool:
        """Whether there are as many results as requested."""
        return len(self.results) >= self._max_results

    def add(self, page: Iterable[SearchResult]) -> int:
        """Append the new results of a page; return their number."""
        before = len(self.results)
        for result in page:
            url = organic_url(result.url)
            if url is None or (key := result_key(url)) in self._keys:
                continue
            self._keys.add(key)
            if self.is_full:
                break
            self.results.append(SearchResult(url, result.title, result.snippet))
        return len(self.results) - before


def organic_url(url: str) -> str | None:
    """Return the canonical URL of a result; None for an advertisement or an invalid URL."""
    target = unwrap_redirect(url.strip())
    if target is None:
        return None
    try:
        return canonical_url(f"https:{target}" if target.startswith("//") else target)
    except FetchError:
        return None
