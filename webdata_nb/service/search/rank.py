"""Organic rank: which URLs are one result, and in which order. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from webdata_nb.service.search.providers.base import Found

# Parameters that say how a visitor came, never what the page is.
_TRACKING: Final = re.compile(
    r"(?:utm_\w+|gclid|dclid|fbclid|msclkid|yclid|srsltid|mc_[ce]id|igshid|_ga|ref_src)", re.ASCII
)


def result_key(url: str) -> str:
    """Return what makes two result URLs one result.

    Only for comparing: http and https, `www.`, a trailing slash, tracking parameters and the
    fragment make no difference; the URL that is shown and fetched stays as the provider gave it.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    query = urlencode(
        [
            (name, value)
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
            if not _TRACKING.fullmatch(name)
        ]
    )
    return f"{host}{port}{parts.path.rstrip('/')}?{query}"


class Ranking:
    """The unique results so far; a result's rank is its place, counted from 1."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._known: set[str] = set()
        self.found: list[Found] = []

    @property
    def full(self) -> bool:
        """Whether enough unique results were collected."""
        return len(self.found) >= self._wanted

    def add(self, page: Iterable[Found]) -> int:
        """Append a provider's page in its order; return how many of it were new."""
        before = len(self.found)
        for result in self._fresh(page):
            if self.full:
                break
            self.found.append(result)
        return len(self.found) - before

    def _fresh(self, page: Iterable[Found]) -> Iterator[Found]:
        for result in page:
            key = result_key(result.url)
            if key not in self._known:
                self._known.add(key)
                yield result
