"""The most important page first, as far as the pages read so far tell. Pure.

Importance is estimated online, after Abiteboul, Preda and Cobena (2003, OPIC): the start page has
a cash of 1, a page that is read hands its cash on to the pages that it links to, and what comes
to pages read before is handed on again, richest first, less a loss. Cash alone follows the last
page read, so it is weighed with the number of pages that link to a page, and with what its URL
tells.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from webdata_nb.service.crawl.anchor_grading import url_prior
from webdata_nb.service.crawl.frontier import ROUND_SIZE, Candidate

# The share of cash that goes on from a page read before: less than 1, so that cash that runs in
# circles comes to an end.
DAMPING: Final = 0.85
# Less cash than this is not worth handing on.
_MIN_CASH: Final = 1e-9


class BestFirst:
    """Most cash first; equals in the order of the offers. Popped in rounds.

    Cash moves when a page is cited from, which happens in the order of the crawl, so scores are a
    function of the site. Memory is a number for each link of each page read.
    """

    ahead: int | None = ROUND_SIZE
    weighs = True
    promotes = False

    def __init__(self) -> None:
        self._waiting: dict[str, Candidate] = {}
        self._rank: dict[str, int] = {}
        self._cash: dict[str, float] = {}
        self._prior: dict[str, float] = {}
        self._citing: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._links: dict[str, tuple[Sequence[tuple[str, float]], float]] = {}
        self._offered = 0

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates; the first of all, the start page, has all the cash."""
        for candidate in candidates:
            key = candidate.key
            self._waiting[key] = candidate
            self._rank[key] = self._offered
            self._prior[key] = url_prior(candidate.url)
            self._cash.setdefault(key, 0.0 if self._offered else 1.0)
            self._offered += 1
            self._push(key)

    def pop(self) -> Candidate:
        """Take the best."""
        while True:
            negative, _, key = heapq.heappop(self._heap)
            # A candidate is pushed again whenever its cash grows: older entries are void.
            if key in self._waiting and -negative == self._score(key):
                del self._rank[key], self._prior[key]
                return replace(self._waiting.pop(key), score=-negative)

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Hand on the cash of a page just read, and then that of the richest page read before."""
        others = [(key, weight) for key, weight in cited if key != page and weight > 0]
        self._links[page] = (others, sum(weight for _, weight in others))
        for key, weight in others:
            self._citing[key] = self._citing.get(key, 0.0) + weight
        self._hand_on(page, 1.0)
        richest = max(self._links, key=lambda key: self._cash.get(key, 0.0))
        if self._cash.get(richest, 0.0) > _MIN_CASH:
            self._hand_on(richest, DAMPING)

    def _hand_on(self, page: str, share: float) -> None:
        links, whole = self._links[page]
        cash, waiting = self._cash, self._waiting
        sent = cash.pop(page, 0.0) * share
        for key, weight in links:
            cash[key] = cash.get(key, 0.0) + sent * weight / whole
            if key in waiting:
                self._push(key)

    def _score(self, key: str) -> float:
        return self._cash[key] * (1.0 + self._citing.get(key, 0.0)) * self._prior[key]

    def _push(self, key: str) -> None:
        heapq.heappush(self._heap, (-self._score(key), self._rank[key], key))

    def movable(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Tell that a link moves no page by itself: `cite` hears of it."""
        return False

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._waiting.values())
