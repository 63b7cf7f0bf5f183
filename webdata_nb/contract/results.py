"""When two URLs are one search result: the same answer for the service's ranks and for a diff."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

# Parameters that say how a visitor came, never what the page is.
_TRACKING: Final = re.compile(
    r"(?:utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|yclid|srsltid|mc_[ce]id|igshid|_ga|_gl"
    r"|ref_src)",
    re.ASCII | re.IGNORECASE,
)
_OWN_PORTS: Final = (None, 80, 443)
# What a path may hold unescaped; a reserved character and its escape are two different things.
_RESERVED: Final = "!$&'()*+,;=:@/%"
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
# A path without a character that needs an escape: most of them.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*")


def result_key(url: str) -> str:
    """Return what makes two result URLs one result.

    Only for comparing: http and https, `www.`, a trailing slash, the order of parameters, tracking
    parameters, needless escapes and the fragment make no difference.

    Examples
    --------
    >>> result_key("https://www.example.com/a/?utm_source=x") == result_key("http://example.com/a")
    True
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
        query = _told(parts.query) if parts.query else ""
    except ValueError:  # no web address: it is its own key
        return url
    shown_port = "" if port in _OWN_PORTS else f":{port}"
    path = parts.path
    if "%" in path:
        path = _ESCAPE.sub(_levelled, path)
    if not _PLAIN.fullmatch(path):
        path = quote(path, safe=_RESERVED)
    return f"{host}{shown_port}{path.rstrip('/')}?{query}"


def _told(query: str) -> str:
    """Return the parameters that say what the page is, in one order."""
    given = parse_qsl(query, keep_blank_values=True)
    return urlencode(sorted(each for each in given if not _TRACKING.fullmatch(each[0])))


def _levelled(escape: re.Match[str]) -> str:
    mark = chr(int(escape.group()[1:], 16))
    return mark if _UNRESERVED.fullmatch(mark) else escape.group().upper()
