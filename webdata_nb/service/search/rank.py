"""Ranks organic results: unwraps redirect links, drops advertisements and duplicates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webdata_nb.contract.results import result_key
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.search.providers.base import SearchResult
from webdata_nb.service.search.redirectors import unwrap_redirect


class Ranking:
    """Unique results in the order of the provider; the first has rank 1."""

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._keys: set[str] = set()
        self.results: list[SearchResult] = []

    @property
    def is_full(self) -> bool:
        """Whether there are as many results as requested."""
        return len(self.results) >= self._max_results

    def add(self, page: Iterable[SearchResult]) -> int:
        """Append the new results of a page; return their number."""
        before = len(self.results)
        for result in self._new_results(page):
            if self.is_full:
                break
            self.results.append(result)
        return len(self.results) - before

    def _new_results(self, page: Iterable[SearchResult]) -> Iterator[SearchResult]:
        for result in page:
            url = organic_url(result.url)
            if url is None:
                continue
            key = result_key(url)
            if key not in self._keys:
                self._keys.add(key)
                yield SearchResult(url, result.title, result.snippet)


def organic_url(url: str) -> str | None:
    """Return the canonical URL of a result; None for an advertisement or an invalid URL."""
    target = unwrap_redirect(url.strip())
    if target is None:
        return None
    try:
        return canonical_url(f"https:{target}" if target.startswith("//") else target)
    except FetchError:
        return None
