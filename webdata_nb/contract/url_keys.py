"""Compares canonical URLs by page and by site."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

# The document that a server sends for a folder.
_INDEX: Final = re.compile(r"(?:index|default)\.\w{2,5}", re.ASCII | re.IGNORECASE)
_PERCENT_LOWER: Final = re.compile(r"%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f])")


def canonical_key(url: str) -> str:
    """Return the key of a canonical URL, such as a link of a page.

    It has percent-encodings in upper case, and no empty query.

    Examples
    --------
    >>> canonical_key("http://example.com/caf%c3%a9?")
    'http://example.com/caf%C3%A9'
    """
    if "%" in url:
        url = _PERCENT_LOWER.sub(lambda code: code.group().upper(), url)
    return url.removesuffix("?")


def site_of(url: str) -> str:
    """Return what identifies the site of a canonical URL: host without `www.`, and port.

    http and https are one site, and so are `www.example.com` and `example.com`. Any other
    subdomain, and another port, is an external site.

    Examples
    --------
    >>> site_of("https://www.example.com/a")
    'example.com'
    """
    # Canonical URLs have a lower-case host, no default port and a path, so splitting suffices.
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2].removeprefix("www.")


def site_and_path(url: str) -> str:
    """Return the site of a canonical URL with its path, without the query."""
    path = canonical_key(url).partition("?")[0].partition("://")[2].partition("/")[2]
    return f"{site_of(url)}/{path}"


def folder_of(url: str) -> str:
    """Return the folder of a canonical URL: its site, and its path up to the last slash.

    Relative links start from there (RFC 3986, 5.2.3), and `wget --no-parent` keeps to it.

    Examples
    --------
    >>> folder_of("https://www.example.com/docs/index.html?next=/")
    'example.com/docs/'
    >>> folder_of("https://example.com/docs")
    'example.com/'
    """
    return site_and_path(url).rpartition("/")[0] + "/"


def names_folder(url: str) -> bool:
    """Return whether a URL is that of a folder, and not that of one of its pages.

    Examples
    --------
    >>> names_folder("https://example.com/docs/"), names_folder("https://example.com/docs/a.html")
    (True, False)
    >>> names_folder("https://example.com/docs/index.html?lang=en")
    True
    """
    name = url.partition("#")[0].partition("?")[0].rpartition("/")[2]
    return not name or _INDEX.fullmatch(name) is not None


# Keys of search results, to find duplicates and to compare searches


# Tracking parameters, which do not change the page.
_TRACKING: Final = re.compile(
    r"(?:utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|yclid|srsltid|mc_[ce]id|igshid|_ga|_gl"
    r"|ref_src)",
    re.ASCII | re.IGNORECASE,
)
_DEFAULT_PORTS: Final = (None, 80, 443)
# Characters that stay unescaped; a reserved character differs from its escape.
_RESERVED: Final = "!$&'()*+,;=:@/%"
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
# A path that needs no escape.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*")


def result_key(url: str) -> str:
    """Return a key that is equal for URLs of the same result.

    The key ignores the difference between http and https, `www.`, a trailing slash, the order of
    parameters, tracking parameters, needless escapes and the fragment.

    Examples
    --------
    >>> result_key("https://www.example.com/a/?utm_source=x") == result_key("http://example.com/a")
    True
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
        query = parts.query
        if query:
            parameters = parse_qsl(query, keep_blank_values=True)
            kept = sorted(each for each in parameters if not _TRACKING.fullmatch(each[0]))
            query = urlencode(kept)
    except ValueError:  # not a web URL
        return url
    port_suffix = "" if port in _DEFAULT_PORTS else f":{port}"
    path = parts.path
    if "%" in path:
        path = _ESCAPE.sub(_normalize_escape, path)
    if not _PLAIN.fullmatch(path):
        path = quote(path, safe=_RESERVED)
    return f"{host}{port_suffix}{path.rstrip('/')}?{query}"


def _normalize_escape(escape: re.Match[str]) -> str:
    char = chr(int(escape.group()[1:], 16))
    return char if _UNRESERVED.fullmatch(char) else escape.group().upper()
