"""Links of result pages that only lead on: to the result itself, or to an advertiser. Pure.

Only patterns that are known, of hosts that are known: a page that happens to have a parameter
`url` stays what it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_GOOGLE: Final = re.compile(r"(?:www\.)?google\.[a-z]{2,3}(?:\.[a-z]{2})?")
_BING: Final = re.compile(r"(?:www\.|[a-z]{2}\.)?bing\.com")
_DUCKDUCKGO: Final = re.compile(r"(?:(?:html|lite|www)\.)?duckduckgo\.com")
_YAHOO: Final = re.compile(r"(?:[a-z.]+\.)?r\.search\.yahoo\.com")
_YAHOO_TARGET: Final = re.compile(r"/RU=([^/]+)(?:/|$)")
TargetReader = Callable[[SplitResult], str | None]
# A redirector may wrap another one (Yahoo wraps Bing); nobody wraps deeper.
_DEPTH: Final = 3


def unwrap_redirect(url: str) -> str | None:
    """Return where a result's link leads; None for an advertisement, and for one that hides it.

    Examples
    --------
    >>> destination("https://duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F&rut=1")
    'https://example.com/'
    >>> destination("https://www.bing.com/aclick?ld=e8") is None
    True
    """
    for _ in range(_DEPTH):
        if not _HINT.search(url):
            break
        parts = _split(url)
        read = None if parts is None else _redirector(parts)
        if parts is None or read is None:
            break
        target = read(parts)
        if target is None:
            return None
        url = target
    return url


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(f"https:{url}" if url.startswith("//") else url)
    except ValueError:
        return None
    return parts if parts.hostname else None


def _redirector(parts: SplitResult) -> TargetReader | None:
    """Return how to find what a link wraps; None where it wraps nothing."""
    host = parts.hostname or ""
    if not _HOSTS.fullmatch(host):
        return None
    return next(
        (read for of, path, read in _KNOWN if of.fullmatch(host) and path.match(parts.path)), None
    )


def _nowhere(_parts: SplitResult) -> None:
    """Where an advertisement leads."""


def _parameter(*names: str) -> TargetReader:
    def read(parts: SplitResult) -> str | None:
        values = parse_qs(parts.query)
        return next((values[name][0] for name in names if name in values), None)

    return read


def _bing(parts: SplitResult) -> str | None:
    packed = parse_qs(parts.query).get("u", [""])[0]
    if not packed.startswith("a1"):
        return None
    text = packed[2:]
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _yahoo(parts: SplitResult) -> str | None:
    found = _YAHOO_TARGET.search(parts.path)
    return None if found is None else unquote(found[1])


# Most addresses name nobody who has a redirector, and one look says so.
_HINT: Final = re.compile(
    r"google|doubleclick\.net|bing\.com|duckduckgo\.com|yahoo\.com|brave\.com", re.IGNORECASE
)
_HOSTS: Final = re.compile(
    r"(?:[a-z.]+\.)?(?:google\.[a-z.]+|googleadservices\.com|doubleclick\.net|bing\.com"
    r"|duckduckgo\.com|search\.yahoo\.com|search\.brave\.com)"
)
# The first that fits counts: advertisements come before the host's other links.
_KNOWN: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], TargetReader], ...]] = (
    (_GOOGLE, re.compile(r"/(?:pagead/)?aclk$"), _nowhere),
    (re.compile(r"(?:www\.)?googleadservices\.com"), re.compile(""), _nowhere),
    (re.compile(r"ad\.doubleclick\.net"), re.compile(""), _nowhere),
    (_GOOGLE, re.compile(r"/url$"), _parameter("q", "url")),
    (_BING, re.compile(r"/acl(?:ic)?k$"), _nowhere),
    (_BING, re.compile(r"/ck/a$"), _bing),
    (_DUCKDUCKGO, re.compile(r"/y\.js$"), _nowhere),
    (_DUCKDUCKGO, re.compile(r"/l/?$"), _parameter("uddg")),
    (_YAHOO, re.compile(r"/cbclk"), _nowhere),
    (_YAHOO, re.compile(""), _yahoo),
    (re.compile(r"search\.brave\.com"), re.compile(r"/a/redirect$"), _nowhere),
)
