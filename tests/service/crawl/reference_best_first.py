"""Best first as it is defined: the richest page is searched among all, and no entry is dropped."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from webdata_nb.service.crawl.frontier import DAMPING, LinkWeights, url_prior
from webdata_nb.service.crawl.journal import CrawlTarget

MIN_CASH: Final = 1e-9


class ReferenceBestFirst:
    """The order of `BestFirst`, in quadratic time."""

    def __init__(self) -> None:
        self.waiting: dict[str, CrawlTarget] = {}
        self.orders: dict[str, int] = {}
        self.cash: dict[str, float] = {}
        self.inlinks: dict[str, float] = {}
        self.heap: list[tuple[float, int, str]] = []
        self.outlinks: dict[str, tuple[LinkWeights, float]] = {}

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Add candidates."""
        for candidate in candidates:
            key = candidate.key
            self.cash.setdefault(key, 0.0 if self.orders else 1.0)
            self.waiting[key] = candidate
            self.orders[key] = len(self.orders)
            self.push(key)

    def pop(self) -> CrawlTarget:
        """Remove and return the candidate with the highest score."""
        while True:
            negative_score, _, key = heapq.heappop(self.heap)
            if key in self.waiting and -negative_score == self.score(key):
                return replace(self.waiting.pop(key), score=-negative_score)

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Distribute cash."""
        outlinks = [(key, weight) for key, weight in links if key != page and weight > 0]
        self.outlinks[page] = (outlinks, sum(weight for _, weight in outlinks))
        for key, weight in outlinks:
            self.inlinks[key] = self.inlinks.get(key, 0.0) + weight
        self.distribute(page, 1.0)
        richest = max(self.outlinks, key=lambda key: self.cash.get(key, 0.0))
        if self.cash.get(richest, 0.0) > MIN_CASH:
            self.distribute(richest, DAMPING)

    def distribute(self, page: str, share: float) -> None:
        """Distribute the cash of a page over its links."""
        links, total_weight = self.outlinks[page]
        amount = self.cash.pop(page, 0.0) * share
        for key, weight in links:
            self.cash[key] = self.cash.get(key, 0.0) + amount * weight / total_weight
            if key in self.waiting:
                self.push(key)

    def score(self, key: str) -> float:
        """Return the score of a waiting candidate."""
        prior = url_prior(self.waiting[key].url)
        return self.cash[key] * (1.0 + self.inlinks.get(key, 0.0)) * prior

    def push(self, key: str) -> None:
        """Add an entry with the present score."""
        heapq.heappush(self.heap, (-self.score(key), self.orders[key], key))
