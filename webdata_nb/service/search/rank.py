"""Organic rank: which URLs are one result, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webdata_nb.contract.results import result_key
from webdata_nb.service.errors import FetchError
from webdata_nb.service.search.providers.base import SearchResult
from webdata_nb.service.search.redirectors import unwrap_redirect
from webdata_nb.service.web.urls import canonical_url


class Ranking:
    """The unique results so far; a result's rank is its place, counted from 1."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._known: set[str] = set()
        self.found: list[SearchResult] = []

    @property
    def full(self) -> bool:
        """Whether enough unique results were collected."""
        return len(self.found) >= self._wanted

    def add(self, page: Iterable[SearchResult]) -> int:
        """Append a provider's page in its order; return how many of it were new."""
        before = len(self.found)
        for result in self._fresh(page):
            if self.full:
                break
            self.found.append(result)
        return len(self.found) - before

    def _fresh(self, page: Iterable[SearchResult]) -> Iterator[SearchResult]:
        for result in page:
            url = organic_url(result.url)
            if url is None:
                continue
            key = result_key(url)
            if key not in self._known:
                self._known.add(key)
                yield SearchResult(url, result.title, result.snippet)


def organic_url(url: str) -> str | None:
    """Return the canonical URL that a result's link leads to.

    None for an advertisement, and for what is no web address.
    """
    target = unwrap_redirect(url.strip())
    if target is None:
        return None
    try:
        return canonical_url(f"https:{target}" if target.startswith("//") else target)
    except FetchError:
        return None
