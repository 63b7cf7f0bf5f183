"""Compares canonical URLs by page and by site."""

from __future__ import annotations

import re
from typing import Final

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
