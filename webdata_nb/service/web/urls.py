"""URLs as the WHATWG URL standard reads them, which is how browsers and their links mean them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from url import URL, URLError

from webdata_nb.service.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_URL_CHARS = 8192
"""Servers refuse longer request lines; a longer link is a trap or an inlined document."""

_WEB = ("http://", "https://")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_USERINFO = re.compile(r"//[^/?#@]*@")
_PERCENT_LOWER = re.compile(r"%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f])")
_C0_OR_SPACE = "".join(map(chr, range(0x21)))
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\n\r")


class UrlParts(NamedTuple):
    """A canonical URL taken apart; `host` has no brackets and `port` is always a number."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None
    has_credentials: bool

    @property
    def explicit_port(self) -> int | None:
        """The port where it is not the scheme's own."""
        return None if self.port == _DEFAULT_PORTS[self.scheme] else self.port

    @property
    def server(self) -> str:
        """The host as URLs write it, with its port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """The host as URLs write it, with its port where that is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.explicit_port is None else f"{host}:{self.port}"


def canonical_url(url: str) -> str:
    """Give the WHATWG form of an absolute web address, without its fragment.

    Parameters
    ----------
    url : str
        An absolute ``http`` or ``https`` URL, in any spelling a browser would take.

    Returns
    -------
    str
        The one spelling that is checked, dialled, stored and compared.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, with what is allowed, when the text is no such address.

    Examples
    --------
    >>> canonical_url("HTTP://Example.COM:80/a/../b#part")
    'http://example.com/b'
    """
    if len(url) > MAX_URL_CHARS:
        raise _bad(url, f"is longer than {MAX_URL_CHARS} characters")
    try:
        href = str(URL.parse(url))
    except (URLError, ValueError) as exc:
        raise _bad(url, f"is not a complete web address ({_reason(exc)})") from None
    if not href.startswith(_WEB):
        raise _bad(url, f"has the scheme {href.partition(':')[0]!r}")
    return _finished(href)


class UrlJoiner:
    """Joins many links to one base; keeps the parsed base, since parsing costs more than joining.

    Parameters
    ----------
    base : str
        The URL of the page, or the URL its ``<base>`` element names.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, when the base itself is no web address.
    """

    __slots__ = ("_join",)

    def __init__(self, base: str) -> None:
        self._join: Callable[[str], URL] = URL.parse(canonical_url(base)).join

    def join(self, href: str) -> str | None:
        """Give the canonical URL a link leads to; None when it leads to no other web page.

        Links to a part of the same page (``#part``), links of other schemes (``javascript:``,
        ``mailto:``, ``data:``) and links that no browser could follow give None.
        """
        if href[:1] == "#" or len(href) > MAX_URL_CHARS:
            return None
        try:
            joined = str(self._join(href))
        except (URLError, ValueError):
            return self._join_slashes(href)
        return _finished(joined) if joined.startswith(_WEB) else None

    def _join_slashes(self, href: str) -> str | None:
        # The standard reads any run of slashes before a host as two; the parser fails instead.
        bare = href.strip(_C0_OR_SPACE).translate(_TAB_OR_NEWLINE)
        host_onwards = bare.lstrip("/\\")
        if len(bare) - len(host_onwards) <= len("//"):
            return None
        try:
            return _finished(str(self._join("//" + host_onwards)))
        except (URLError, ValueError):
            return None


def join_url(base: str, href: str) -> str | None:
    """Join one link to its base, as `UrlJoiner.join` does for many."""
    return UrlJoiner(base).join(href)


@lru_cache(maxsize=256)  # a page on its way is taken apart by half a dozen steps
def split_url(url: str) -> UrlParts:
    """Take a canonical URL apart.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, when the text is no web address.
    """
    try:
        parsed = URL.parse(url)
    except (URLError, ValueError) as exc:
        raise _bad(url, f"is not a complete web address ({_reason(exc)})") from None
    scheme, host = parsed.scheme, parsed.host_str
    if scheme not in _DEFAULT_PORTS or not host:
        raise _bad(url, f"has the scheme {scheme!r}")
    return UrlParts(
        scheme,
        host[1:-1] if host[0] == "[" else host,
        _DEFAULT_PORTS[scheme] if parsed.port is None else parsed.port,
        parsed.path,
        parsed.query,
        bool(parsed.username or parsed.password),
    )


def url_origin(url: str) -> str:
    """Give scheme, host and port: what a header or cookie of one page may be sent to again.

    Examples
    --------
    >>> url_origin("https://example.com:443/a")
    'https://example.com'
    """
    whole = split_url(url)
    return f"{whole.scheme}://{whole.authority}"


def host_and_port(url: str) -> str:
    """Give host and port, the port always: what one server, and no other, answers for.

    Examples
    --------
    >>> host_and_port("https://example.com/a"), host_and_port("http://[::1]:8080/")
    ('example.com:443', '[::1]:8080')
    """
    return split_url(url).server


def dedupe_key(url: str) -> str:
    """Give the key under which two spellings of one page are one page.

    Only what cannot change the page is levelled: what `canonical_url` levels (case of scheme and
    host, default port, dot segments, fragment), the case of percent-encodings, and an empty
    query. The order of parameters, ``index.html`` and a trailing slash are left alone.

    Examples
    --------
    >>> dedupe_key("http://example.com/caf%c3%a9?")
    'http://example.com/caf%C3%A9'
    """
    return canonical_key(canonical_url(url))


def canonical_key(url: str) -> str:
    """Give the `dedupe_key` of a URL that is canonical already, as outlinks are: much cheaper.

    Examples
    --------
    >>> canonical_key("http://example.com/caf%c3%a9?")
    'http://example.com/caf%C3%A9'
    """
    if "%" in url:
        url = _PERCENT_LOWER.sub(lambda code: code.group().upper(), url)
    return url.removesuffix("?")


def _finished(href: str) -> str:
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    if "^" in href:
        # The parser predates this code point's entry in the path percent-encode set.
        path, mark, query = href.partition("?")
        href = path.replace("^", "%5E") + mark + query
    return href


def _reason(exc: Exception) -> str:
    return str(exc) if isinstance(exc, URLError) else "it holds characters that no URL can hold"


def _bad(url: str, what: str) -> FetchError:
    shown = _USERINFO.sub("//", url[:200])
    allowed = "Give an http:// or https:// URL with a host, such as https://example.com/page."
    return FetchError("bad_url", f"{shown!r} {what}. {allowed}")
