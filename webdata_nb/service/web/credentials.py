"""A job's own headers and cookies: what may be set, and which hop may see them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aiohttp import CookieJar

from webdata_nb.service.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarl import URL

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_COOKIE_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f;\ud800-\udfff]*")
_OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""They frame the message or name its receiver: a job that sets them could smuggle a request."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a request header that is malformed or not the job's to set.

    Raises
    ------
    Refused
        With the header's name, and never its value.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise Refused(f"The request header {name[:80]!r} is not valid.")
        if name.lower() in _OURS:
            raise Refused(f"The request header {name!r} is set by the service itself.")


def check_cookies(cookies: Mapping[str, str]) -> None:
    """Refuse a cookie that no Cookie header can carry.

    Raises
    ------
    Refused
        With the cookie's name, and never its value.
    """
    for name, value in cookies.items():
        if not _TOKEN.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            raise Refused(f"The cookie {name[:80]!r} is not valid.")


class Credentials:
    """The headers and cookies of one page fetch, from hop to hop.

    Custom headers and cookies go to the page's own origin only; once a redirect has led to
    another origin they are gone for good, so that no later hop can ask for them back. A cookie
    that a hop sets goes back to that very host only, and ends with the fetch.

    Parameters
    ----------
    headers, cookies : mapping of str to str
        The job's own.

    Raises
    ------
    Refused
        When one of them may not be sent.
    """

    __slots__ = ("_cookies", "_headers", "_jars")

    def __init__(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        check_headers(headers)
        check_cookies(cookies)
        self._headers = headers
        self._cookies = cookies
        self._jars: dict[str, CookieJar] = {}

    def drop(self) -> None:
        """Forget the job's own headers and cookies: the next hop is another origin's."""
        self._headers = {}
        self._cookies = {}

    def remember(self, set_cookies: Sequence[str], url: URL) -> None:
        """Take the cookies that a redirecting answer sets: many sites will not go on without."""
        if set_cookies and url.raw_host is not None:
            jar = self._jars.setdefault(url.raw_host, CookieJar(unsafe=True, quote_cookie=False))
            jar.update_cookies_from_headers(set_cookies, url)

    def headers_for(self, url: URL) -> dict[str, str]:
        """Give the header lines to send to this hop."""
        headers = dict(self._headers)
        pairs = {**self._cookies, **self._remembered(url)}
        if pairs:
            given = next((name for name in headers if name.lower() == "cookie"), None)
            own = [] if given is None else [headers.pop(given)]
            headers["Cookie"] = "; ".join([*own, *(f"{k}={v}" for k, v in pairs.items())])
        return headers

    def _remembered(self, url: URL) -> dict[str, str]:
        jar = self._jars.get(url.raw_host or "")
        if jar is None:
            return {}
        kept = {name: cookie.value for name, cookie in jar.filter_cookies(url).items()}
        return {name: value for name, value in kept.items() if _COOKIE_VALUE.fullmatch(value)}
