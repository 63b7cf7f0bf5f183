"""Parses, canonicalizes and joins URLs as the WHATWG URL standard and browsers do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from url import URL, URLError

from webdata_nb.page.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_URL_CHARS = 8192
"""Servers refuse longer request lines. A longer link is a trap or an inlined document."""

_WEB = ("http://", "https://")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_USERINFO = re.compile(r"//[^/?#@]*@")
_C0_OR_SPACE = "".join(map(chr, range(0x21)))
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\n\r")


class UrlParts(NamedTuple):
    """The parts of a canonical URL; `host` has no brackets and `port` is always a number."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None
    has_credentials: bool

    @property
    def explicit_port(self) -> int | None:
        """The port, unless it is the scheme's default."""
        return None if self.port == _DEFAULT_PORTS[self.scheme] else self.port

    @property
    def server(self) -> str:
        """The host as in URLs, with its port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """The host as in URLs, with its port unless that is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.explicit_port is None else f"{host}:{self.port}"


def canonical_url(url: str) -> str:
    """Return the WHATWG form of an absolute web address, without its fragment.

    Parameters
    ----------
    url : str
        An absolute ``http`` or ``https`` URL, in any form that a browser accepts.

    Returns
    -------
    str
        The form that is checked, requested, stored and compared.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, if the text is not such an address.

    Examples
    --------
    >>> canonical_url("HTTP://Example.COM:80/a/../b#part")
    'http://example.com/b'
    """
    if len(url) > MAX_URL_CHARS:
        raise _invalid_url(url, f"is longer than {MAX_URL_CHARS} characters")
    try:
        href = str(URL.parse(url))
    except (URLError, ValueError) as exc:
        raise _invalid_url(url, f"is not a complete web address ({_reason(exc)})") from None
    if not href.startswith(_WEB):
        raise _invalid_url(url, f"has the scheme {href.partition(':')[0]!r}")
    return _normalized(href)


class UrlJoiner:
    """Joins many links to one base, which is parsed once: parsing costs more than joining.

    Parameters
    ----------
    base : str
        The URL of the page, or the URL its ``<base>`` element names.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, if the base is not a web address.
    """

    __slots__ = ("_join",)

    def __init__(self, base: str) -> None:
        self._join: Callable[[str], URL] = URL.parse(canonical_url(base)).join

    def join(self, href: str) -> str | None:
        """Return the canonical URL of a link; None if it leads to no other web page.

        None stands for links to a part of the same page (``#part``), links of other schemes
        (``javascript:``, ``mailto:``, ``data:``) and invalid links.
        """
        if href[:1] == "#" or len(href) > MAX_URL_CHARS:
            return None
        try:
            url = str(self._join(href))
        except (URLError, ValueError):
            # In the standard, any number of slashes before a host counts as two; the parser fails.
            stripped = href.strip(_C0_OR_SPACE).translate(_TAB_OR_NEWLINE)
            from_host = stripped.lstrip("/\\")
            if len(stripped) - len(from_host) <= len("//"):
                return None
            try:
                return _normalized(str(self._join("//" + from_host)))
            except (URLError, ValueError):
                return None
        return _normalized(url) if url.startswith(_WEB) else None


def join_url(base: str, href: str) -> str | None:
    """Join one link to its base, as `UrlJoiner.join` does for many."""
    return UrlJoiner(base).join(href)


@lru_cache(maxsize=256)  # half a dozen steps split the URL of each page
def split_url(url: str) -> UrlParts:
    """Split a canonical URL into its parts.

    Raises
    ------
    FetchError
        Of kind ``bad_url``, if the text is not a web address.
    """
    try:
        url_parts = URL.parse(url)
    except (URLError, ValueError) as exc:
        raise _invalid_url(url, f"is not a complete web address ({_reason(exc)})") from None
    scheme, host = url_parts.scheme, url_parts.host_str
    if scheme not in _DEFAULT_PORTS or not host:
        raise _invalid_url(url, f"has the scheme {scheme!r}")
    return UrlParts(
        scheme,
        host[1:-1] if host[0] == "[" else host,
        _DEFAULT_PORTS[scheme] if url_parts.port is None else url_parts.port,
        url_parts.path,
        url_parts.query,
        bool(url_parts.username or url_parts.password),
    )


def url_origin(url: str) -> str:
    """Return the origin of a URL: scheme, host and port.

    Examples
    --------
    >>> url_origin("https://example.com:443/a")
    'https://example.com'
    """
    url_parts = split_url(url)
    return f"{url_parts.scheme}://{url_parts.authority}"


def host_and_port(url: str) -> str:
    """Return the host and the port of a URL, also a default port.

    Examples
    --------
    >>> host_and_port("https://example.com/a"), host_and_port("http://[::1]:8080/")
    ('example.com:443', '[::1]:8080')
    """
    return split_url(url).server


def _normalized(href: str) -> str:
    fragment_start = href.find("#")
    if fragment_start >= 0:
        href = href[:fragment_start]
    if "^" in href:
        # The parser predates this code point's entry in the path percent-encode set.
        path, mark, query = href.partition("?")
        href = path.replace("^", "%5E") + mark + query
    return href


def _reason(exc: Exception) -> str:
    return (
        str(exc)
        if isinstance(exc, URLError)
        else "it contains characters that are not valid in a URL"
    )


def _invalid_url(url: str, problem: str) -> FetchError:
    excerpt = _USERINFO.sub("//", url[:200])
    allowed = "Give an http:// or https:// URL with a host, such as https://example.com/page."
    return FetchError("bad_url", f"{excerpt!r} {problem}. {allowed}")


# Reads Link headers (RFC 8288). Pure.


MAX_CHARACTERS: Final = 16 * 1024
MAX_LINKS: Final = 100
_TARGET: Final = re.compile(r"[\s,]*<([^<>]*)>")
_PARAMETER: Final = re.compile(
    r'\s*;\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?'
)
_END: Final = re.compile(r"\s*;?\s*(?=,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class HeaderLink:
    """One link of a header: its target as written, its relations and its media type."""

    target: str
    relations: frozenset[str]
    media_type: str


def parse_link_header(value: str) -> list[HeaderLink]:
    """Return the links of one header; what is malformed ends it.

    Examples
    --------
    >>> parse_link_header('</l.xml>; rel="license"; type="application/rsl+xml"')[0].target
    '/l.xml'
    """
    links: list[HeaderLink] = []
    if len(value) > MAX_CHARACTERS:
        return links
    at = 0
    for _ in range(MAX_LINKS):
        target = _TARGET.match(value, at)
        if target is None:
            break
        at = target.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(value, at):
            name, quoted, token = parameter.groups()
            text = _ESCAPE.sub(r"\1", quoted) if quoted is not None else token or ""
            parameters.setdefault(name.lower(), text)
            at = parameter.end()
        end = _END.match(value, at)
        if end is None:
            break
        at = end.end()
        relations = frozenset(parameters.get("rel", "").lower().split())
        media_type = parameters.get("type", "").partition(";")[0].strip().lower()
        links.append(HeaderLink(target[1].strip(), relations, media_type))
    return links
