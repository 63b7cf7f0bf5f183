"""Queues of the URLs still to fetch: breadth first, depth first and by importance. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from webdata_nb.service.crawl.anchor_grading import url_prior
from webdata_nb.service.crawl.state_record import Section, sections

# URLs that best first pops before it considers their links. A constant, so that the order does
# not depend on `concurrency`.
ROUND_SIZE: Final = 8
# The share of its cash that an already read page passes on: less than 1, so that cash cannot
# circulate without end.
DAMPING: Final = 0.85
# Less cash than this is not worth distributing.
_MIN_CASH: Final = 1e-9
# Sections of a state.
_QUEUE: Final = "frontier queue"
_COUNT: Final = "frontier count"
_CASH: Final = "frontier cash"
_INLINKS: Final = "frontier inlinks"
_OUTLINKS: Final = "frontier outlinks"

LinkWeights = Sequence[tuple[str, float]]
"""The keys that the links of a page lead to, each with the weight of its link."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL that may be fetched.

    `depth` is the link depth from the start page. URLs with equal `key` are spellings of one URL.
    `score` is the importance that best first gave it.
    """

    url: str
    depth: int
    key: str = ""
    score: float | None = None


class Frontier(Protocol):
    """A queue of candidates.

    Attributes
    ----------
    round_size
        The candidates that may be popped before the results of earlier ones are known; None where
        no result can change which candidate comes next.
    uses_link_weights
        Whether the order depends on `record_links`.
    requeues
        Whether a waiting candidate may move when another page links to it.
    """

    round_size: int | None
    uses_link_weights: bool
    requeues: bool

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add the candidates of one page, in document order."""

    def pop(self) -> Candidate:
        """Remove and return the next candidate. Raises IndexError when the queue is empty."""

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Record all links of a page that was read."""

    def can_move(self, key: str) -> bool:
        """Return whether adding a queued candidate with this key again would move it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Candidate]:
        """Iterate over the queued candidates, in the order of `pop` if that is known."""

    def state(self) -> Iterator[Section]:
        """Yield the state as sections, whose names start with `frontier`."""

    def restore(self, name: str, items: list[Any]) -> None:
        """Add a section of an earlier state; the frontier is new, and its start page popped."""


def encode_candidate(candidate: Candidate) -> list[Any]:
    """Return a candidate as JSON; a key that is the URL is not repeated."""
    key = None if candidate.key == candidate.url else candidate.key
    return [candidate.url, candidate.depth, key]


def decode_candidate(item: list[Any]) -> Candidate:
    """Return the candidate that `encode_candidate` encoded."""
    url, depth, key = item
    return Candidate(url, depth, url if key is None else key)


class BreadthFirst:
    """First in, first out. Later candidates never change the order of earlier ones."""

    round_size: int | None = None
    uses_link_weights = False
    requeues = False

    def __init__(self) -> None:
        self._queue: deque[Candidate] = deque()

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Append in document order."""
        self._queue.extend(candidates)

    def pop(self) -> Candidate:
        """Remove and return the oldest candidate."""
        return self._queue.popleft()

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Do nothing: links do not affect the order."""

    def can_move(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Return False: a queued candidate keeps its position."""
        return False

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._queue)

    def state(self) -> Iterator[Section]:
        """Yield the queue in order."""
        return sections(_QUEUE, map(encode_candidate, self._queue))

    def restore(self, name: str, items: list[Any]) -> None:  # noqa: ARG002 - there is one section
        """Append to the queue."""
        self._queue.extend(map(decode_candidate, items))


class DepthFirst:
    """Last in, first out: the next URL is the first unvisited link of the last page read.

    A waiting URL moves to the top when another page links to it, because a depth-first search
    descends into it from there. Its depth is that of the shortest known path. Each result may
    change which URL is next, so only one URL is popped before its result is known.
    """

    round_size: int | None = 1
    uses_link_weights = False
    requeues = True

    def __init__(self) -> None:
        # By key; a dictionary keeps the order of insertion, so the top of the stack is last.
        self._stack: dict[str, Candidate] = {}

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Push in reverse, so that the page's first link is popped first; move waiting URLs up."""
        for candidate in reversed(list(candidates)):
            queued = self._stack.pop(candidate.key, candidate)
            depth = min(queued.depth, candidate.depth)
            self._stack[candidate.key] = (
                queued if queued.depth == depth else replace(queued, depth=depth)
            )

    def pop(self) -> Candidate:
        """Remove and return the newest candidate."""
        if not self._stack:
            raise IndexError("the frontier is empty")
        return self._stack.popitem()[1]

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Do nothing: the order depends on `add` alone."""

    def can_move(self, key: str) -> bool:
        """Return whether the URL is queued: a new link moves it to the top."""
        return key in self._stack

    def __len__(self) -> int:
        return len(self._stack)

    def __iter__(self) -> Iterator[Candidate]:
        return reversed(self._stack.values())

    def state(self) -> Iterator[Section]:
        """Yield the stack from the bottom."""
        return sections(_QUEUE, map(encode_candidate, self._stack.values()))

    def restore(self, name: str, items: list[Any]) -> None:  # noqa: ARG002 - there is one section
        """Push to the stack."""
        self._stack.update((each.key, each) for each in map(decode_candidate, items))


class BestFirst:
    """The most important page first, popped in rounds; ties in the order of `add`.

    Importance is estimated online after Abiteboul, Preda and Cobena (2003, OPIC). The start page
    has a cash of 1. A page that is read distributes its cash over the pages that it links to.
    After each page, the richest of the pages read before distributes its cash again, damped. Cash
    alone favours the links of the last page read, so the score multiplies it by the weighted
    number of links to a page and by the prior of its URL.

    Memory: one number for each link of each page read.
    """

    round_size: int | None = ROUND_SIZE
    uses_link_weights = True
    requeues = False

    def __init__(self) -> None:
        self._waiting: dict[str, Candidate] = {}
        self._insertion_order: dict[str, int] = {}
        self._cash: dict[str, float] = {}
        self._prior: dict[str, float] = {}
        self._inlink_weight: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._outlinks: dict[str, tuple[LinkWeights, float]] = {}
        self._added_count = 0

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates; the very first one, the start page, receives all the cash."""
        for candidate in candidates:
            key = candidate.key
            self._waiting[key] = candidate
            self._insertion_order[key] = self._added_count
            self._prior[key] = url_prior(candidate.url)
            self._cash.setdefault(key, 0.0 if self._added_count else 1.0)
            self._added_count += 1
            self._push(key)

    def pop(self) -> Candidate:
        """Remove and return the candidate with the highest score."""
        while True:
            negative_score, _, key = heapq.heappop(self._heap)
            # A candidate is pushed again whenever its score grows: its older entries are stale.
            if key in self._waiting and -negative_score == self._score(key):
                del self._insertion_order[key], self._prior[key]
                return replace(self._waiting.pop(key), score=-negative_score)

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Distribute the cash of the page just read, then that of the richest page read before."""
        outlinks = [(key, weight) for key, weight in links if key != page and weight > 0]
        self._outlinks[page] = (outlinks, sum(weight for _, weight in outlinks))
        for key, weight in outlinks:
            self._inlink_weight[key] = self._inlink_weight.get(key, 0.0) + weight
        self._distribute_cash(page, 1.0)
        richest = max(self._outlinks, key=lambda key: self._cash.get(key, 0.0))
        if self._cash.get(richest, 0.0) > _MIN_CASH:
            self._distribute_cash(richest, DAMPING)

    def can_move(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Return False: `record_links` changes scores, another `add` does not."""
        return False

    def _distribute_cash(self, page: str, share: float) -> None:
        links, total_weight = self._outlinks[page]
        cash, waiting = self._cash, self._waiting
        amount = cash.pop(page, 0.0) * share
        for key, weight in links:
            cash[key] = cash.get(key, 0.0) + amount * weight / total_weight
            if key in waiting:
                self._push(key)

    def _score(self, key: str) -> float:
        return self._cash[key] * (1.0 + self._inlink_weight.get(key, 0.0)) * self._prior[key]

    def _push(self, key: str) -> None:
        heapq.heappush(self._heap, (-self._score(key), self._insertion_order[key], key))

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._waiting.values())

    def state(self) -> Iterator[Section]:
        """Yield the queue, the cash, the weights of the links, and the links of the pages read.

        The heap follows from them: each waiting candidate has one entry with its present score.
        """
        yield _COUNT, [self._added_count]
        yield from sections(_CASH, self._cash.items())
        yield from sections(_INLINKS, self._inlink_weight.items())
        yield from sections(_OUTLINKS, ((page, *links) for page, links in self._outlinks.items()))
        yield from sections(
            _QUEUE,
            (
                [*encode_candidate(each), self._insertion_order[key]]
                for key, each in self._waiting.items()
            ),
        )

    def restore(self, name: str, items: list[Any]) -> None:
        """Add a section; those of `state` in their order."""
        if name == _COUNT:
            [self._added_count] = items
            self._cash.clear()
        elif name == _CASH:
            self._cash.update(items)
        elif name == _INLINKS:
            self._inlink_weight.update(items)
        elif name == _OUTLINKS:
            for page, links, total_weight in items:
                self._outlinks[page] = [tuple(link) for link in links], total_weight
        else:
            for *candidate, insertion_order in items:
                self._restore_candidate(decode_candidate(candidate), insertion_order)

    def _restore_candidate(self, candidate: Candidate, insertion_order: int) -> None:
        key = candidate.key
        self._waiting[key] = candidate
        self._insertion_order[key] = insertion_order
        self._prior[key] = url_prior(candidate.url)
        self._push(key)
