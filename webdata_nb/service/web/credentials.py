"""Validates the headers and cookies of a job, and decides which hop receives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aiohttp import CookieJar

from webdata_nb.service.errors import EgressDenied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarl import URL

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_COOKIE_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f;\ud800-\udfff]*")
_RESERVED: Final = frozenset(
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
"""Headers that frame the message or name its receiver; jobs could smuggle requests with them."""
_IMPERSONAL: Final = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that name no user. Any other header of a job may be a secret of its user."""


def is_header_value(value: str) -> bool:
    """Whether a request may have a header with this value."""
    return _HEADER_VALUE.fullmatch(value) is not None


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse request headers that are malformed or reserved.

    Raises
    ------
    EgressDenied
        The message contains the header's name, never its value.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not is_header_value(value):
            raise EgressDenied(f"The request header {name[:80]!r} is not valid.")
        if name.lower() in _RESERVED:
            raise EgressDenied(f"The request header {name!r} is set by the service itself.")


def check_cookies(cookies: Mapping[str, str]) -> None:
    """Refuse cookies that are not valid in a Cookie header.

    Raises
    ------
    EgressDenied
        The message contains the cookie's name, never its value.
    """
    for name, value in cookies.items():
        if not _TOKEN.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            raise EgressDenied(f"The cookie {name[:80]!r} is not valid.")


def may_identify_user(headers: Mapping[str, str] | None, cookies: Mapping[str, str] | None) -> bool:
    """Return whether headers and cookies of a job may identify its user.

    Requests with such headers are not signed.
    """
    return bool(cookies) or any(name.lower() not in _IMPERSONAL for name in headers or ())


class Credentials:
    """The headers and cookies of one page fetch across its redirects.

    Custom headers and cookies go to the page's own origin only. A redirect to another origin
    drops them for good, so no later hop receives them. A cookie that a hop sets goes back to that
    host only, and ends with the fetch.

    Parameters
    ----------
    headers, cookies : mapping of str to str
        The job's headers and cookies.

    Raises
    ------
    EgressDenied
        One of them may not be sent.
    """

    __slots__ = ("_cookies", "_headers", "_jars")

    def __init__(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        check_headers(headers)
        check_cookies(cookies)
        self._headers = headers
        self._cookies = cookies
        self._jars: dict[str, CookieJar] = {}

    @property
    def may_identify_user(self) -> bool:
        """Whether the next hop receives a header or a cookie that may identify the user."""
        return may_identify_user(self._headers, self._cookies)

    def drop(self) -> None:
        """Drop the job's headers and cookies, before a hop to another origin."""
        self._headers = {}
        self._cookies = {}

    def add_cookies(self, set_cookies: Sequence[str], url: URL) -> None:
        """Store the cookies of a redirect: many sites require them at the next hop."""
        if set_cookies and url.raw_host is not None:
            jar = self._jars.setdefault(url.raw_host, CookieJar(unsafe=True, quote_cookie=False))
            jar.update_cookies_from_headers(set_cookies, url)

    def headers_for(self, url: URL) -> dict[str, str]:
        """Return the headers for a hop."""
        headers = dict(self._headers)
        pairs = {**self._cookies, **self._stored_cookies(url)}
        if pairs:
            name = next((name for name in headers if name.lower() == "cookie"), None)
            cookie_headers = [] if name is None else [headers.pop(name)]
            headers["Cookie"] = "; ".join(
                [*cookie_headers, *(f"{k}={v}" for k, v in pairs.items())]
            )
        return headers

    def _stored_cookies(self, url: URL) -> dict[str, str]:
        jar = self._jars.get(url.raw_host or "")
        if jar is None:
            return {}
        cookies = {name: cookie.value for name, cookie in jar.filter_cookies(url).items()}
        return {name: value for name, value in cookies.items() if _COOKIE_VALUE.fullmatch(value)}
