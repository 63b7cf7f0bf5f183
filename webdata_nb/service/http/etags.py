"""Computes entity tags and evaluates If-None-Match (RFC 9110, 8.8.3 and 13.1.2).

All tags are weak, because compressed and plain replies share them and there are no byte ranges.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 16


def etag_of(*parts: bytes) -> str:
    """Return the weak entity tag of these bytes.

    Examples
    --------
    >>> etag_of(b"rows")
    'W/"f2305e3ea413d261c40604673f9fbe7d"'
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return f'W/"{digest.hexdigest()}"'


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match header contains this tag, strong or weak.

    Examples
    --------
    >>> etag_matches('"b", W/"a"', 'W/"a"'), etag_matches("*", '"a"'), etag_matches("a", '"a"')
    (True, True, False)
    """
    if if_none_match is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags
