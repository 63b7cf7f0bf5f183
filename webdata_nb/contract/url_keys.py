"""Compares URLs by a key that is equal for different spellings of one page's URL."""

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
