"""Which URLs belong to a crawl: pure decisions on canonical URLs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.service.crawl.globs import GlobSet

OUT_OF_SCOPE: Final = "scope"
FILTERED: Final = "filtered"


def site_of(url: str) -> str:
    """Return what makes two canonical URLs one site: host without `www.`, and port.

    http and https are one site, and so are `www.example.com` and `example.com`; any other
    subdomain, and another port, is an external site.
    """
    # Canonical URLs have a lower-case host, no default port and a path: cutting is enough.
    return url.split("/", 3)[2].rpartition("@")[2].removeprefix("www.")


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """The bounds of one crawl. `sites` are those of the start page, before and after redirects."""

    sites: frozenset[str]
    external: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    _included: GlobSet = field(init=False, repr=False, compare=False)
    _excluded: GlobSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", GlobSet(self.include))
        object.__setattr__(self, "_excluded", GlobSet(self.exclude))

    def verdict(self, url: str) -> str | None:
        """Return why `url` is left out, or None when it belongs to the crawl."""
        if not self.external and site_of(url) not in self.sites:
            return OUT_OF_SCOPE
        if not self.include and not self.exclude:
            return None
        parts = urlsplit(url)
        path = parts.path or "/"
        full = f"{path}?{parts.query}" if parts.query else path
        if self.include and not self._included.matches(path, full):
            return FILTERED
        return FILTERED if self.exclude and self._excluded.matches(path, full) else None
