"""Queues of the URLs still to fetch: breadth first, depth first and by importance. Pure."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from webdata_nb.service.crawl.anchor_grading import url_prior
from webdata_nb.service.crawl.candidate import Candidate, decode_candidate, encode_candidate
from webdata_nb.service.crawl.candidate_queue import CandidateQueue
from webdata_nb.service.crawl.recorded_dict import REMOVED, RecordedDict
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
_POPPED: Final = "frontier popped"
_COUNT: Final = "frontier count"
_KEYS: Final = "frontier keys"
_WEIGHTS: Final = "frontier weights"
_OUTLINKS: Final = "frontier outlinks"
# A heap is built anew when it has more stale entries than others, and than this.
_MIN_STALE: Final = 1000

LinkWeights = Sequence[tuple[str, float]]
"""The keys that the links of a page lead to, each with the weight of its link."""


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

    def state(self, *, whole: bool) -> Iterator[Section]:
        """Yield the state, or what changed since the last call, as sections.

        Their names start with `frontier`.
        """

    def restore(self, name: str, items: list[Any]) -> None:
        """Add a section of an earlier state; the frontier is new, and its start page popped."""


class BreadthFirst:
    """First in, first out. Later candidates never change the order of earlier ones."""

    round_size: int | None = None
    uses_link_weights = False
    requeues = False

    def __init__(self) -> None:
        self._queue = CandidateQueue()
        # At the last record: its length; and what was popped since.
        self._recorded = self._popped = 0

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Append in document order."""
        self._queue.extend(candidates)

    def pop(self) -> Candidate:
        """Remove and return the oldest candidate."""
        candidate = self._queue.popleft()
        self._popped += 1
        return candidate

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Do nothing: links do not affect the order."""

    def can_move(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Return False: a queued candidate keeps its position."""
        return False

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._queue)

    def state(self, *, whole: bool) -> Iterator[Section]:
        """Yield how many of the recorded candidates were popped, and those added since."""
        popped = min(self._popped, self._recorded)
        added = len(self._queue) - (self._recorded - popped)
        self._recorded, self._popped = len(self._queue), 0
        if whole:
            popped, added = 0, len(self._queue)
        yield _POPPED, [popped]
        yield from sections(_QUEUE, map(encode_candidate, self._queue.newest(added)))

    def restore(self, name: str, items: list[Any]) -> None:
        """Append to the queue, or remove its oldest candidates."""
        if name == _POPPED:
            for _ in range(items[0]):
                self._queue.popleft()
        else:
            self._queue.extend(map(decode_candidate, items))
        self._recorded, self._popped = len(self._queue), 0


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
        self._stack = RecordedDict[str, Candidate]()

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

    def state(self, *, whole: bool) -> Iterator[Section]:
        """Yield the stack from the bottom; a URL that was moved is one removed and pushed."""
        return self._stack.changes(
            _QUEUE, lambda _, candidate: encode_candidate(candidate), whole=whole
        )

    def restore(self, name: str, items: list[Any]) -> None:
        """Push to the stack, or remove URLs from it."""
        if name == _QUEUE + REMOVED:
            self._stack.restore_removals(items)
        else:
            self._stack.restore((each.key, each) for each in map(decode_candidate, items))


@dataclass(frozen=True, slots=True)
class WeightedLinks:
    """The links of a page read, by the numbers of their keys."""

    numbers: array[int]
    weights: array[float]
    total_weight: float


class BestFirst:
    """The most important page first, popped in rounds; ties in the order of `add`.

    Importance is estimated online after Abiteboul, Preda and Cobena (2003, OPIC). The start page
    has a cash of 1. A page that is read distributes its cash over the pages that it links to.
    After each page, the richest of the pages read before distributes its cash again, damped. Cash
    alone favours the links of the last page read, so the score multiplies it by the weighted
    number of links to a page and by the prior of its URL.

    Memory: 12 bytes for each link of each page read. Time: some heap operations for each link.
    """

    round_size: int | None = ROUND_SIZE
    uses_link_weights = True
    requeues = False

    def __init__(self) -> None:
        # Keys have numbers, in the order in which they were first met.
        self._keys: list[str] = []
        self._number_by_key: dict[str, int] = {}
        self._recorded_keys = 0
        # By the number of a key.
        self._cash = array("d")
        self._inlink_weight = array("d")
        self._changed_weights: set[int] = set()
        self._waiting = RecordedDict[int, Candidate]()
        self._insertion_order: dict[int, int] = {}
        self._prior: dict[int, float] = {}
        # The pages read, in their order.
        self._outlinks = RecordedDict[int, WeightedLinks]()
        self._reading_order: dict[int, int] = {}
        # Entries are not removed when a score or cash changes: such an entry is stale.
        self._heap: list[tuple[float, int, int]] = []
        self._richest: list[tuple[float, int, int]] = []
        self._added_count = 0

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates; the very first one, the start page, receives all the cash."""
        for candidate in candidates:
            number = self._number_of(candidate.key)
            if not self._added_count:
                self._set_cash(number, 1.0)
            self._wait(number, candidate, self._added_count)
            self._added_count += 1

    def pop(self) -> Candidate:
        """Remove and return the candidate with the highest score."""
        while True:
            negative_score, _, number = heapq.heappop(self._heap)
            if number in self._waiting and -negative_score == self._score(number):
                del self._insertion_order[number], self._prior[number]
                candidate: Candidate = self._waiting.pop(number)
                return replace(candidate, score=-negative_score)

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Distribute the cash of the page just read, then that of the richest page read before."""
        number = self._number_of(page)
        outlinks = [
            (self._number_of(key), weight) for key, weight in links if key != page and weight > 0
        ]
        self._read(
            number,
            WeightedLinks(
                array("I", [other for other, _ in outlinks]),
                array("d", [weight for _, weight in outlinks]),
                sum(weight for _, weight in outlinks),
            ),
        )
        for other, weight in outlinks:
            self._inlink_weight[other] += weight
        self._distribute_cash(number, 1.0)
        richest = self._richest_page()
        if richest is not None:
            self._distribute_cash(richest, DAMPING)
        self._drop_stale_entries()

    def can_move(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Return False: `record_links` changes scores, another `add` does not."""
        return False

    def _number_of(self, key: str) -> int:
        number = self._number_by_key.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
            self._cash.append(0.0)
            self._inlink_weight.append(0.0)
        return number

    def _wait(self, number: int, candidate: Candidate, insertion_order: int) -> None:
        self._waiting[number] = candidate
        self._insertion_order[number] = insertion_order
        self._prior[number] = url_prior(candidate.url)
        self._push(number)

    def _read(self, number: int, links: WeightedLinks) -> None:
        self._reading_order.setdefault(number, len(self._reading_order))
        self._outlinks[number] = links

    def _distribute_cash(self, page: int, share: float) -> None:
        links = self._outlinks[page]
        amount = self._cash[page] * share
        self._set_cash(page, 0.0)
        for number, weight in zip(links.numbers, links.weights, strict=True):
            self._set_cash(number, self._cash[number] + amount * weight / links.total_weight)

    def _set_cash(self, number: int, cash: float) -> None:
        self._cash[number] = cash
        self._changed_weights.add(number)
        self._push(number)

    def _score(self, number: int) -> float:
        return self._cash[number] * (1.0 + self._inlink_weight[number]) * self._prior[number]

    def _push(self, number: int) -> None:
        """Add entries with the present score of a page, or its cash if it was read."""
        if number in self._waiting:
            entry = -self._score(number), self._insertion_order[number], number
            heapq.heappush(self._heap, entry)
        elif number in self._reading_order and self._cash[number] > _MIN_CASH:
            entry = -self._cash[number], self._reading_order[number], number
            heapq.heappush(self._richest, entry)

    def _richest_page(self) -> int | None:
        """Return the page read with the most cash, the first of several; None if it is little."""
        while self._richest:
            negative_cash, _, number = self._richest[0]
            if -negative_cash == self._cash[number]:
                return number
            heapq.heappop(self._richest)
        return None

    def _drop_stale_entries(self) -> None:
        if len(self._heap) > 2 * len(self._waiting) + _MIN_STALE:
            self._heap.clear()
            for number in self._waiting:
                self._push(number)
        if len(self._richest) > 2 * len(self._outlinks) + _MIN_STALE:
            self._richest.clear()
            for number in self._outlinks:
                self._push(number)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._waiting.values())

    def state(self, *, whole: bool) -> Iterator[Section]:
        """Yield the keys, their weights, the queue, and the links of the pages read.

        The heaps follow from them.
        """
        keys = self._keys if whole else self._keys[self._recorded_keys :]
        self._recorded_keys = len(self._keys)
        numbers = range(len(self._keys)) if whole else sorted(self._changed_weights)
        self._changed_weights = set()
        yield _COUNT, [self._added_count]
        yield from sections(_KEYS, keys)
        yield from sections(
            _WEIGHTS, ((each, self._cash[each], self._inlink_weight[each]) for each in numbers)
        )
        yield from self._waiting.changes(
            _QUEUE,
            lambda number, each: [number, self._insertion_order[number], *encode_candidate(each)],
            whole=whole,
        )
        yield from self._outlinks.changes(_OUTLINKS, _encode_links, whole=whole)

    def restore(self, name: str, items: list[Any]) -> None:
        """Add a section; those of `state` in their order."""
        if name == _COUNT:
            [self._added_count] = items
        elif name == _KEYS:
            for key in items:
                self._number_of(key)
            self._recorded_keys = len(self._keys)
        elif name == _WEIGHTS:
            for number, cash, inlink_weight in items:
                self._cash[number], self._inlink_weight[number] = cash, inlink_weight
                self._push(number)
        elif name == _OUTLINKS:
            for number, numbers, weights, total_weight in items:
                links = WeightedLinks(array("I", numbers), array("d", weights), total_weight)
                self._reading_order[number] = len(self._reading_order)
                self._outlinks.restore([(number, links)])
                self._push(number)
        elif name == _QUEUE + REMOVED:
            self._waiting.restore_removals(items)
            for number in items:
                self._insertion_order.pop(number, None)
                self._prior.pop(number, None)
        else:
            self._restore_queue(items)

    def _restore_queue(self, items: list[Any]) -> None:
        for number, insertion_order, *encoded in items:
            candidate = decode_candidate(encoded)
            self._waiting.restore([(number, candidate)])
            self._insertion_order[number] = insertion_order
            self._prior[number] = url_prior(candidate.url)
            self._push(number)


def _encode_links(number: int, links: WeightedLinks) -> list[Any]:
    return [number, links.numbers.tolist(), links.weights.tolist(), links.total_weight]
